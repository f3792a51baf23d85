"""SQL tasks of several steps: each step is a SELECT on the rows of the step before, and
instructions are in tables of the same database.

    WITH step1 AS (SELECT … FROM orders …), step2 AS (SELECT … FROM step1 JOIN customers …)
    SELECT … FROM step2 …

A database has a world of `worlds.toml`: tables of events (id, day, who, kind, amount) with
the same columns, and tables about people and kinds. Golds are executed on SQLite, in this process;
they mean the same to MariaDB: no concatenation, no functions of dates, no division.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

from intercode.generate.composed.worlds import COLUMNS, NAMES, draw_events, draw_world, limits
from intercode.generate.composition import (
    Chain,
    Entries,
    Instruction,
    Language,
    Primitive,
    Result,
    Writer,
    text_of,
)
from intercode.generate.draws import Texts, as_text, read_toml, without
from intercode.generate.families import Draw, Parameters, Place, fill

ROWS = 46
_DATA = read_toml("composed/sql")
WORDS: Mapping[str, Texts] = _DATA["words"]


# -- tables ----------------------------------------------------------------------------------------


def _add(place: Place, name: str, columns: Texts, rows: Sequence[Sequence[Any]]) -> str:
    """Add a table to the place and return its name; the values of a column decide its type."""
    definitions, quotes = list[str](), list[str]()
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        texts = [*map(str, values)]
        quotes.append("'")
        if all(map(str.isdecimal, texts)):
            kind, quotes[-1] = "INTEGER", ""
        elif max(map(len, texts)) <= 40:
            kind = "VARCHAR(40)"
        else:
            kind = "TEXT"
        definitions.append(f"{column} {kind}")
    lines = []
    for row in rows:
        cells = []
        for value, quote in zip(row, quotes, strict=True):
            cells.append(quote + str(value).replace("'", "''") + quote)
        lines.append(f"  ({', '.join(cells)})")
    text = ",\n".join(lines)
    place.files[name] = (
        f"CREATE TABLE {name} ({', '.join(definitions)});\nINSERT INTO {name} VALUES\n{text};\n"
    )
    return name


def _unused(draw: Draw, place: Place, names: Texts) -> str:
    """Return a name that no table has, if need be with a number."""
    taken = {*place.files, place.facts["start"]}
    free = without(names, taken)
    if free:
        return draw.choice(free)
    return f"{draw.choice(names)}_{len(taken)}"


def _facts(draw: Draw, place: Place) -> Parameters:
    number = 1000 * (1 + len(place.files))
    ids = draw.sample(range(number, number + 400), ROWS)
    rows = []
    for id, event in zip(ids, draw_events(draw, place.data, ROWS), strict=True):
        rows.append([id, *event])
    columns = ("id", *itemgetter(*COLUMNS)(place.facts))
    table = _add(place, _unused(draw, place, place.data["facts"]), columns, rows)
    return {"table": table, "theirs": list(place.data["kinds"])}


def _material(
    draw: Draw, place: Place, *, key: str, tables: str, count: int, again: int, columns: Parameters
) -> Parameters:
    """Add a table about `count` of the people or kinds, and `again` some of them.

    `columns` are further columns with the list, or the lists by name, of their values. Return the
    name of the table and of each COLUMN, and its values as COLUMN_value and COLUMN_other.
    """
    data = place.data
    names = [*draw.sample(data[f"{key}s"], count), *draw.sample(data[f"{key}s"], again)]
    header, values = dict[str, str](), list[list[str]]()
    parameters = Parameters()
    for column, source in columns.items():
        lists = data[source]
        if not isinstance(lists, dict):
            lists = dict.fromkeys(data.get(column) or WORDS[column], lists)
        header[column] = draw.choice(list(lists))
        *some, other = draw.sample(lists[header[column]], 3)
        values.append([*some, other])
        parameters |= {f"{column}_value": some, f"{column}_other": other}
    rows = [[name, *map(draw.choice, values)] for name in names]
    table = _unused(draw, place, data[tables])
    _add(place, table, [place.facts[key], *header.values()], rows)
    return {"table": table, **header, **parameters}


_MATERIALS: Mapping[str, Callable[[Draw, Place], Parameters]] = {
    "facts": _facts,
    **{name: partial(_material, **entry) for name, entry in _DATA["materials"].items()},
}


def _choices(draw: Draw, place: Place, rows: Sequence[Texts]) -> Parameters:
    """Return days and kinds of the rows."""
    days = sorted({*map(itemgetter(1), rows)})
    kinds = sorted({*map(itemgetter(3), rows)})
    absent, cut = without(place.data["kinds"], kinds), len(days) // 2
    kinds = [*draw.shuffled(kinds), *absent]
    return {
        "date": days[: cut + 1],
        "late": days[cut:],
        "month": sorted({day[:7] for day in days}),
        "value": kinds[:2],
        "other": kinds[2:4],
    }


# -- forms -----------------------------------------------------------------------------------------


def _cells(draw: Draw, place: Place, key: str, instruction: Instruction) -> Parameters:
    """Return what the cells of a form can contain."""
    words = f"{instruction.task} {instruction.next}".split(" ")
    third = len(words) // 3
    return {
        "key": key,
        "task": instruction.task,
        "next": instruction.next,
        "whole": text_of(draw, instruction).strip(),
        "part1": " ".join(words[:third]),
        "part2": " ".join(words[third : 2 * third]),
        "part3": " ".join(words[2 * third :]),
        "day": draw.choice(place.data["days"]),
        "sender": draw.choice(NAMES["surnames"]),
    }


def _rows(draw: Draw, place: Place, entries: Entries, *, form: str) -> Parameters:
    """Write the tables of a form in `sql.toml`, with the rows of each instruction."""
    names: Parameters = {name: draw.choice(words) for name, words in WORDS.items()}
    half = draw.randrange(2)
    names["table"] = _unused(draw, place, WORDS["table"][half::2])
    names["index"] = _unused(draw, place, WORDS["table"][1 - half :: 2])
    refs, cells = draw.sample(range(10, 100), len(entries)), []
    for ref, (key, instruction) in zip(refs, entries.items(), strict=True):
        cells.append({**names, **_cells(draw, place, key, instruction), "at": ref})
    for table, (columns, *rows) in _DATA["tables"][form].items():
        written = []
        for values in cells:
            for row in rows:
                written.append([fill(cell, values) for cell in row])
        header = [fill(column, names) for column in columns]
        _add(place, names[table], header, draw.shuffled(written))
    return names


def _tables(draw: Draw, place: Place, entries: Entries) -> Parameters:
    """Write a table for each instruction."""
    used = {name.partition("_")[0] for name in place.files}
    prefix = draw.choice(without(WORDS["prefix"], used))
    for key, instruction in entries.items():
        _add(place, f"{prefix}_{key}", [draw.choice(WORDS["text"])], [[text_of(draw, instruction)]])
    return {"prefix": prefix}


def _columns(draw: Draw, place: Place, entries: Entries) -> Parameters:
    """Write a table of one row, with a column for each instruction."""
    prefix, name = draw.choice(WORDS["prefix"]), _unused(draw, place, WORDS["table"])
    columns, row = [], []
    for key, instruction in entries.items():
        columns.append(f"{prefix}_{key}")
        row.append(text_of(draw, instruction))
    _add(place, name, columns, [row])
    return {"prefix": prefix, "table": name}


class Sql(Language):
    env = "sql"
    begin = "rows"
    writers: ClassVar[Mapping[str, Writer]] = {
        **{form: partial(_rows, form=form) for form in _DATA["tables"]},
        "tables": _tables,
        "columns": _columns,
    }

    def place(self, draw: Draw, name: str) -> Place:
        columns, data = draw_world(draw)
        facts = {"db": name.replace("-", "_"), "start": draw.choice(WORDS["start"]), **columns}
        place = Place(name, facts=facts, data=data)
        data["base"] = _facts(draw, place)["table"]
        (start,) = self.run(place, [()])
        assert start
        data["text"] = start.text
        return place

    def material(
        self, draw: Draw, place: Place, primitive: Primitive, before: str
    ) -> Parameters | str:
        rows = [line.split("\t") for line in (before or place.data["text"]).splitlines()]
        numbers = [int(row[-1]) for row in rows if row[-1].lstrip("-").isdecimal()]
        parameters = {
            **place.facts,
            "few": [2, 3],
            "percent": [5, 8, 10, 15],
            **limits(draw, numbers or range(20, 90)),
        }
        if primitive.takes == "rows":
            parameters |= _choices(draw, place, rows)
        if primitive.material:
            parameters |= _MATERIALS[primitive.material](draw, place)
        return parameters

    def run(self, place: Place, chains: Sequence[Chain]) -> Sequence[Result | None]:
        results = list[Result | None]()
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript("".join(map(str, place.files.values())))
            for chain in chains:
                try:
                    rows = connection.execute(self.gold(place, chain)).fetchall()
                except sqlite3.Error:
                    results.append(None)
                else:
                    results.append(Result(lines_of(rows)))
        return results

    def gold(self, place: Place, chain: Chain) -> str:
        base = place.data["base"]
        names = [base, *(f"step{number}" for number in range(1, len(chain)))]
        steps = []
        for step, name in zip(chain or ("SELECT * FROM $in",), names, strict=True):
            steps.append(step.replace("$in", name))
        *named, last = steps
        if not named:
            return last
        parts = [f"{name} AS (\n  {step}\n)" for name, step in zip(names[1:], named, strict=True)]
        return f"WITH {', '.join(parts)}\n{last}"

    def near(self, draw: Draw, place: Place, key: str) -> str:
        ids: list[str] = re.findall(r"\((\d{4,}), ", "".join(map(str, place.files.values())))
        if key in ids:  # a number that is no id could be ruled out at a glance
            return draw.choice([id for id in ids if id[:-3] == key[:-3]])
        return super().near(draw, place, key)

    def finish(self, draw: Draw, place: Place, first: Instruction) -> None:
        begin = fill(draw.choice(_DATA["begin"]), {"table": place.data["base"]})
        first = replace(first, task=f"{begin} {first.task}")
        column = draw.choice(WORDS["text"])
        _add(place, place.facts["start"], [column], [[text_of(draw, first)]])
        script = "\n".join(map(str, draw.shuffled(place.files.values())))
        place.files = {f"databases/{place.facts['db']}.sql": script}


def lines_of(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows in a fixed order, as lines of cells."""
    lines = []
    for row in rows:
        lines.append([f"{value:.9g}" if isinstance(value, float) else value for value in row])
    lines.sort(key=lambda row: [(isinstance(value, str), value or 0) for value in row])
    return as_text("\t".join(map(str, row)) for row in lines)
