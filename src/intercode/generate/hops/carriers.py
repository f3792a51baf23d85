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

from intercode.generate.draws import as_text
from intercode.generate.ground import Archive
from intercode.generate.hops.git import Commit, repository
from intercode.generate.hops.layouts import Layout, author_of
from intercode.generate.hops.schema import Hop, Row
from intercode.generate.hops.sql import create, database, select
from intercode.generate.hops.terms import World

PARTS = 4
PROGRAMS = ("git", "jq", "sqlite3")
"""Programs in the commands that not every machine has."""
READS = {
    "plain": "<program> <path>",
    "gz": "zcat <path> | <program>",
    "tar": "tar xzOf <path> | <program>",
    "parts": "<program> <path>/*",
    "cards": "<program> <path>/*",
    "git": "git -C <path> log --reverse --date=format:'%Y-%m-%d<joint>%H:%M' --format='<form>'"
    " | <program>",
}
"""The command that prints a table, by pack."""
PICKS = {
    "most": " | sort | uniq -c | sort -n | tail -n 1 | sed 's/^ *[0-9]* //'",
    "largest": " | sort -n | tail -n 1 | cut -f 2",
    "sum": " | awk '{n += $1} END {print n}'",
    "latest": " | tail -n 1",
    "earliest": " | head -n 1",
    "the": "",
}
"""The pipes that pick one of the values that a program prints."""


# -- files -----------------------------------------------------------------------------------------


def files(layout: Layout, world: World) -> dict[str, Any]:
    """Return the files of a table, by their paths."""
    path, rows = layout.path, layout.texts(world)
    if layout.pack == "git":
        return _repository(layout, world, rows)
    if layout.carrier.reader == "sqlite":
        return {path: database(create(layout, rows))}
    if layout.pack == "plain":
        return {path: _text(layout, rows)}
    if layout.pack == "gz":
        return {path: gzip.compress(_text(layout, rows).encode(), 3, mtime=0)}
    size = 1
    if layout.pack != "cards":
        size = -(-len(rows) // PARTS)
    parts, ending = dict[str, str](), layout.carrier.endings.split()[0]
    for start in range(0, len(rows), size):
        parts[f"{len(parts) + 1:03}{ending}"] = _text(layout, rows[start : start + size])
    if layout.pack == "tar":
        return {path: Archive(parts)}
    return {f"{path}/{part}": text for part, text in parts.items()}


def _text(layout: Layout, rows: Sequence[Row]) -> str:
    carrier = layout.carrier
    if carrier.reader == "jq" and carrier.ready:
        return json.dumps(rows, indent=carrier.indent) + "\n"
    if carrier.reader == "jq":
        return as_text(json.dumps(row, indent=carrier.indent) for row in rows)
    headers = [*layout.headers.values()]
    if carrier.head:
        rows = [dict(zip(headers, headers, strict=True)), *rows]
    widths = {}
    for header in headers:
        widths[header] = max(len(str(row[header])) for row in rows)
    lines = [_line(layout, row, widths) for row in rows]
    if carrier.rule:
        lines.insert(1, f"|{carrier.rule * len(headers)}\n")
    return "".join(lines)


def _line(layout: Layout, row: Row, widths: Mapping[str, int]) -> str:
    carrier, cells = layout.carrier, []
    for name, cell in row.items():
        cells.append(carrier.cell.format(name=name, value=cell, width=widths[name]))
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
    carrier = layout.carrier
    if carrier.reader == "sqlite":
        arguments = [f"'${name}'" for name in variables]
        return f'sqlite3 {layout.path} "{select(hop, layout, arguments)}"'
    columns = {"sum": [hop.by], "largest": [hop.by, hop.give]}.get(hop.pick, [hop.give])
    fields = [layout.field(column) for column in columns]
    letters = [*zip("xy", variables, strict=False)]
    if carrier.reader == "jq":
        given = "".join(f' --arg {letter} "${name}"' for letter, name in letters)
        test = " and ".join(_tests(layout, hop, "{} == ${}", '({} | startswith("{}"))'))
        shown = fields[0]
        if len(fields) > 1:
            shown = f"[{', '.join(fields)}] | @tsv"
        program = f"jq -r{given} '{carrier.ready}select({test}) | {shown}'"
    else:
        given = "".join(f' -v {letter}="${name}"' for letter, name in letters)
        test = " && ".join(_tests(layout, hop, "{} == {}", "{} ~ /^{}/"))
        split = carrier.split.replace("<sep>", layout.sep)
        shown = ' "\\t" '.join(fields)
        program = f"awk {split}{given} '{carrier.ready}{test} {{print {shown}}}'"
    read = READS[layout.pack].replace("<path>", layout.path)
    if layout.pack == "git":
        time, person = layout.table.time, author_of(layout, world)
        form = f"{layout.headers[time]}: %ad%n{layout.headers[person]}: %an%n%b"
        read = read.replace("<joint>", layout.joint).replace("<form>", form)
    return read.replace("<program>", program) + PICKS[hop.pick]


def _tests(layout: Layout, hop: Hop, equal: str, begins: str) -> list[str]:
    """Return the conditions of a hop, in the words of a program."""
    tests = []
    for key, letter in zip(hop.keys, "xy", strict=False):
        tests.append(equal.format(layout.field(key), letter))
    for test in hop.where:
        field = layout.field(test.column)
        if test.length:
            tests.append(begins.format(field, test.value))
        else:
            tests.append(f"{field} == {json.dumps(test.value)}")
    return tests
