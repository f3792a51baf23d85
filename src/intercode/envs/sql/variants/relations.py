"""A database as relations: read from an engine with its exact CREATE statements, and written again with other rows.

    MariaDB   information_schema, SHOW CREATE TABLE        SQLite   PRAGMA table_xinfo, sqlite_master
                                └────────► Schema ────────────┘ ────► statements that make it

Nothing is translated: the statements are for an engine of the same kind, and keep its checks, defaults, keys and views.
Generated columns are read as absent, so that the server fills them again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from intercode.envs.sql.engines.base import Engine
from intercode.envs.sql.engines.quoting import literal, quoted
from intercode.envs.sql.engines.values import Literal, plain
from intercode.envs.sql.variants.dependencies import Reference, Relation, Row

_MOST = 20_000
_MOST_HELD = 500
_BATCH = 250
_SECONDS = 600.0
_CHECK = re.compile(r"\bCHECK\s*\(", re.I)
_DEFINER = re.compile(r"\sDEFINER=\S+@\S+", re.I)
_COLUMNS = (
    "SELECT table_name, column_name, is_nullable, is_generated FROM information_schema.columns "
    "WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"
)
_UNIQUE = (
    "SELECT table_name, index_name, column_name FROM information_schema.statistics "
    "WHERE table_schema = DATABASE() AND non_unique = 0 ORDER BY table_name, index_name, seq_in_index"
)
_FOREIGN = (
    "SELECT table_name, constraint_name, referenced_table_name, column_name, referenced_column_name "
    "FROM information_schema.key_column_usage WHERE table_schema = DATABASE() AND referenced_table_schema = DATABASE() "
    "ORDER BY table_name, constraint_name, ordinal_position"
)
_MADE = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"


@dataclass(frozen=True)
class Schema:
    """`before` and `after` the rows: the statements that make tables, and those that make indexes and views."""

    dialect: str
    relations: tuple[Relation, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


class _Foreign(NamedTuple):
    table: str
    pairs: tuple[tuple[str, str | None], ...]


@dataclass
class _Shape:
    """A table while it is read."""

    name: str
    create: str
    columns: list[tuple[str, bool]]
    unique: list[tuple[str, ...]]
    foreign: list[_Foreign]
    primary: tuple[str, ...] = ()


def read(engine: Engine, db: str, literals: Collection[Literal]) -> Schema:
    """Tables, keys and rows; of a large table a part. Raises `DataError` for one that cannot be read."""
    shapes, before, after = (_sqlite if engine.dialect == "sqlite" else _mysql)(engine, db)
    known = {shape.name.lower(): shape for shape in shapes}
    relations = [_relation(shape, known, _rows(engine, db, shape, literals)) for shape in shapes]
    return Schema(engine.dialect, tuple(relations), tuple(before), tuple(after))


def write(schema: Schema, rows: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """The statements that make the database with these rows; SQLite's end with a semicolon."""
    end = ";\n" if schema.dialect == "sqlite" else ""
    inserts = (text for relation in schema.relations for text in _inserts(relation, rows[relation.name], schema.dialect))
    for statement in (*schema.before, *inserts, *schema.after):
        yield statement + end


def _relation(shape: _Shape, known: Mapping[str, _Shape], rows: Sequence[Row]) -> Relation:
    names = [name for name, _ in shape.columns]
    fixed = frozenset(place for place, name in enumerate(names) if name.lower() in _checked(shape.create))
    return Relation(
        shape.name,
        tuple(names),
        tuple(nullable for _, nullable in shape.columns),
        tuple(dict.fromkeys(key for each in shape.unique if (key := _places(shape, each)))),
        tuple(reference for each in shape.foreign if (reference := _reference(shape, each, known))),
        tuple(rows),
        fixed,
    )


def _places(shape: _Shape, names: Iterable[str | None]) -> tuple[int, ...]:
    """Empty if one of them is no column that is read."""
    order = {name.lower(): place for place, (name, _) in enumerate(shape.columns)}
    found = [order.get(name.lower()) if name else None for name in names]
    return () if None in found else tuple(place for place in found if place is not None)


def _reference(shape: _Shape, foreign: _Foreign, known: Mapping[str, _Shape]) -> Reference | None:
    parent = known.get(foreign.table.lower())
    if parent is None:
        return None
    columns = _places(shape, [column for column, _ in foreign.pairs])
    named = [target for _, target in foreign.pairs]
    targets = _places(parent, parent.primary if None in named else named)
    return Reference(columns, parent.name, targets) if columns and len(columns) == len(targets) else None


def _checked(create: str) -> set[str]:
    """The words inside CHECK ( … ): columns are among them."""
    words: set[str] = set()
    for match in _CHECK.finditer(create):
        depth, end = 1, match.end()
        while depth and end < len(create):
            depth += {"(": 1, ")": -1}.get(create[end], 0)
            end += 1
        words |= {word.lower() for word in re.findall(r"[^\W\d]\w*", create[match.end() : end])}
    return words


# -- reading ------------------------------------------------------------------------------------------------------------


def _ask(engine: Engine, db: str, statement: str) -> tuple[tuple[Any, ...], ...]:
    return engine.table(db, statement, seconds=_SECONDS).rows


