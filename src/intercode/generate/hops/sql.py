"""Tables in a database, and hops and terms as queries. A term is one nested query."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from intercode.generate.hops.layouts import PARTS_OF_VERSION, Layout
from intercode.generate.hops.schema import Hop
from intercode.generate.hops.terms import Row


def create(layout: Layout, rows: Sequence[Row]) -> str:
    """Return the statements that create a table with rows."""
    table, name = layout.table, layout.file
    definitions, places = [], []
    for column, header in layout.headers.items():
        if table.columns[column].order == "version":
            definitions += [f"{part} INTEGER" for part in PARTS_OF_VERSION]
            places.append(header)
        elif table.columns[column].numbers:
            definitions.append(f"{header} INTEGER")
        else:
            definitions.append(f"{header} TEXT")
    lines = []
    for row in rows:
        cells = list[Any]()
        for header, cell in row.items():
            cells += map(int, cell.split(".")) if header in places else [cell]
        lines.append(f"({', '.join(map(_literal, cells))})")
    values = ",\n".join(lines)
    return (
        f"CREATE TABLE {name} ({', '.join(definitions)});\nINSERT INTO {name} VALUES\n{values};\n"
    )


def _literal(value: Any) -> str:
    if value == "":
        return "NULL"
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
    table, name, field = layout.table, layout.file, layout.field
    tests = []
    for key, argument in zip(hop.keys, arguments, strict=True):
        tests.append(f"{field(key)} = {argument}")
    for test in hop.where:
        if test.op == "^":
            tests.append(f"{field(test.column)} LIKE '{test.value}%'")
        else:
            tests.append(
                f"{field(test.column)} {test.op} {_literal(layout.code(test.column, test.value))}"
            )
    shown, order = "", ""
    if hop.give:
        shown = field(hop.give)
    match hop.pick:
        case "most":
            order = f" GROUP BY {shown} ORDER BY COUNT(*) DESC LIMIT 1"
        case "summost":
            order = f" GROUP BY {shown} ORDER BY SUM({field(hop.by)}) DESC LIMIT 1"
        case "sum":
            shown = f"SUM({field(hop.by)})"
        case "latest" | "earliest":
            by = [field(hop.by)]
            if table.columns[hop.by].order == "version":
                by = [*PARTS_OF_VERSION]
            if hop.pick == "latest":
                by = [f"{column} DESC" for column in by]
            order = f" ORDER BY {', '.join(by)} LIMIT 1"
    where = ""
    if tests:
        where = f" WHERE {' AND '.join(tests)}"
    return f"SELECT {shown} FROM {name}{where}{order}"


def legend(layouts: Sequence[Layout], name: str) -> str:
    """Return the statements that create a table with the meanings of codes."""
    rows = []
    for layout in layouts:
        for column, codes in layout.codes.items():
            for value, code in codes.items():
                cells = layout.file, layout.headers[column], code, value
                rows.append(f"({', '.join(map(_literal, cells))})")
    header = "table_name TEXT, column_name TEXT, code TEXT, meaning TEXT"
    values = ",\n".join(rows)
    return f"CREATE TABLE {name} ({header});\nINSERT INTO {name} VALUES\n{values};\n"
