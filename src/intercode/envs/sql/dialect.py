"""The particulars of one engine's SQL: its syntax, and how to query its catalog.

Each engine has a `Dialect` (`Engine.dialect`). The parser of golds (`text.py`), variant data
(`variants/`) and lint use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import date, timedelta
from typing import NamedTuple

Query = Callable[[str], tuple[tuple[object, ...], ...]]
"""Executes a statement as the grader and returns its rows."""


class Creation(NamedTuple):
    """The statements that recreate a database: `tables` by name, all statements to execute `before`
    inserting rows (including `tables`), and those `after`, such as indexes and views."""

    tables: dict[str, str]
    before: list[str]
    after: list[str]


def write_standard_text(text: str) -> str:
    """Return a text as a standard SQL literal, which doubles quotes and has no other escapes."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Dialect:
    """The SQL of one engine. The defaults are standard SQL, except for `INSERT OR IGNORE`.

    The four arguments after `name` read the catalog: three statements and a function. The rows of
    each statement are sorted by table and, within a key or reference, by the column's position.
    """

    name: str
    """The dialect's name in sqlglot."""
    columns: str
    """Selects table, column, whether the column accepts NULL, and optionally its type and default,
    for all columns except generated ones; also for views."""
    keys: str
    """Selects table, key name (unique within the table), and column, for all unique keys."""
    references: str
    """Selects table, reference name, referenced table, column, and referenced column, for all
    foreign keys."""
    creation: Callable[[Query, str], Creation]
    """Queries the server and returns the statements that create the named database."""
    _: KW_ONLY
    mark: str = '"'
    """The character around a quoted name."""
    insert: str = "INSERT OR IGNORE"
    """The beginning of an INSERT that skips rows with an existing key."""
    write_text: Callable[[str], str] = write_standard_text
    """Returns a text as a literal."""
    indexes: str = ""
    """Selects table, index name and column for all other indexes; "" if they are not compared."""
    texts: str = ""
    """Selects kind, table or name, and text of what is compared by its text: triggers, routines,
    indexes with a condition or an expression; "" if there is nothing."""
    texts_in_marks: bool = False
    """A quoted name is a text if there is no such column."""

    def quote(self, name: str) -> str:
        """Return a name in quotes."""
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def write(self, value: object) -> str:
        """Return a value as SQL text that the server reads back as the same value. NaN becomes
        NULL, as in SQLite."""
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
        if isinstance(value, date):
            return f"'{value}'"
        return str(value)


def format_time(span: timedelta) -> str:
    """Return a TIME as MySQL writes it: hours may exceed 24 and be negative; a fraction is written
    only if there is one."""
    sign = "-" if span < timedelta(0) else ""
    span = abs(span)
    seconds = span.days * 86400 + span.seconds
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if span.microseconds:
        text += f".{span.microseconds:06}"
    return text
