"""Composed Python tasks: the task is one function, each step a few of its statements.

    def monthly_report(records):
        rows = [row for row in records if row["channel"] == "web"]
        names = sorted({row["customer"] for row in rows})
        return names

Instructions are in text files and modules of the tree. Keys are digests of what the steps return
for the list in a sample file; the tests use other lists. Golds are executed in this process.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ClassVar

from intercode.generate.composed.forms import WORDS as FILES
from intercode.generate.composed.forms import WRITERS, path_of
from intercode.generate.composed.worlds import COLUMNS, draw_events, draw_world, limits
from intercode.generate.composition import (
    Chain,
    Entries,
    Language,
    Primitive,
    Result,
    Writer,
    text_of,
)
from intercode.generate.draws import as_text, read_toml
from intercode.generate.families import Draw, Parameters, Place

WORDS = read_toml("composed/python")["words"]
SIZES = (0, 3, 8, 10, 12, 12, 14, 14, 16)
"""The numbers of records in the tests."""
SAMPLE = 30
VARIABLE = re.compile(r"^(rows|values|names) = ", re.MULTILINE)
Record = dict[str, Any]


@dataclass(frozen=True)
class Tested(Result):
    """A function's result for the sample, as a text, and those for the tests, which alone count."""

    text: str = field(compare=False)


def _records(draw: Draw, place: Place, count: int) -> list[Record]:
    columns, records = itemgetter(*COLUMNS)(place.facts), []
    for event in draw_events(draw, place.data, count):
        records.append(dict(zip(columns, event, strict=True)))
    return records


def lines_of(place: Place, result: Any) -> str:
    """Return a result as lines that begin with a name and, if it has numbers, end with one."""
    if isinstance(result, dict):
        return as_text(f"{name} {value}" for name, value in sorted(result.items()))
    who, amount, lines = place.facts["who"], place.facts["amount"], []
    for row in result:
        if not isinstance(row, str):
            row = f"{row[who]} {list(row.values())} {row[amount]}"
        lines.append(row)
    return as_text(lines)


# -- forms -----------------------------------------------------------------------------------------


def _dict(draw: Draw, place: Place, entries: Entries) -> Parameters:
    path, name = path_of(draw, place, ".py"), draw.choice(("STEPS", "NOTES", "TASKS", "LEADS"))
    pairs = [f"    {key!r}: {text_of(draw, entry)!r}," for key, entry in entries.items()]
    place.write(path, f"{name} = {{\n{as_text(pairs)}}}\n")
    return {"path": path, "name": name}


def _docstring(draw: Draw, place: Place, entries: Entries) -> Parameters:
    path, name = path_of(draw, place, ".py"), draw.choice(("step", "after", "task", "part"))
    functions = []
    for key, entry in entries.items():
        text = text_of(draw, entry).strip()
        functions.append(f'def {name}_{key}():\n    """{text}"""\n')
    place.write(path, "\n\n".join(functions))
    return {"path": path, "name": name}


def _call(draw: Draw, place: Place, entries: Entries) -> Parameters:
    """Write a module with a function that returns a text, which a reader of the module sees only
    in base64, under a checksum of the key."""
    path, name = path_of(draw, place, ".py"), draw.choice(("next_step", "lookup", "step_for"))
    pairs = ""
    for key, entry in entries.items():
        encoded = base64.b64encode(text_of(draw, entry).encode())
        pairs += f"    {zlib.crc32(key.encode())}: {encoded!r},\n"
    place.write(
        path,
        f"import base64\nimport zlib\n\nTEXTS = {{\n{pairs}}}\n\n\ndef {name}(key):\n"
        "    return base64.b64decode(TEXTS[zlib.crc32(str(key).encode())]).decode()\n",
    )
    return {"path": path, "name": name}


class Python(Language):
    env = "python"
    begin = "rows"
    writers: ClassVar[Mapping[str, Writer]] = {
        **WRITERS,
        "dict": _dict,
        "docstring": _docstring,
        "call": _call,
    }

    def place(self, draw: Draw, name: str) -> Place:
        columns, data = draw_world(draw)
        site = f"/{draw.choice(FILES['roots'])}/{name}"
        facts = {
            "site": site,
            "taken": set(),
            "start": f"{site}/{draw.choice(FILES['starts'])}",
            "sample": f"{site}/{draw.choice(WORDS['sample'])}.json",
            "function": f"{draw.choice(WORDS['verb'])}_{draw.choice(data['facts'])}",
            **columns,
        }
        place = Place(name, facts=facts, data=data)
        data["sample"] = _records(draw, place, SAMPLE)
        data["inputs"] = [(_records(draw, place, size),) for size in SIZES]
        lines = ",\n".join(map(json.dumps, data["sample"]))
        place.write(facts["sample"], f"[\n{lines}\n]\n")
        return place

    def material(
        self, draw: Draw, place: Place, primitive: Primitive, before: str
    ) -> Parameters | str:
        data, days = place.data, place.data["days"]
        kinds, people = draw.sample(data["kinds"], 5), draw.sample(data["whos"], 4)
        numbers = []
        for line in before.splitlines():
            end = line.split()[-1]
            if end.lstrip("-").isdecimal():
                numbers.append(int(end))
        fees = {kind: draw.randint(2, 60) for kind in kinds[:4]}
        path, content = "", json.dumps(people)
        if primitive.material == "fees":
            content = json.dumps(fees)
        if primitive.material:
            path = path_of(draw, place, ".json")
            place.write(path, f"{content}\n")
        return {
            **place.facts,
            **limits(draw, numbers or data["amounts"]),
            "path": path,
            "numbers": repr(fees),
            "names": repr(people),
            "few": [2, 3],
            "many": [5, 6, 7],
            "value": kinds[:2],
            "other": kinds[2:4],
            "date": days[2:8],
            "late": days[6:-2],
            "month": sorted({day[:7] for day in days}),
            "letter": list("aeiorn"),
        }

    def run(self, place: Place, chains: Sequence[Chain]) -> Sequence[Result | None]:
        results = list[Result | None]()
        inputs = [(place.data["sample"],), *place.data["inputs"]]
        for chain in chains:
            scope: Parameters = {"itertools": itertools}
            try:
                exec(self.gold(place, chain), scope)
                function = scope[place.facts["function"]]
                sample, *returned = (function(*arguments) for arguments in inputs)
            except Exception:
                results.append(None)
                continue
            for number, value in enumerate(returned):
                if isinstance(value, dict):  # its order does not count
                    returned[number] = sorted(value.items())
            most = max(Counter(map(repr, returned)).values())
            if most > len(returned) // 2:
                results.append(None)
            else:
                results.append(Tested(lines_of(place, sample), repr(returned)))
        return results

    def gold(self, place: Place, chain: Chain) -> str:
        variable, lines = "records", list[str]()
        for step in chain:
            lines += step.strip().replace("$in", variable).split("\n")
            variable = VARIABLE.findall(step)[-1]
        body, start = as_text(f"    {line}" for line in [*lines, f"return {variable}"]), ""
        if "itertools" in body:
            start = "import itertools\n\n\n"
        return f"{start}def {place.facts['function']}(records):\n{body}"
