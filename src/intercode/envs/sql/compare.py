"""Compare an agent's rows with the gold's as a careful person would: the gold's rows, in the gold's order where it has one.

    columns   as many as the gold's; in any order where their names decide it, else by position
    rows      the same multiset
    order     rows may change places with those that tie with them; a LIMIT that cuts a tie may take any of the tie

    place     1   2   3 │ 4            gold: … ORDER BY age LIMIT 3
    tie       1   2   2 │ 2            place 1 must be the row of tie 1; places 2 and 3 any two of the three of tie 2

    None, int, Decimal, str, bytes    equal as in Python (1 == Decimal("1.00"), True == 1); NULL equals only NULL
    date, datetime, time, timedelta   equal to the text that MySQL prints: 2020-01-02, 2020-01-02 03:04:05, 03:04:05
    numbers of a column with a float  equal within 1e-6 of the larger

A number never equals a text, nor bytes a text. Text counts letter by letter, case and blanks included; a date is not midnight.
Names decide the order of columns if all names that both sides share occur once and at most one column is left on each side.
A cut answer (`Table.cut`) is never solved. Left out: values between which floats lie more densely than 1e-6 (such a column is
compared in steps of that width), answers with every member of a tie where the gold's LIMIT takes one, and values of other
types, which are compared as they are, or by their text where they cannot be hashed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice

from intercode.envs.rewards import mostly_in
from intercode.envs.sql.text import Ordering, format_time
from intercode.types import Score, Table

Row = tuple[object, ...]

_BELOW_ONE, _DISORDER = 0.99, 0.5
_CLOSE, _ZERO, _HUGE = 1e-6, 1e-12, 1e308
_NAN = ("not a number",)


@dataclass(frozen=True, slots=True)
class Order:
    """The meaning of the order of a gold's rows.

    `rows`: all that the gold would return without its LIMIT, in order; `ties`: the number of each row's tie group, rising;
    `start`: how many rows its OFFSET skips.
    """

    rows: tuple[Row, ...]
    ties: tuple[int, ...]
    start: int = 0


def free(gold: Table) -> Order:
    """Return the order that accepts the gold's rows in any order."""
    return Order(gold.rows, (0,) * len(gold.rows))


def strict(gold: Table) -> Order:
    """Return the order that accepts only the gold's own."""
    return Order(gold.rows, tuple(range(len(gold.rows))))


def order_of(gold: Table, ordering: Ordering, full: Table | None) -> Order:
    """Return the order of a gold's rows; `full` is what `ordering.derived` returned, None if there is none or it failed.

    The order is strict where `full` does not help: it is cut, or the gold's own rows do not fit it. Tie groups without a row
    of the gold are left out.
    """
    if ordering.free:
        return free(gold)
    if full is None or full.cut or len(full.columns) != len(gold.columns) + 1:
        return strict(gold)
    ranked = sorted((int(str(row[-1])), place) for place, row in enumerate(full.rows))
    ties = [tie for tie, _ in ranked]
    start = ordering.offset
    window = ties[start : start + len(gold.rows)]
    first, last = (bisect_left(ties, window[0]), bisect_right(ties, window[-1])) if window else (start, start)
    rows = tuple(full.rows[place][:-1] for _, place in ranked[first:last])
    order = Order(rows, tuple(ties[first:last]), start - first)
    whole = ordering.limited or len(full.rows) == len(gold.rows)
    return order if whole and sql_exact(gold, gold, order).success else strict(gold)


def sql_exact(agent: Table | None, gold: Table | None, order: Order) -> Score:
    """Score an agent's rows against the gold's.

    1 if solved; else 0.99 times the share of common rows (intersection over union), half of that if their order is wrong.
    Unsure if not solved, but most of the gold's values are among the agent's.
    """
    places = None if agent is None or gold is None else alignment(agent.columns, gold.columns)
    if agent is None or gold is None or places is None:
        return Score(0.0, False, {"rows": 0.0, "order": 0.0, "columns": 0.0}, mostly_in(_values(gold), _values(agent)))
    ours, theirs = comparable([tuple(row[place] for place in places) for row in agent.rows], order.rows)
    window = range(order.start, order.start + len(gold.rows))
    common = _match(ours, theirs, order.ties, window).total()
    either = len(ours) + len(gold.rows) - common
    rows = common / either if either else 1.0
    if rows == 1:  # each row at a place of its tie group, and no group gives a row too often
        groups, ties = _groups(theirs, order.ties), [order.ties[place] for place in window]
        in_order = all(found <= groups[tie] for tie, found in _groups(ours, ties).items())
    else:
        in_order = _rises(ours, theirs, order.ties)
    solved = rows == 1 and in_order and not (agent.cut or gold.cut)
    reward = 1.0 if solved else _BELOW_ONE * rows * (1.0 if in_order else _DISORDER)
    ambiguous = not solved and mostly_in(_values(gold), _values(agent))
    return Score(reward, solved, {"rows": rows, "order": float(in_order), "columns": 1.0}, ambiguous)


