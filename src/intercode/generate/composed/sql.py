"""Composed SQL tasks: each step is a SELECT on the rows of the step before, and instructions are in
tables of the same database.

    WITH step1 AS (SELECT … FROM orders …), step2 AS (SELECT … FROM step1 JOIN customers …)
    SELECT … FROM step2 …

A database has one of the worlds of `composed/sql.toml`: tables of events (id, day, who, kind,
amount) with the same columns, and tables about people and kinds. Golds run in this process, on
SQLite; they are written for MariaDB too: no concatenation, no functions of dates.
"""

from __future__ import annotations

import json
import sqlite3
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from intercode.generate.composition import (
    FOLDER,
    Chain,
    Instruction,
    Language,
    Primitive,
    Result,
    Writer,
    text_of,
)
from intercode.generate.families import Draw, Parameters, Place

ROWS, PEOPLE, KINDS = 46, 9, 5
Row = Sequence[str | int]
_DATA = tomllib.loads((FOLDER / "sql.toml").read_text("utf-8"))
WORLDS: Mapping[str, Parameters] = _DATA["worlds"]
WORDS: Mapping[str, Sequence[str]] = {
    name: words.split() if isinstance(words, str) else words
    for name, words in _DATA["words"].items()
}


# -- material --------------------------------------------------------------------------------------


