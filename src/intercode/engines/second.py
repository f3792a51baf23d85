"""Second contents: other rows in the same tables, made by a seeded generator.

    rows ── some values: another row's, a little more or less, or NULL ── some rows once more, under a new key ──► rows

What joins hold on to stays: primary, foreign and unique keys. So do the values that golds name, as a query about them would
otherwise find nothing. A statement that answers its question agrees with the gold here too; one that was fitted to the first
contents, or wrote their answer down, most often does not.
"""

from __future__ import annotations

import datetime
import hashlib
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from intercode.engines.base import Engine
from intercode.engines.dump import Databases
from intercode.engines.tables import Shape, inserts, read
from intercode.sandbox import cache

Literals = Collection[str | int | float]

_LAYOUT = "1"
_SWAP, _NUDGE, _NULL, _AGAIN = 0.15, 0.15, 0.05, 0.2
"""Shares: values taken from another row, moved a little, made NULL; rows that come once more."""
_SHORT = 2
"""A text shorter than this is a literal only as a whole."""


def second_databases(
    make: Callable[[], Engine], content: Databases, literals: Mapping[str, Literals] | None = None, *, seed: int = 0
) -> Databases:
    """The same databases with other rows, in the SQL of the engine that `make` makes; `literals` by database are kept."""
    kept = {db: sorted(map(repr, values)) for db, values in sorted((literals or {}).items())}
    with make() as engine:
        words = (_LAYOUT, content.digest, engine.dialect, repr(kept), str(seed))
        key = hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:32]
        folder = cache.folder("databases", key, lambda made: _write(engine, literals or {}, seed, made))
    return Databases("portable", key, {file.stem: (file.read_text("utf-8"),) for file in sorted(folder.glob("*.sql"))})


def altered(shapes: list[Shape], kept: Literals, seed: int, name: str) -> list[Shape]:
    """The tables with other rows."""
    referred = {(each.table.lower(), target.lower()) for shape in shapes for each in shape.foreign for target in each.targets}
    return [_altered(shape, referred, kept, random.Random(f"{seed}\0{name}\0{shape.name}")) for shape in shapes]


def _write(engine: Engine, literals: Mapping[str, Literals], seed: int, made: Path) -> None:
    how = "INSERT IGNORE" if engine.dialect == "mysql" else "INSERT OR IGNORE"
    for db in engine.databases:
        shapes = altered(read(engine, db, whole=False), literals.get(db, ()), seed, db)
        parts = [shape.made for shape in shapes]
        parts += [statement for shape in shapes for statement in inserts(shape, engine.dialect, how=how)]
        (made / f"{db}.sql").write_text("".join(part + ";\n" for part in parts), "utf-8")


def _altered(shape: Shape, referred: set[tuple[str, str]], kept: Literals, chance: random.Random) -> Shape:
    fixed = {*shape.key, *shape.unique, *(name for each in shape.foreign for name in each.columns)}
    fixed |= {column.name for column in shape.columns if (shape.name.lower(), column.name.lower()) in referred}
    keep = _Keep(kept)
    columns = []
    for place, column in enumerate(shape.columns):
        values = [row[place] for row in shape.rows]
        columns.append(values if column.name in fixed else _column(values, keep, chance, nullable=not column.required))
    rows = list(zip(*columns, strict=True))
    return replace(shape, rows=(*rows, *_again(shape, rows, chance)))


def _column(values: list[Any], keep: _Keep, chance: random.Random, *, nullable: bool) -> list[Any]:
    return [value if value in keep else _value(value, values, chance, nullable) for value in values]


def _value(value: Any, others: list[Any], chance: random.Random, nullable: bool) -> Any:
    luck = chance.random()
    if luck < _NULL:
        return None if nullable else value
    if luck < _NULL + _SWAP:
        other = chance.choice(others)
        return other if other is not None or nullable else value
    return _nudged(value, chance) if luck < _NULL + _SWAP + _NUDGE else value


def _nudged(value: Any, chance: random.Random) -> Any:
    """A little more or less, in the manner of its type; texts stay."""
    step = chance.choice((-2, -1, 1, 2))
    if isinstance(value, bool | str | bytes) or value is None:
        return value
    if isinstance(value, int):
        return max(value + step, 0) if value >= 0 else value
    if isinstance(value, float):
        return value + step
    if isinstance(value, Decimal):
        return value + Decimal(step)
    if isinstance(value, datetime.date):
        return value + datetime.timedelta(days=step)
    return value


def _again(shape: Shape, rows: list[tuple[Any, ...]], chance: random.Random) -> list[tuple[Any, ...]]:
    """Some rows once more: where the key is one whole number, under new ones; where there is none, as they are."""
    if shape.unique or len(shape.key) > 1:
        return []
    chosen = [row for row in rows if chance.random() < _AGAIN]
    if not shape.key:
        return chosen
    place = [column.name for column in shape.columns].index(shape.key[0])
    keys = [row[place] for row in rows]
    if not all(isinstance(key, int) for key in keys) or any(each.columns == shape.key for each in shape.foreign):
        return []
    first = max(keys, default=0) + 1
    return [(*row[:place], first + number, *row[place + 1 :]) for number, row in enumerate(chosen)]


class _Keep:
    """The values that stay: those that a literal equals, or is a part of."""

    def __init__(self, literals: Literals) -> None:
        texts = {text.strip("%").casefold() for text in literals if isinstance(text, str)}
        self._whole = texts | {_number(value) for value in literals if not isinstance(value, str)}
        self._parts = [text for text in texts if len(text) >= _SHORT]

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str):
            folded = value.casefold()
            return folded in self._whole or any(part in folded for part in self._parts)
        return (_number(value) if isinstance(value, int | float | Decimal) else str(value).casefold()) in self._whole


def _number(value: Any) -> str:
    return f"{float(value):.9g}"
