"""Names and values as SQL text that the server reads back as they were, for `tables.py` and `relations.py`.

Left out: text for MySQL that is not UTF-8 (as surrogates) gets U+FFFD in those places, since MySQL's columns refuse such bytes;
NaN becomes NULL, as it does in SQLite.
"""

from __future__ import annotations

import datetime
import math

from intercode.errors import DataError
from intercode.sqltext import clock


def quoted(name: str, dialect: str) -> str:
    mark = '"' if dialect == "sqlite" else "`"
    return mark + name.replace(mark, 2 * mark) + mark


def literal(value: object, dialect: str) -> str:
    """Raises `DataError` for what the dialect has no value for."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return _text(value, dialect)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return _float(value, dialect)
    if isinstance(value, datetime.timedelta):
        return f"'{clock(value)}'"
    return f"'{value}'" if isinstance(value, datetime.date) else str(value)


def _text(value: str, dialect: str) -> str:
    odd = any("\ud800" <= one <= "\udfff" for one in value)
    if dialect != "sqlite":
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if odd else value
        return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
    if odd or "\0" in value:
        return f"CAST(X'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
    return "'" + value.replace("'", "''") + "'"


def _float(value: float, dialect: str) -> str:
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return "NULL"
    if dialect != "sqlite":
        raise DataError("MySQL has no infinite numbers")
    return f"{math.copysign(9, value):.0f}e999"