def _add(place: Place, name: str, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Add a table to the place and return its name; the values of a column decide its type."""
    definitions = list[str]()
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        longest = max(len(value) if isinstance(value, str) else 0 for value in values)
        kind = "INTEGER" if longest == 0 else "VARCHAR(40)" if longest <= 40 else "TEXT"
        definitions.append(f"{column} {kind}")
    lines = [", ".join(_quoted(value) for value in row) for row in rows]
    place.files[name] = (
        f"CREATE TABLE {name} (\n  {(',' + chr(10) + '  ').join(definitions)}\n);\n"
        f"INSERT INTO {name} VALUES\n  ({('),' + chr(10) + '  (').join(lines)});\n"
    )
    return name


def _quoted(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _unused(draw: Draw, place: Place, names: Sequence[str]) -> str:
    """Return a name that no table has, if need be with a number."""
    taken = {*place.files, place.facts["start"]}
    free = [name for name in names if name not in taken]
    return draw.choice(free) if free else f"{draw.choice(names)}_{len(taken)}"


def days_of(draw: Draw) -> list[str]:
    """Return days of four months, which all tables of events share."""
    year, month = draw.number(2015, 2030), draw.randint(1, 9)
    days = {f"{year}-{month + draw.randrange(4):02}-{draw.randint(1, 28):02}" for _ in range(16)}
    return sorted(days)


def _facts(draw: Draw, place: Place) -> Parameters:
    """Add a table of events. Some differ from another one only in the id."""
    data, number = place.data, 1000 * (1 + len(place.files))
    amounts = [draw.randint(5, 240) for _ in range(20)]
    rows = list[list[str | int]]()
    for id in draw.sample(range(number, number + 400), ROWS):
        event = [draw.choice(data[name]) for name in ("days", "people", "kinds")]
        row = [id, *event, draw.choice(amounts)]
        if rows and draw.random() < 0.25:
            row[1:4] = draw.choice(rows)[1:4]
        rows.append(row)
    columns = ["id", *(place.facts[name] for name in ("day", "who", "kind", "amount"))]
    name = _unused(draw, place, data["world"]["facts"])
    low = sorted(row[-1] for row in rows)[8:24]
    return {
        "table": _add(place, name, columns, rows),
        "theirs": list(data["kinds"]),
        "limit": low,
    }


def _register(draw: Draw, place: Place) -> Parameters:
    """Add a table with two traits of each person."""
    world = place.data["world"]
    traits, marks = draw.sample(world["traits"], 2), draw.sample(world["marks"], 6)
    rows = [
        (person, draw.choice(marks[:3]), draw.choice(marks[3:])) for person in place.data["people"]
    ]
    name = _unused(draw, place, world["registers"])
    table = _add(place, name, [place.facts["who"], *traits], rows)
    return {"table": table, "trait": traits[0], "mark": marks[:2], "mark2": marks[2]}


def _listed(draw: Draw, place: Place) -> Parameters:
    """Add a table with entries of some people: a day and a reason."""
    world, people = place.data["world"], place.data["people"]
    since = draw.choice(WORDS["since"])
    rows = [
        (person, draw.choice(place.data["days"]), draw.choice(world["reasons"]))
        for person in [*draw.sample(people, 5), *draw.sample(people, 2)]
    ]
    name = _unused(draw, place, world["listed"])
    table = _add(place, name, [place.facts["who"], since, "reason"], rows)
    return {"table": table, "since": since, "reason": sorted({row[2] for row in rows})}


def _fees(draw: Draw, place: Place) -> Parameters:
    """Add a table with a number for most kinds."""
    world = place.data["world"]
    fee = draw.choice(world["fee"])
    rows = [(kind, draw.randint(2, 60)) for kind in draw.sample(place.data["kinds"], KINDS - 1)]
    name = _unused(draw, place, world["fees"])
    return {"table": _add(place, name, [place.facts["kind"], fee], rows), "fee": fee}


def _bonus(draw: Draw, place: Place) -> Parameters:
    """Add a table with numbers of some people, of some two."""
    world, people = place.data["world"], place.data["people"]
    fee = draw.choice(world["fee"])
    chosen = [*draw.sample(people, 6), *draw.sample(people, 3)]
    rows = [(person, draw.randint(2, 60)) for person in chosen]
    name = _unused(draw, place, world["bonuses"])
    return {"table": _add(place, name, [place.facts["who"], fee], rows), "fee": fee}


_MATERIALS: Mapping[str, Callable[[Draw, Place], Parameters]] = {
    "facts": _facts,
    "register": _register,
    "listed": _listed,
    "fees": _fees,
    "bonus": _bonus,
}


def _limits(draw: Draw, cells: Sequence[str]) -> Parameters:
    """Return numbers in the lower and the upper half of a column, if it has numbers."""
    numbers = sorted(int(cell) for cell in cells if cell.lstrip("-").isdigit())
    cut = len(numbers) // 2
    low, high = numbers[len(numbers) // 6 : cut + 1], numbers[cut : len(numbers) - cut // 3]
    return {
        "limit": [draw.limit(low) for _ in range(4)],
        "high": [draw.limit(high) + 1 for _ in range(4)],
    }


def _choices(draw: Draw, place: Place, rows: Sequence[Sequence[str]]) -> Parameters:
    """Return days and kinds of the rows."""
    days = sorted({row[1] for row in rows})
    cut = len(days) // 2
    present = sorted({row[3] for row in rows})
    absent = [kind for kind in place.data["kinds"] if kind not in present]
    kinds = [*draw.sample(present, len(present)), *absent]
    return {
        "date": days[: cut + 1],
        "late": days[cut:],
        "month": sorted({day[:7] for day in days}),
        "value": kinds[:2],
        "other": kinds[2:4],
    }


def _has_shares(values: Sequence[int]) -> bool:
    """Return whether no percentage is halfway between two numbers."""
    wholes = (sum(values), max(values))
    return min(values) >= 0 < max(values) and not any(
        200 * value % whole == 0 and 200 * value // whole % 2
        for value in values
        for whole in wholes
    )


# -- forms -----------------------------------------------------------------------------------------

Entries = Mapping[str, Instruction]


def _keys(entries: Entries) -> list[str | int]:
    """Return the keys, as numbers if all are."""
    if all(key.isdigit() for key in entries):
        return list(map(int, entries))
    return list(entries)


def _texts(draw: Draw, entries: Entries) -> list[str]:
    return [text_of(draw, instruction).strip() for instruction in entries.values()]


def _names(draw: Draw, place: Place, *names: str) -> Parameters:
    """Return a name of each sort, that of a table unused."""
    return {
        name: _unused(draw, place, WORDS[name]) if name == "table" else draw.choice(WORDS[name])
        for name in names
    }


def _row(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "code", "text")
    rows = list(zip(_keys(entries), _texts(draw, entries), strict=True))
    _add(place, names["table"], [names["code"], names["text"]], rows)
    return names


def _table(draw: Draw, place: Place, entries: Entries) -> Parameters:
    used = {name.partition("_")[0] for name in place.files}
    prefix = draw.choice([prefix for prefix in WORDS["prefix"] if prefix not in used])
    column = draw.choice(WORDS["text"])
    for key, text in zip(entries, _texts(draw, entries), strict=True):
        _add(place, f"{prefix}_{key}", [column], [(text,)])
    return {"prefix": prefix}


def _document(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "code")
    rows = [
        (json.dumps({names["code"]: key, "task": each.task, "next": each.next}, indent=1),)
        for key, each in zip(_keys(entries), entries.values(), strict=True)
    ]
    _add(place, names["table"], ["document"], rows)
    return names


def _log(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table")
    days = sorted(draw.choices(place.data["days"], k=len(entries)))
    messages = [f"[{key}] {each.task} {each.next}" for key, each in entries.items()]
    rows = [
        (f"{day} {draw.randint(0, 23):02}:{draw.randint(0, 59):02}", message)
        for day, message in zip(days, messages, strict=True)
    ]
    _add(place, names["table"], ["logged_at", "message"], rows)
    return names


def _parts(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "code", "text", "number")
    rows = list[Row]()
    for key, each in zip(_keys(entries), entries.values(), strict=True):
        words = f"{each.task} {each.next}".split(" ")
        size = len(words) // 3 + 1
        pieces = [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
        rows += [(key, number, piece) for number, piece in enumerate(pieces, 1)]
    columns = [names[name] for name in ("code", "number", "text")]
    _add(place, names["table"], columns, draw.sample(rows, len(rows)))
    return names


def _reference(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "code", "ref", "text")
    numbers = draw.sample(range(10, 100), len(entries))
    rows = list(zip(numbers, _texts(draw, entries), strict=True))
    _add(place, names["table"], [names["ref"], names["text"]], sorted(rows))
    index = _unused(draw, place, WORDS["table"])
    pairs = list(zip(_keys(entries), numbers, strict=True))
    _add(place, index, [names["code"], names["ref"]], pairs)
    return names | {"index": index}


def _attributes(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "code")
    rows = [
        (key, *field)
        for key, each in zip(_keys(entries), entries.values(), strict=True)
        for field in (("task", each.task), ("next", each.next))
    ]
    columns = [names["code"], "field", "content"]
    _add(place, names["table"], columns, draw.sample(rows, len(rows)))
    return names


def _columns(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "prefix")
    columns = [f"{names['prefix']}_{key}" for key in entries]
    _add(place, names["table"], columns, [tuple(_texts(draw, entries))])
    return names


def _mail(draw: Draw, place: Place, entries: Entries) -> Parameters:
    names = _names(draw, place, "table", "subject")
    rows = [
        (draw.choice(WORDS["surnames"]), f"{names['subject']} {key}", text)
        for key, text in zip(entries, _texts(draw, entries), strict=True)
    ]
    _add(place, names["table"], ["sender", "subject", "body"], rows)
    return names


def _text(rows: Sequence[Row]) -> str:
    """Return rows in a fixed order, as lines of cells."""
    lines = [[f"{v:.9g}" if isinstance(v, float) else v for v in row] for row in rows]
    lines.sort(key=lambda row: [(isinstance(value, str), value or 0) for value in row])
    return "".join("\t".join(map(str, row)) + "\n" for row in lines)


class Sql(Language):
    env = "sql"
    begin = "rows"

    writers: ClassVar[Mapping[str, Writer]] = {
        "row": _row,
        "table": _table,
        "document": _document,
        "log": _log,
        "parts": _parts,
        "reference": _reference,
        "attributes": _attributes,
        "columns": _columns,
        "mail": _mail,
    }

    def place(self, draw: Draw, name: str) -> Place:
        world = draw.choice(list(WORLDS.values()))
        columns = {name: draw.choice(world[name]) for name in ("who", "day", "kind", "amount")}
        people = draw.words(WORDS[world.get("names", "surnames")], PEOPLE)
        kinds = draw.sample(world["kinds"], KINDS)
        data = {"world": world, "people": people, "kinds": kinds, "days": days_of(draw)}
        db = name.replace("-", "_")
        place = Place(name, facts={"db": db, "start": draw.choice(WORDS["start"]), **columns})
        place.data = data
        data["base"] = _facts(draw, place)["table"]
        return place

    def material(
        self, draw: Draw, place: Place, primitive: Primitive, before: str
    ) -> Parameters | str:
        if not before and (result := self.run(place, [()])[0]):
            before = result.text
        rows = [line.split("\t") for line in before.splitlines()]
        parameters = {**place.facts, "few": [2, 3], **_limits(draw, [row[-1] for row in rows])}
        if primitive.takes == "rows":
            parameters |= _choices(draw, place, rows)
        if primitive.material:
            material = _MATERIALS[primitive.material](draw, place)
            parameters |= material
        if primitive.name == "share" and not _has_shares([int(row[-1]) for row in rows]):
            return "percentages are not exact"
        return parameters

    def run(self, place: Place, chains: Sequence[Chain]) -> Sequence[Result | None]:
        connection = sqlite3.connect(":memory:")
        connection.executescript("".join(map(str, place.files.values())))
        results = list[Result | None]()
        for chain in chains:
            try:
                rows = connection.execute(self.gold(place, chain)).fetchall()
            except sqlite3.Error:
                results.append(None)
            else:
                results.append(Result(_text(rows)))
        connection.close()
        return results

    def gold(self, place: Place, chain: Chain) -> str:
        base = place.data["base"]
        names = [base, *(f"step{number}" for number in range(1, len(chain)))]
        steps = [step.replace("$in", name) for step, name in zip(chain, names, strict=False)]
        *steps, last = steps or [f"SELECT * FROM {base}"]
        named = [f"{name} AS (\n  {step}\n)" for name, step in zip(names[1:], steps, strict=True)]
        return f"WITH {', '.join(named)}\n{last}" if named else last

    def near(self, draw: Draw, place: Place, key: str) -> str:
        return (
            draw.choice(place.data["people"]) if key.isalpha() else super().near(draw, place, key)
        )

    def finish(self, draw: Draw, place: Place, first: Instruction) -> None:
        begin = draw.choice(_DATA["begin"]).replace("<table>", place.data["base"])
        first = Instruction(f"{begin} {first.task}", first.gold, next=first.next)
        _add(place, place.facts["start"], WORDS["text"][:1], [(text_of(draw, first).strip(),)])
        script = "\n".join(map(str, draw.sample(list(place.files.values()), len(place.files))))
        place.files = {f"databases/{place.facts['db']}.sql": script}
