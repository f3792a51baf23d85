"""Names and values as SQL text that the server reads back as they were. NaN becomes NULL, as it does in SQLite."""

from __future__ import annotations

import datetime
import math

from intercode.envs.sql.text import clock


def quoted(name: str, dialect: str) -> str:
    mark = '"' if dialect == "sqlite" else "`"
    return mark + name.replace(mark, 2 * mark) + mark


def literal(value: object, dialect: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        if dialect != "sqlite":
            return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
        if any(one == "\0" or "\ud800" <= one <= "\udfff" for one in value):
            return f"CAST(X'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return "NULL" if math.isnan(value) else f"{math.copysign(9, value):.0f}e999"
    if isinstance(value, datetime.timedelta):
        return f"'{clock(value)}'"
    return f"'{value}'" if isinstance(value, datetime.date) else str(value)