def difference(agent: Table, gold: Table, order: Order) -> tuple[list[Row], list[Row]]:
    """Return the gold's rows that the agent lacks, and the agent's that the gold lacks; all if the columns do not match."""
    places = alignment(agent.columns, gold.columns)
    if places is None:
        return list(gold.rows), list(agent.rows)
    ours = [tuple(row[place] for place in places) for row in agent.rows]
    mine, theirs, own = comparable(ours, order.rows, gold.rows)
    matched = _match(mine, theirs, order.ties, range(order.start, order.start + len(gold.rows)))
    missing, extra = ([*(Counter(rows) - matched).elements()] for rows in (own, mine))
    return missing[: len(gold.rows) - matched.total()], extra  # another member of a cut tie is no missing row


def _values(table: Table | None) -> list[str]:
    return [str(value) for row in table.rows for value in row] if table else []


def alignment(ours: Sequence[str], theirs: Sequence[str]) -> list[int] | None:
    """Return for each of the gold's columns the place of the agent's; None if the numbers of columns differ."""
    if len(ours) != len(theirs):
        return None
    mine, wanted = ([name.casefold() for name in names] for names in (ours, theirs))
    shared = set(mine) & set(wanted)
    once = all(mine.count(name) == wanted.count(name) == 1 for name in shared)
    if not once or len(mine) - len(shared) > 1:
        return list(range(len(ours)))
    rest = [place for place, name in enumerate(mine) if name not in shared]
    return [mine.index(name) if name in shared else rest[0] for name in wanted]


# -- rows and tie groups ------------------------------------------------------------------------------------------------


def _groups(rows: Iterable[Row], ties: Iterable[int]) -> dict[int, Counter[Row]]:
    """Return the rows of each tie group, as a multiset."""
    found: dict[int, Counter[Row]] = defaultdict(Counter)
    for row, tie in zip(rows, ties, strict=True):
        found[tie][row] += 1
    return found


def _match(ours: Sequence[Row], theirs: Sequence[Row], ties: Sequence[int], window: range) -> Counter[Row]:
    """Return the agent's rows that an answer can have in common with the gold, in any order.

    Groups that the window shows whole come first; of a group that the window cuts, any members up to its places there.
    """
    left, groups, found = Counter(ours), _groups(theirs, ties), Counter[Row]()
    places = Counter(ties[place] for place in window if place < len(ties))
    for tie in sorted(places, key=lambda tie: places[tie] < groups[tie].total()):
        taken = Counter(islice((left & groups[tie]).elements(), places[tie]))
        left -= taken
        found += taken
    return found


def _rises(ours: Sequence[Row], theirs: Sequence[Row], ties: Sequence[int]) -> bool:
    """Tell whether the agent's rows that the gold has too can be read as standing in order."""
    known: dict[Row, list[int]] = defaultdict(list)
    for row, tie in zip(theirs, ties, strict=True):
        known[row].append(tie)
    now = 0
    for row in ours:
        if row in known:
            place = bisect_left(known[row], now)
            if place == len(known[row]):
                return False
            now = known[row][place]
    return True


# -- values -------------------------------------------------------------------------------------------------------------


def comparable(*sides: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each side, all of one width, with values that are equal if and only if `==` and `hash` say so.

    Close numbers are replaced by the lowest one of their cluster. Clusters are made of the values of all sides together, so
    they hold for this comparison only.
    """
    rows = [row for side in sides for row in side]
    columns = [[_plain(value) for value in column] for column in zip(*rows, strict=True)]
    for place, column in enumerate(columns):
        if any(type(value) is float for value in column):
            cluster = _clusters({value for value in column if isinstance(value, int | float | Decimal)})
            columns[place] = [cluster[value] if isinstance(value, int | float | Decimal) else value for value in column]
    plain = iter(zip(*columns, strict=True) if columns else rows)
    return [list(islice(plain, len(side))) for side in sides]


def _plain(value: object) -> Hashable:
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if isinstance(value, float | Decimal):
        return value if not math.isnan(value) else _NAN
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, date | time):
        return str(value)
    if isinstance(value, timedelta):
        return format_time(value)
    return value if isinstance(value, Hashable) else str(value)


def _clusters(numbers: set[int | float | Decimal]) -> dict[int | float | Decimal, float]:
    """Return for each number the lowest one of its cluster; no cluster is wider than the tolerance."""

    found: dict[int | float | Decimal, float] = {}
    lowest = -math.inf
    for value, number in sorted((float(min(max(number, -_HUGE), _HUGE)), number) for number in numbers):
        if not math.isclose(lowest, value, rel_tol=_CLOSE, abs_tol=_ZERO):
            lowest = value
        found[number] = lowest
    return found
