"""From one engine to another by way of tables: read their shapes and rows where they can be loaded, write SQL for the other.

    SQLite file ──► SqliteEngine ──┐                 ┌──► MySQL's SQL ──► MariadbEngine
                                   ├──► Table shapes ┤
    MySQL dump ──► MariadbEngine ──┘                 └──► SQLite's SQL ──► SqliteEngine

The converters that exist as packages want a server that listens on an address of the host's, which ours never do. A column's
type is chosen from its declared type and from the values that are in it, so that every value survives; MySQL compares text
without regard to case, so its text becomes NOCASE in SQLite. Left out: views (`views` names them), triggers, routines,
defaults, checks, secondary keys and the formulas of computed columns (their values stay), foreign keys that do not point to a
whole primary key, digits of a DECIMAL beyond the 15 of a double, and what `quoting.py` cannot write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from intercode.engines.base import Engine
from intercode.engines.quoting import literal, quoted
from intercode.errors import DataError

Kind = Literal["integer", "real", "decimal", "text", "bytes"]

_BATCH = 500
_LONG = 65_000
_SECONDS = 600.0
_KEY_LENGTH, _LONGEST_KEY = 191, 768
"""Characters of a text in a MySQL key: 4 bytes each, and 3072 bytes fit."""
_SHORT = re.compile(r"CHAR\w*\s*\(\s*(\d+)", re.I)


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    length: int | None = None
    required: bool = False


@dataclass(frozen=True)
class Foreign:
    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """One table: what it is made of, and its rows in the order in which they were stored."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    foreign: tuple[Foreign, ...]
    rows: tuple[tuple[Any, ...], ...]


def read(engine: Engine, db: str) -> list[Shape]:
    """All tables of a database, from either engine. Raises `DataError` for one with more rows than the engine's caps."""
    return (_read_sqlite if engine.dialect == "sqlite" else _read_mysql)(engine, db)


def write(shapes: Sequence[Shape], dialect: str) -> str:
    """SQL that makes these tables: `sqlite` or `mysql`."""
    keyed = {shape.name.lower(): shape for shape in shapes if _usable(shape)}
    parts = [_create(shape, keyed, dialect) for shape in shapes]
    parts += [statement for shape in shapes for statement in _inserts(shape, dialect)]
    return "".join(part + ";\n" for part in parts)


def views(engine: Engine, db: str) -> list[str]:
    """Their names: they stay behind."""
    if engine.dialect == "sqlite":
        return [str(name) for (name,) in _rows(engine, db, "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name")]
    return [str(name) for name, _ in _rows(engine, db, "SHOW FULL TABLES WHERE table_type = 'VIEW'")]


# -- reading ------------------------------------------------------------------------------------------------------------


def _rows(engine: Engine, db: str, statement: str) -> tuple[tuple[Any, ...], ...]:
    table = engine.table(db, statement, seconds=_SECONDS)
    if table.cut:
        raise DataError(f"database {db}: too many rows to convert; give it to the engine that loads it as it is")
    return table.rows


def _read_sqlite(engine: Engine, db: str) -> list[Shape]:
    listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    return [_sqlite_table(engine, db, str(name)) for (name,) in _rows(engine, db, listed)]


def _sqlite_table(engine: Engine, db: str, name: str) -> Shape:
    named = quoted(name, "sqlite")
    info = [row for row in _rows(engine, db, f"PRAGMA table_xinfo({named})") if row[6] != 1]  # 1: of a virtual table, no value
    rows = _all(engine, db, name, [row[1] for row in info])
    columns = [
        _column(column, declared, bool(required), [row[place] for row in rows])
        for place, (_, column, declared, required, *_) in enumerate(info)
    ]
    key = tuple(column for column, place in sorted(((row[1], row[5]) for row in info if row[5]), key=lambda pair: pair[1]))
    foreign = _sqlite_foreign(_rows(engine, db, f"PRAGMA foreign_key_list({named})"))
    return Shape(name, tuple(columns), key, foreign, rows)


