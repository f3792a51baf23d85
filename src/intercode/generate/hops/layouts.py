"""Layouts: how each table of a place is written.

Each place draws the layouts of its tables anew. `carriers.toml` has the carriers. A carrier suits a
table whose texts it can separate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from intercode.generate.draws import Draw, read_toml
from intercode.generate.hops.schema import Row, Table
from intercode.generate.hops.terms import World


@dataclass(frozen=True)
class Carrier:
    reader: str
    endings: str
    packs: str
    separators: Sequence[str] = ("",)
    head: bool = False
    rule: str = ""
    start: str = ""
    cell: str = ""
    glue: str = ""
    end: str = "\n"
    field: str = ""
    split: str = ""
    ready: str = ""
    indent: int | None = None
    """For JSON: the number of spaces."""
    timed: bool = False
    """For tables with a time and a person."""


CARRIERS = {name: Carrier(**entry) for name, entry in read_toml("hops/carriers").items()}
ENDINGS = {"plain": "{}", "gz": "{}.gz", "tar": ".tar.gz", "git": ".git", "parts": "", "cards": ""}
"""The end of a path, by pack."""
MOST_CARDS = 100
MOST_CODED = 6
"""The largest number of values that get codes."""


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
            for name, header in self.headers.items():
                column, cell = self.table.columns[name], row[name]
                if column.type:
                    cell = world.forms[column.type][cell][self.forms[name]]
                elif column.time:
                    cell = cell.replace(" ", self.joint)
                cells[header] = self.code(name, cell)
            rows.append(cells)
        return rows

    def field(self, column: str) -> str:
        """Return what stands for a column in commands."""
        place = [*self.headers].index(column) + 1
        field = self.carrier.field.replace("<name>", self.headers[column])
        for part, number in (("<n>", place), ("<n1>", place + 1), ("<n2>", 2 * place)):
            field = field.replace(part, str(number))
        return field


def draw_layout(
    draw: Draw, world: World, name: str, carriers: Sequence[str], taken: set[str]
) -> Layout:
    """Return a layout that suits a table, with a name that is not taken."""
    table = world.domain.tables[name]
    while True:
        carrier = CARRIERS[draw.choice(carriers)]
        headers, forms = {}, {}
        for column in draw.shuffled(table.columns):
            parts = table.columns[column]
            headers[column] = draw.choice(parts.names.split())
            if parts.type:
                forms[column] = parts.form or draw.choice([*world.domain.types[parts.type].forms])
        pack, file = draw.choice(carrier.packs.split()), draw.choice(table.names.split())
        ending = ENDINGS[pack].format(draw.choice(carrier.endings.split()))
        layout = Layout(
            name,
            table,
            carrier,
            draw.choice(carrier.separators),
            pack,
            f"{draw.choice(table.folders.split())}/{file}{ending}",
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
    if layout.carrier.timed and not (layout.table.time and author_of(layout, world)):
        return False
    if layout.pack == "cards" and len(world.tables[layout.name]) > MOST_CARDS:
        return False
    cells = [str(cell) for row in layout.texts(world) for cell in row.values()]
    return not layout.sep or not any(layout.sep in cell for cell in cells)


def author_of(layout: Layout, world: World) -> str:
    """Return the first column of people, who make commits; "" if there is none."""
    for name, column in layout.table.columns.items():
        if column.type and "email" in world.domain.types[column.type].forms:
            return name
    return ""


def coded(draw: Draw, world: World, layout: Layout) -> Layout:
    """Return a layout with codes for the values of columns that have few."""
    codes = {}
    for name in layout.headers:
        column = layout.table.columns[name]
        values = sorted({str(row[name]) for row in world.tables[layout.name]})
        if column.value and not column.numbers and 1 < len(values) <= MOST_CODED:
            signs = map(str, draw.sample(range(10, 100), len(values)))
            codes[name] = dict(zip(values, signs, strict=True))
    return replace(layout, codes=codes)
