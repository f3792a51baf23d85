"""What is particular to the SQL of one engine: its syntax, and where it keeps its catalog.

A `Dialect` is a value beside its engine (`Engine.dialect`). The reader of golds (`text.py`),
variant data (`variants/`) and lint work through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

Query = Callable[[str], tuple[tuple[object, ...], ...]]
"""Executes a statement as the grader, and returns its rows."""


class Creation(NamedTuple):
    """The statements that make a database anew: `tables` by name, all statements that go `before`
    the rows (these included), and those that go `after` them, such as indexes and views."""

    tables: dict[str, str]
    before: list[str]
    after: list[str]


def write_standard_text(text: str) -> str:
    """Return a text as a literal of standard SQL, where only the quote is doubled."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Dialect:
    """The SQL of one engine. The defaults are standard SQL, but for `INSERT OR IGNORE`.

    The first four arguments say where the catalog is: three statements, each sorted by table, and
    within a key or a reference by the column's place in it, and a function.
    """

    name: str
    """The dialect's name in sqlglot."""
    columns: str
    """Selects table, column, and whether it takes NULL, of all columns that hold values of their
    own: not of generated ones."""
    keys: str
    """Selects table, a name of the key (unique in the table), and column, of all unique keys."""
    references: str
    """Selects table, a name of the reference, the other table, column, and the other table's
    column, of all foreign keys."""
    creation: Callable[[Query, str], Creation]
    """Returns the statements that make the database of that name, read by queries."""
    mark: str = field(default='"', kw_only=True)
    """The character around a quoted name."""
    insert: str = field(default="INSERT OR IGNORE", kw_only=True)
    """The beginning of an INSERT that leaves out rows whose key exists."""
    write_text: Callable[[str], str] = field(default=write_standard_text, kw_only=True)
    """Returns a text as a literal."""
    texts_in_marks: bool = field(default=False, kw_only=True)
    """Whether a quoted name is a text where there is no such column."""

    def quote(self, name: str) -> str:
        """Return a name in quotes."""
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def write(self, value: object) -> str:
        """Return a value as SQL text that the server reads back as it was. NaN becomes NULL, as in
        SQLite."""
        if value is None:
            return "NULL"
        if isinstance(value, str):
            return self.write_text(value)
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, float):
            return "NULL" if math.isnan(value) else repr(value).replace("inf", "9e999")
        if isinstance(value, timedelta):
            return f"'{format_time(value)}'"
        return f"'{value}'" if isinstance(value, date) else str(value)


def format_time(span: timedelta) -> str:
    """Return a TIME as MySQL writes it: hours may pass 24, and be negative; a fraction where there
    is one."""
    sign, span = ("-", -span) if span < timedelta(0) else ("", span)
    seconds = span.days * 86400 + span.seconds
    fraction = f".{span.microseconds:06}" if span.microseconds else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