def _all(engine: Engine, db: str, name: str, columns: Iterable[str]) -> tuple[tuple[Any, ...], ...]:
    """Of the columns by their names: `*` leaves out those that MariaDB calls invisible."""
    listed = ", ".join(quoted(column, engine.dialect) for column in columns)
    return _rows(engine, db, f"SELECT {listed} FROM {quoted(name, engine.dialect)}")


def _sqlite_foreign(listed: tuple[tuple[Any, ...], ...]) -> tuple[Foreign, ...]:
    """Rows of (id, seq, table, from, to, …), one a column; `to` is missing where the primary key is meant."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in sorted(listed, key=lambda row: row[:2]):
        found.setdefault(row[0], []).append(row)
    return tuple(
        Foreign(tuple(row[3] for row in group), group[0][2], tuple(row[4] for row in group if row[4]))
        for group in found.values()
    )


def _column(name: str, declared: str, required: bool, values: list[Any]) -> Column:
    """`declared` is the type's text; the values have the last word."""
    length = _SHORT.search(declared or "")
    kind = _declared(declared or "")
    types = {type(value) for value in values if value is not None}
    if bytes in types:
        kind = "bytes"
    elif str in types:
        kind = "text"
    elif float in types and kind == "integer":
        kind = "real"
    elif kind in ("bytes", "text") and types == {int} and not length:
        kind = "integer" if kind == "bytes" else kind
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    room = max(int(length[1]), longest) if length else longest or None
    return Column(name, kind, room if kind == "text" else None, required and None not in values)


def _declared(text: str) -> Kind:
    """SQLite's rules for a column's affinity, section 3.1 of its "Datatypes"."""
    upper = text.upper()
    for marks, kind in ((("INT",), "integer"), (("CHAR", "CLOB", "TEXT"), "text"), (("REAL", "FLOA", "DOUB"), "real")):
        if any(mark in upper for mark in marks):
            return kind  # type: ignore[return-value]
    if "BLOB" in upper or not upper:
        return "bytes"
    return "text" if any(mark in upper for mark in ("DATE", "TIME")) else "real"


_COLUMNS = (
    "SELECT column_name, data_type, character_maximum_length, is_nullable FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name = {} ORDER BY ordinal_position"
)
_KEYS = (
    "SELECT constraint_name, column_name, referenced_table_name, referenced_column_name "
    "FROM information_schema.key_column_usage "
    "WHERE table_schema = DATABASE() AND table_name = {} ORDER BY constraint_name, ordinal_position"
)
_MYSQL_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), "integer"),
    **dict.fromkeys(("float", "double"), "real"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"), "bytes"),
    "decimal": "decimal",
}


def _read_mysql(engine: Engine, db: str) -> list[Shape]:
    listed = _rows(engine, db, "SHOW FULL TABLES WHERE table_type = 'BASE TABLE'")
    return [_mysql_table(engine, db, str(name)) for name, _ in listed]


def _mysql_table(engine: Engine, db: str, name: str) -> Shape:
    text = literal(name, "mysql")
    columns = tuple(
        Column(column, _MYSQL_KINDS.get(kind.lower(), "text"), _length(length), null == "NO")
        for column, kind, length, null in _rows(engine, db, _COLUMNS.format(text))
    )
    keys: dict[str, list[tuple[Any, ...]]] = {}
    for row in _rows(engine, db, _KEYS.format(text)):
        keys.setdefault(row[0], []).append(row)
    foreign = [
        Foreign(tuple(row[1] for row in rows), rows[0][2], tuple(row[3] for row in rows))
        for rows in keys.values()
        if rows[0][2]
    ]
    key = tuple(row[1] for row in keys.get("PRIMARY", []))
    return Shape(name, columns, key, tuple(foreign), _all(engine, db, name, [column.name for column in columns]))


def _length(value: Any) -> int | None:
    return int(value) if value and int(value) < _LONG else None


# -- writing ------------------------------------------------------------------------------------------------------------


