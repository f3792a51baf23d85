"""Rows of values made comparable: after this, two values are the same if and only if Python's `==` and `hash` say so.

    None, int, Decimal, str, bytes    as they are (1 == Decimal("1.00") already; True counts as 1)
    date, datetime, time, timedelta   the text that MySQL prints: 2020-01-02, 2020-01-02 03:04:05, 03:04:05
    numbers of a column with a float  the lowest number of their cluster: neighbours within 1e-6 of the larger

Clusters are made of both sides' values together, so they say what equals what in this comparison only.
Left out: values of other types; they are compared as they are, or by their text where they cannot be hashed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from intercode.envs.sql.text import clock

Row = tuple[object, ...]

_CLOSE, _ZERO = 1e-6, 1e-12
_NAN = ("not a number",)


def comparable(*sides: Sequence[Row]) -> list[list[Row]]:
    """The rows of each side, all of one width, with comparable values."""
    rows = [row for side in sides for row in side]
    columns = [_column(column) for column in zip(*rows, strict=True)]
    plain = list(zip(*columns, strict=True)) if columns else rows
    found, start = [], 0
    for side in sides:
        found.append(plain[start : start + len(side)])
        start += len(side)
    return found


def _column(values: Iterable[object]) -> list[Hashable]:
    plain = [_plain(value) for value in values]
    if not any(type(value) is float for value in plain):
        return plain
    cluster = _clusters({value for value in plain if isinstance(value, int | float | Decimal)})
    return [cluster[value] if isinstance(value, int | float | Decimal) else value for value in plain]


def _plain(value: object) -> Hashable:
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if isinstance(value, float | Decimal):
        return value if not math.isnan(value) else _NAN
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return clock(value)
    return value if isinstance(value, Hashable) else str(value)


def _clusters(numbers: set[int | float | Decimal]) -> dict[int | float | Decimal, float]:
    """For each number the one that stands for its cluster; no cluster is wider than the tolerance."""
    found: dict[int | float | Decimal, float] = {}
    lowest = -math.inf
    for value, number in sorted((_float(number), number) for number in numbers):
        if not math.isclose(lowest, value, rel_tol=_CLOSE, abs_tol=_ZERO):
            lowest = value
        found[number] = lowest
    return found


def _float(number: int | float | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)
