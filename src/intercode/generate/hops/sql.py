"""Tables in a database, and hops and terms as queries. A term is one nested query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from intercode.generate.hops.layouts import Layout
from intercode.generate.hops.schema import Hop, Row


def create(layout: Layout, rows: Sequence[Row]) -> str:
    """Return the statements that create a table with rows."""
    definitions = []
    for column, header in layout.headers.items():
        kind = "INTEGER" if layout.table.columns[column].numbers else "TEXT"
        definitions.append(f"{header} {kind}")
    return _table(layout.file, definitions, [row.values() for row in rows])


def _table(name: str, definitions: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [f"({', '.join(map(_literal, cells))})" for cells in rows]
    values = ",\n".join(lines)
    return (
        f"CREATE TABLE {name} ({', '.join(definitions)});\nINSERT INTO {name} VALUES\n{values};\n"
    )


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def database(script: str) -> bytes:
    """Return the bytes of a database, without the version of the library that wrote it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        written = bytearray(connection.serialize())
    written[96:100] = bytes(4)
    return bytes(written)


def select(hop: Hop, layout: Layout, arguments: Sequence[str]) -> str:
    """Return the query of a hop for arguments that are expressions."""
    headers, tests = layout.headers, []
    for key, argument in zip(hop.keys, arguments, strict=True):
        tests.append(f"{headers[key]} = {argument}")
    for test in hop.where:
        value = _literal(layout.code(test.column, test.value))
        if test.length:
            tests.append(f"{headers[test.column]} LIKE '{test.value}%'")
        else:
            tests.append(f"{headers[test.column]} = {value}")
    shown, by = headers.get(hop.give), headers.get(hop.by)
    order = {
        "most": f" GROUP BY {shown} ORDER BY COUNT(*) DESC LIMIT 1",
        "earliest": f" ORDER BY {by} LIMIT 1",
        "latest": f" ORDER BY {by} DESC LIMIT 1",
        "largest": f" ORDER BY {by} DESC LIMIT 1",
    }
    if hop.pick == "sum":
        shown = f"SUM({by})"
    where = " AND ".join(tests) or "TRUE"
    return f"SELECT {shown} FROM {layout.file} WHERE {where}{order.get(hop.pick, '')}"


def legend(layouts: Sequence[Layout], name: str) -> str:
    """Return the statements that create a table with the meanings of codes."""
    rows = []
    for layout in layouts:
        for column, codes in layout.codes.items():
            for value, code in codes.items():
                rows.append((layout.file, layout.headers[column], code, value))
    header = ("table_name TEXT", "column_name TEXT", "code TEXT", "meaning TEXT")
    return _table(name, header, rows)