def _create(shape: Shape, keyed: dict[str, Shape], dialect: str) -> str:
    """`keyed`: the tables with a primary key, to which others may point."""
    quote = partial(quoted, dialect=dialect)
    key = shape.key if shape.name.lower() in keyed else ()
    foreign = [(each, keyed[each.table.lower()]) for each in shape.foreign if _points(shape, each, keyed)]
    indexed = {*key, *(column for each, _ in foreign for column in each.columns)}
    type_of = _mysql_type if dialect == "mysql" else _sqlite_type
    lines = [
        f"  {quote(column.name)} {type_of(column, keyed=column.name in indexed)}" + (" NOT NULL" if column.required else "")
        for column in shape.columns
    ]
    lines += [f"  PRIMARY KEY ({', '.join(map(quote, key))})"] if key else []
    lines += [_reference(each, target, quote) for each, target in foreign]
    return f"CREATE TABLE {quote(shape.name)} (\n" + ",\n".join(lines) + "\n)"


def _usable(shape: Shape) -> bool:
    """Whether the rows obey the primary key: SQLite lets NULLs into one."""
    places = [[column.name for column in shape.columns].index(name) for name in shape.key]
    keys = [tuple(row[place] for place in places) for row in shape.rows]
    folded = [tuple(value.casefold().rstrip() if isinstance(value, str) else value for value in key) for key in keys]
    return bool(places) and len(set(folded)) == len(folded) and not any(None in key for key in keys)


def _reference(each: Foreign, target: Shape, quote: Callable[[str], str]) -> str:
    columns, targets = (", ".join(map(quote, names)) for names in (each.columns, target.key))
    return f"  FOREIGN KEY ({columns}) REFERENCES {quote(target.name)} ({targets})"


def _points(shape: Shape, each: Foreign, keyed: dict[str, Shape]) -> bool:
    """Whether it points to a whole primary key, with columns of the same kinds."""
    target = keyed.get(each.table.lower())
    if target is None:
        return False
    targets = each.targets or target.key
    if tuple(name.lower() for name in targets) != tuple(name.lower() for name in target.key):
        return False
    return [_kind(shape, name) for name in each.columns] == [_kind(target, name) for name in targets]


def _kind(shape: Shape, name: str) -> Kind:
    return next(column.kind for column in shape.columns if column.name.lower() == name.lower())


def _sqlite_type(column: Column, *, keyed: bool) -> str:
    if column.kind == "text":
        return (f"VARCHAR({column.length})" if column.length else "TEXT") + " COLLATE NOCASE"
    return {"integer": "INTEGER", "real": "REAL", "decimal": "DECIMAL", "bytes": "BLOB"}[column.kind]


def _mysql_type(column: Column, *, keyed: bool) -> str:
    longest = max(column.length or 0, _KEY_LENGTH)
    if column.kind == "text":
        return f"VARCHAR({min(longest, _LONGEST_KEY)})" if keyed else "LONGTEXT"
    blob = f"VARBINARY({_LONGEST_KEY})" if keyed else "LONGBLOB"
    return {"integer": "BIGINT", "real": "DOUBLE", "decimal": "DECIMAL(38, 10)", "bytes": blob}[column.kind]


def _inserts(shape: Shape, dialect: str) -> list[str]:
    kinds = [column.kind for column in shape.columns]
    found = []
    for begin in range(0, len(shape.rows), _BATCH):
        try:
            lines = [_line(row, kinds, dialect) for row in shape.rows[begin : begin + _BATCH]]
        except DataError as error:
            raise DataError(
                f"table {shape.name}: {error}; give the databases to the engine that loads them as they are"
            ) from None
        found.append(f"INSERT INTO {quoted(shape.name, dialect)} VALUES\n" + ",\n".join(lines))
    return found


def _line(row: tuple[Any, ...], kinds: Sequence[Kind], dialect: str) -> str:
    return "(" + ", ".join(literal(_value(value, kind), dialect) for value, kind in zip(row, kinds, strict=True)) + ")"


def _value(value: Any, kind: Kind) -> Any:
    """As the column will hold it."""
    if value is None or isinstance(value, bytes):
        return value
    if kind == "text" and isinstance(value, (int, float)):
        return str(value)
    return value.encode("utf-8", "surrogateescape") if kind == "bytes" and isinstance(value, str) else value
