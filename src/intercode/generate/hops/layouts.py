"""Layouts: how each table of a place is written.

Each place draws the layouts of its tables anew. `carriers.toml` has the carriers. A carrier suits a
table whose texts it can separate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from intercode.generate.draws import Draw, read_toml
from intercode.generate.hops.schema import Table
from intercode.generate.hops.terms import Row, World


@dataclass(frozen=True)
class Carrier:
    reader: str
    endings: str
    packs: str
    separators: Sequence[str] = ("",)
    begin: str = ""
    head: str = ""
    start: str = ""
    cell: str = ""
    glue: str = ""
    end: str = "\n"
    close: str = ""
    field: str = ""
    split: str = ""
    ready: str = ""
    filled: bool = False
    """No cell may be empty."""
    timed: bool = False
    """For tables with a time and a person."""


CARRIERS = {name: Carrier(**entry) for name, entry in read_toml("hops/carriers").items()}
PARTS_OF_VERSION = ("major", "minor", "patch")
"""The columns of a version in a database."""
MOST_CARDS = 100


@dataclass(frozen=True)
class Layout:
    """The form of a table in one place: its carrier, path, columns and separators."""

    name: str
    table: Table
    carrier: Carrier
    sep: str
    pack: str
    path: str
    file: str
    """The name of the file, or of the table in a database."""
    headers: Mapping[str, str]
    """The header of each column, in the order of columns."""
    forms: Mapping[str, str]
    """The form of the entities in a column."""
    joint: str
    """Between a date and a time."""
    codes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The codes that stand in some columns instead of their values."""

    def code(self, column: str, value: Any) -> Any:
        """Return how a value is written."""
        return self.codes.get(column, {}).get(value, value)

    def texts(self, world: World) -> list[Row]:
        """Return the rows as they are written, by the headers of columns."""
        rows = []
        for row in world.tables[self.name]:
            cells = {}
            for column, header in self.headers.items():
                kind, cell = world.domain.type_of(self.name, column), row[column]
                if kind:
                    cell = world.forms[kind][cell][self.forms[column]]
                elif self.table.columns[column].is_time:
                    cell = cell.replace(" ", self.joint)
                cells[header] = self.code(column, cell)
            rows.append(cells)
        return rows

    def field(self, column: str) -> str:
        """Return what stands for a column in commands."""
        if self.carrier.reader == "sqlite":
            is_version = self.table.columns[column].order == "version"
            return " || '.' || ".join(PARTS_OF_VERSION) if is_version else self.headers[column]
        place = [*self.headers].index(column) + 1
        field = self.carrier.field.replace("<name>", self.headers[column])
        for part, number in (("<n>", place), ("<n1>", place + 1), ("<n2>", 2 * place)):
            field = field.replace(part, str(number))
        return field


def draw_layout(
    draw: Draw, world: World, name: str, carriers: Sequence[str], taken: set[str]
) -> Layout:
    """Return a layout that suits a table, at a path that is not taken."""
    table = world.domain.tables[name]
    while True:
        carrier = CARRIERS[draw.choice(table.carriers.split() or carriers)]
        columns, headers = draw.shuffled(table.columns), {}
        forms = {}
        for column in columns:
            headers[column] = draw.choice(table.columns[column].names.split())
            kind = world.domain.type_of(name, column)
            if kind:
                of_row = table.columns[column].form
                forms[column] = of_row or draw.choice([*world.domain.types[kind].forms])
        pack, file = draw.choice(carrier.packs.split()), draw.choice(table.names.split())
        path = f"{draw.choice(table.folders.split())}/{file}"
        if pack not in ("parts", "gzparts", "cards"):
            path += draw.choice(carrier.endings.split())
        layout = Layout(
            name,
            table,
            carrier,
            draw.choice(carrier.separators),
            pack,
            path + {"gz": ".gz", "tar": ".tar.gz"}.get(pack, ""),
            file,
            headers,
            forms,
            draw.choice(" T"),
        )
        fresh = file not in taken and len({*headers.values()}) == len(headers)
        if fresh and _suits(layout, world):
            taken.add(file)
            return layout


def _suits(layout: Layout, world: World) -> bool:
    """Return whether the carrier can hold the texts of a table, so that a command tells them
    apart."""
    carrier, table = layout.carrier, layout.table
    if carrier.timed and not (table.time and author_of(layout, world)):
        return False
    rows = layout.texts(world)
    if layout.pack == "cards" and len(rows) > MOST_CARDS:
        return False
    if layout.pack in ("parts", "gzparts") and len(rows) < MOST_CARDS // 2:
        return False
    cells = [str(cell) for row in rows for cell in row.values()]
    if layout.sep and any(layout.sep in cell for cell in cells):
        return False
    return not carrier.filled or all(cells)


def author_of(layout: Layout, world: World) -> str:
    """Return the first column of people, who make commits; "" if there is none."""
    for column in layout.table.columns:
        kind = world.domain.type_of(layout.name, column)
        if kind and "email" in world.domain.types[kind].forms:
            return column
    return ""


MOST_CODED = 6
"""The largest number of values that get codes."""


def coded(draw: Draw, world: World, layout: Layout) -> Layout:
    """Return a layout with codes for the values of columns that have few."""
    codes = {}
    for column in layout.headers:
        is_text = layout.table.columns[column].value and not layout.table.columns[column].numbers
        values = sorted({row[column] for row in world.tables[layout.name]}) if is_text else []
        if 1 < len(values) <= MOST_CODED:
            signs = map(str, draw.sample(range(10, 100), len(values)))
            codes[column] = dict(zip(values, signs, strict=True))
    return replace(layout, codes=codes)