def _rows(engine: Engine, db: str, shape: _Shape, literals: Collection[Literal]) -> list[Row]:
    """All rows; of a large table the first ones, and after them those that hold a literal."""
    if not shape.columns:
        return []
    columns = ", ".join(quoted(name, engine.dialect) for name, _ in shape.columns)
    select = f"SELECT {columns} FROM {quoted(shape.name, engine.dialect)}"
    table = engine.table(db, f"{select} LIMIT {_MOST + 1}", seconds=_SECONDS)
    if len(table.rows) <= _MOST and not table.cut:
        return list(table.rows)
    wanted = ", ".join(sorted(literal(value, engine.dialect) for value in literals if isinstance(plain(value), str)))
    where = " OR ".join(f"{quoted(name, engine.dialect)} IN ({wanted})" for name, _ in shape.columns)
    held = _ask(engine, db, f"{select} WHERE {where} LIMIT {_MOST_HELD}") if wanted else ()
    return list(dict.fromkeys([*table.rows[:_MOST], *held]))


def _mysql(engine: Engine, db: str) -> tuple[list[_Shape], list[str], list[str]]:
    columns, unique, foreign = (_grouped(_ask(engine, db, what)) for what in (_COLUMNS, _UNIQUE, _FOREIGN))
    listed = _ask(engine, db, "SHOW FULL TABLES")
    made = {name: _ask(engine, db, f"SHOW CREATE TABLE {quoted(name, 'mysql')}")[0][1] for name, _ in listed}
    shapes = []
    for name, kind in listed:
        if kind != "BASE TABLE":
            continue
        listed_columns = [(column, null == "YES") for column, null, generated in columns[name] if generated == "NEVER"]
        keys = [tuple(column for (column,) in rows) for rows in _grouped(unique[name]).values()]
        pointing = [_Foreign(rows[0][0], tuple(row[1:] for row in rows)) for rows in _grouped(foreign[name]).values()]
        shapes.append(_Shape(name, made[name], listed_columns, keys, pointing))
    views = [(name, _DEFINER.sub("", made[name])) for name, kind in listed if kind == "VIEW"]
    charset, collation = _ask(engine, db, "SELECT @@character_set_database, @@collation_database")[0]
    head = [
        f"CREATE DATABASE {quoted(db, 'mysql')} DEFAULT CHARACTER SET {charset} COLLATE {collation}",
        f"USE {quoted(db, 'mysql')}",
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        "SET foreign_key_checks = 0",
    ]
    return shapes, [*head, *(shape.create for shape in shapes)], _in_order(views)


def _sqlite(engine: Engine, db: str) -> tuple[list[_Shape], list[str], list[str]]:
    made = _ask(engine, db, _MADE)
    listed = {row[1] for row in _ask(engine, db, "PRAGMA table_list") if row[0] == "main" and row[2] == "table"}
    creates = [
        (name, text) for kind, name, text in made if kind == "table" and name in listed and not name.startswith("sqlite_")
    ]
    shapes = [_sqlite_shape(engine, db, name, text) for name, text in creates]
    indexes = [text for kind, _, text in made if kind == "index"]
    views = [(name, text) for kind, name, text in made if kind == "view"]
    return shapes, [text for _, text in creates], [*indexes, *_in_order(views)]


def _sqlite_shape(engine: Engine, db: str, name: str, create: str) -> _Shape:
    named = quoted(name, "sqlite")
    info = _ask(engine, db, f"PRAGMA table_xinfo({named})")
    columns = [(row[1], not row[3] and not row[5]) for row in info if row[6] == 0]
    primary = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
    unique = [primary] if primary else []
    for row in sorted(_ask(engine, db, f"PRAGMA index_list({named})"), key=lambda row: row[1]):
        parts = _ask(engine, db, f"PRAGMA index_info({quoted(row[1], 'sqlite')})") if row[2] and row[3] != "pk" else ()
        unique += [tuple(part[2] for part in parts)] if parts else []
    foreign = _grouped(
        tuple((row[0], row[2], row[3], row[4]) for row in sorted(_ask(engine, db, f"PRAGMA foreign_key_list({named})")))
    )
    pointing = [_Foreign(rows[0][0], tuple(row[1:] for row in rows)) for rows in foreign.values()]
    return _Shape(name, create, columns, unique, pointing, primary)


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """The rest of each row by its first value."""
    found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for first, *rest in rows:
        found[first].append(tuple(rest))
    return found


def _in_order(views: Sequence[tuple[str, str]]) -> list[str]:
    """Views after those that they name."""
    left, found = dict(views), list[str]()
    while left:
        ready = [name for name in left if not any(other in left[name] for other in left if other != name)] or [*left]
        found += [left.pop(name) for name in ready]
    return found


# -- writing ------------------------------------------------------------------------------------------------------------


def _inserts(relation: Relation, rows: Sequence[Row], dialect: str) -> Iterator[str]:
    """IGNORE is for a new key that some collation takes for an old one."""
    verb = "INSERT OR IGNORE" if dialect == "sqlite" else "INSERT IGNORE"
    columns = ", ".join(quoted(name, dialect) for name in relation.columns)
    for begin in range(0, len(rows), _BATCH):
        lines = (f"({', '.join([literal(value, dialect) for value in row])})" for row in rows[begin : begin + _BATCH])
        yield f"{verb} INTO {quoted(relation.name, dialect)} ({columns}) VALUES\n" + ",\n".join(lines)
