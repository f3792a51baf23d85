"""Tables as files, and the commands that look one value up in them.

table ──► layout: carrier, pack, path, order and names of columns, forms of entities
            │
            ├──► files      the rows, written
            └──► command    awk, jq or sqlite3, and a pipe that picks
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from intercode.generate.ground import Archive
from intercode.generate.hops.git import Commit, repository
from intercode.generate.hops.layouts import Layout, author_of
from intercode.generate.hops.schema import Hop, Table
from intercode.generate.hops.sql import create, database, select
from intercode.generate.hops.terms import Row, World

PARTS = 4
TOP = " | sort | uniq -c | sort -n | tail -n 1 | sed 's/^ *[0-9]* //'"
TOP_SUM = (
    " | awk -F'\\t' '{n[$2] += $1} END {for (k in n) print n[k] \"\\t\" k}'"
    " | sort -n | tail -n 1 | cut -f 2"
)


# -- files -----------------------------------------------------------------------------------------


def files(layout: Layout, world: World) -> dict[str, Any]:
    """Return the files of a table, by their paths."""
    rows = layout.texts(world)
    match layout.pack:
        case "git":
            return _repository(layout, world, rows)
        case "plain" if layout.carrier.reader == "sqlite":
            return {layout.path: database(create(layout, rows))}
        case "plain":
            return {layout.path: _text(layout, rows)}
        case "gz":
            return {layout.path: _packed(_text(layout, rows))}
    size = -(-len(rows) // PARTS)
    if layout.pack == "cards":
        size = 1
    parts, ending = {}, layout.carrier.endings.split()[0]
    for number, start in enumerate(range(0, len(rows), size), 1):
        parts[f"{number:03}{ending}"] = _text(layout, rows[start : start + size])
    if layout.pack == "tar":
        return {layout.path: Archive(parts)}
    if layout.pack == "gzparts":
        return {f"{layout.path}/{part}.gz": _packed(text) for part, text in parts.items()}
    return {f"{layout.path}/{part}": text for part, text in parts.items()}


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), 3, mtime=0)


def _text(layout: Layout, rows: Sequence[Row]) -> str:
    carrier = layout.carrier
    headers = [*layout.headers.values()]
    widths = {}
    for header in headers:
        widths[header] = max(len(str(row[header])) for row in [*rows, {header: header}])
    lines = [_line(layout, row, widths) for row in rows]
    if carrier.head:
        lines.insert(0, _line(layout, dict(zip(headers, headers, strict=True)), widths))
    if carrier.head == "rule":
        lines.insert(1, f"|{'---|' * len(headers)}\n")
    text = "".join(lines)
    if carrier.close:
        text = text.removesuffix(",\n") + "\n" + carrier.close
    return carrier.begin + text


def _line(layout: Layout, row: Row, widths: Mapping[str, int]) -> str:
    carrier, cells = layout.carrier, []
    for name, cell in row.items():
        text = carrier.cell.format(name=name, value=cell, json=json.dumps(cell), width=widths[name])
        cells.append(text)
    line = carrier.glue.replace("<sep>", layout.sep).join(cells)
    return carrier.start + line.rstrip(" ") + carrier.end


def _repository(layout: Layout, world: World, rows: Sequence[Row]) -> dict[str, Any]:
    """Return a repository with a commit for each row; its body has the columns that are neither the
    author nor the time."""
    time, person = layout.headers[layout.table.time], layout.headers[author_of(layout, world)]
    commits = list[Commit]()
    for row, cells in zip(world.tables[layout.name], rows, strict=True):
        body = [f"{name}: {cell}" for name, cell in cells.items() if name not in (time, person)]
        message = f"Entry {len(commits) + 1}\n\n" + "\n".join(body)
        moment = datetime.fromisoformat(row[layout.table.time]).replace(tzinfo=UTC)
        commits.append(Commit(cells[person], message, int(moment.timestamp())))
    written = repository(commits)
    return {f"{layout.path}/{name}": content for name, content in written.items()}


# -- commands --------------------------------------------------------------------------------------


def command(layout: Layout, world: World, hop: Hop, variables: Sequence[str]) -> str:
    """Return the command of a hop, whose arguments are in shell variables."""
    if layout.carrier.reader == "sqlite":
        arguments = [f"'${name}'" for name in variables]
        return f'sqlite3 {layout.path} "{select(hop, layout, arguments)}"'
    columns, pipe = picked(hop, layout.table)
    fields = [layout.field(column) for column in columns]
    letters = dict(zip("xy", variables, strict=False))
    if layout.carrier.reader == "jq":
        given = "".join(f' --arg {letter} "${name}"' for letter, name in letters.items())
        test = " and ".join(_tests(layout, hop, "$"))
        shown = fields[0]
        if len(fields) > 1:
            shown = f'"\\({fields[0]})\\t\\({fields[1]})"'
        program = f"jq -r{given} '{layout.carrier.ready}select({test}) | {shown}'"
    else:
        given = "".join(f' -v {letter}="${name}"' for letter, name in letters.items())
        test = " && ".join(_tests(layout, hop, ""))
        if layout.carrier.ready:
            test = f"{layout.carrier.ready} && {test}"
        split = layout.carrier.split.replace("<sep>", layout.sep)
        shown = ' "\\t" '.join(fields)
        program = f"awk {split}{given} '{test} {{print {shown}}}'"
    return _source(layout, world).replace("<program>", program) + pipe


def _tests(layout: Layout, hop: Hop, sign: str) -> list[str]:
    """Return the conditions of a hop in awk, or in jq, where variables have a sign."""
    tests = []
    for key, letter in zip(hop.keys, "xy", strict=False):
        tests.append(f"{layout.field(key)} == {sign}{letter}")
    for test in hop.where:
        field = layout.field(test.column)
        value = json.dumps(test.value)
        if test.op == "^" and sign:
            tests.append(f"({field} | startswith({value}))")
        elif test.op == "^":
            tests.append(f"{field} ~ /^{test.value}/")
        else:
            tests.append(f"{field} {test.op.replace('=', '==', test.op == '=')} {value}")
    if hop.by and layout.table.columns[hop.by].after:
        tests.append(f'{layout.field(hop.by)} != ""')
    return tests


def picked(hop: Hop, table: Table) -> tuple[list[str], str]:
    """Return the columns that a command prints, and the pipe that picks one value."""
    match hop.pick:
        case "most":
            return [hop.give], TOP
        case "summost":
            return [hop.by, hop.give], TOP_SUM
        case "sum":
            return [hop.by], " | awk '{n += $1} END {print n}'"
        case "latest" | "earliest":
            end = {"latest": "tail -n 1", "earliest": "head -n 1"}[hop.pick]
            by = table.columns[hop.by]
            if by.time:
                return [hop.give], f" | {end}"
            sort = "sort"
            if by.order == "version":
                sort = "sort -V"
            if hop.give == hop.by:
                return [hop.give], f" | {sort} | {end}"
            return [hop.by, hop.give], f" | {sort} | {end} | cut -f 2"
        case "first" | "last":
            return [hop.give], {"first": " | head -n 1", "last": " | tail -n 1"}[hop.pick]
        case _:
            return [hop.give], ""


def _source(layout: Layout, world: World) -> str:
    """Return a command in which <program> stands for the program that reads the table."""
    match layout.pack:
        case "git":
            time, person = layout.table.time, author_of(layout, world)
            form = f"{layout.headers[time]}: %ad%n{layout.headers[person]}: %an%n%b"
            when = f"--date=format:'%Y-%m-%d{layout.joint}%H:%M'"
            return f"git -C {layout.path} log --reverse {when} --format='{form}' | <program>"
        case "gz":
            return f"zcat {layout.path} | <program>"
        case "gzparts":
            return f"zcat {layout.path}/* | <program>"
        case "tar":
            return f"tar xzOf {layout.path} | <program>"
        case "plain":
            return f"<program> {layout.path}"
        case _:
            return f"<program> {layout.path}/*"
