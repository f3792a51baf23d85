"""Compare an agent's rows with the gold's as a careful person would: the same rows, in the gold's
order if the order matters.

    columns   as many as the gold's; in any order if their names identify them, else by position
    rows      the same multiset
    order     rows that tie may exchange places; if a LIMIT cuts a tie group, any of its rows may be
              returned

    place     1   2   3 │ 4            gold: … ORDER BY age LIMIT 3
    tie       1   2   2 │ 2            place 1 must be the row in tie group 1, places 2 and 3 any
                                       two of the three rows in tie group 2

    numbers                           value by value, by the type and scale that the server reports:
      an integer, a short DECIMAL     exactly: 1 == 1.00; a DOUBLE is compared by its printed digits
      two DOUBLEs                     within 1e-9 of the larger, or within 1e-12
      DECIMALs, scales from 4 up      exactly if the scales are equal, otherwise within one unit of
                                      the smaller scale: 33.3333, 33.33333
      DOUBLE, DECIMAL from scale 4    within one unit of that scale, or within 1e-12 of the larger
      less than 100 such units        within half a unit if the gold has the smaller scale,
                                      otherwise exactly
      the gold's FLOAT                to the digits that the server prints: 1.7, 1.70000005
      the gold's DOUBLE that prints   also within one unit of that scale: STDDEV(n) is 7.4288, or
      a fixed scale from 4 up         7.428828979
    None, str, bytes                  equal as in Python; NULL equals only NULL, NaN equals NaN
    date, datetime, time, timedelta   equal to the text that MySQL prints: 2020-01-02,
                                      2020-01-02 03:04:05, 03:04:05

SQLite's REAL is a DOUBLE. Rounding by the server is known only for the gold's columns, and ignored
if the answer's column is rounded the same way. A number never equals a text, nor do bytes. Texts
are compared letter by letter, including case and whitespace; a date does not equal midnight. Names
identify columns if each name that both sides share is unique and at most one other column remains
on each side; expressions as names do so unless more rows match by position. A truncated answer
(`Table.cut`) is never solved. Left out: the optimal pairing of rows that equal several others (each
row is paired in turn, with one of `_LOOKS` neighbours), answers with every row of a tie group if
the gold's LIMIT takes one, and values of other types, which are compared directly, or by their text
if they cannot be hashed.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain, groupby, islice, pairwise
from typing import Any, NamedTuple

from intercode.envs.rewards import mostly_in
from intercode.envs.sql.dialect import format_time
from intercode.envs.sql.text import Ordering
from intercode.types import Digits, Score, Table

Row = tuple[object, ...]
Match = tuple[list[Row], list[Row], slice, Mapping[int, Counter[Row]]]

_BELOW_ONE = 0.99
_DISORDER = 0.5
_NAN = ("not a number",)
_DOUBLE, _FINE = math.inf, 4
"""The scale of a DOUBLE, and the least scale of a DECIMAL that may equal one of another scale."""
_RELATIVE, _DIGITS, _ZERO = Decimal("1e-9"), Decimal("1e-12"), Decimal("1e-12")
"""Tolerances: relative for two DOUBLEs, relative for a DOUBLE and a DECIMAL, absolute for two
DOUBLEs."""
_SURE = 100
"""Numbers of at least this many units may differ in scale, since at least two of their digits are
certain."""
_FRACTION = re.compile(r"((?:\d{4}-\d\d-\d\d[ T])?-?\d+:\d\d:\d\d)(\.\d+)")
_LOOKS = 100
"""The most gold rows that one row is compared with."""


@dataclass(frozen=True, slots=True)
class Order:
    """The meaning of the order of a gold's rows.

    `rows`: the rows that the gold would return without its LIMIT, in order; `ties`: the number of
    each row's tie group, ascending; `start`: how many rows the OFFSET skips.
    """

    rows: tuple[Row, ...]
    ties: tuple[int, ...]
    start: int = 0


def free(gold: Table) -> Order:
    """Return the order that accepts the gold's rows in any order."""
    return Order(gold.rows, (0,) * len(gold.rows))


def strict(gold: Table) -> Order:
    """Return the order that accepts only the gold's order."""
    return Order(gold.rows, tuple(range(len(gold.rows))))


def order_of(gold: Table, ordering: Ordering, full: Table | None) -> Order:
    """Return the order of a gold's rows. `full` is the result of the first statement in
    `ordering.derived` that the database accepted, None if it accepted none.

    The order is strict if `full` cannot be used: it is truncated, or the gold's rows do not fit it.
    Tie groups that contain no row of the gold are left out.
    """
    if ordering.free:
        return free(gold)
    width = len(gold.columns)
    if full is None or full.cut or len(full.columns) < width:
        return strict(gold)
    keys = [(*row[width:], *(row[place] for place in ordering.places)) for row in full.rows]
    ties = []
    for tie, (_, group) in enumerate(groupby(keys)):
        ties += [tie] * len([*group])
    first = last = start = ordering.offset
    if window := ties[start : start + len(gold.rows)]:
        first = bisect_left(ties, window[0])
        last = bisect_right(ties, window[-1])
    rows = tuple(row[:width] for row in full.rows)
    order = Order(rows[first:last], tuple(ties[first:last]), start - first)
    split = ordering.distinct and len({*map(repr, rows)}) < len(rows)
    whole = (ordering.limited and not split) or len(rows) == len(gold.rows)
    if whole and sql_exact(gold, gold, order).success:
        return order
    return strict(gold)


def sql_exact(agent: Table | None, gold: Table | None, order: Order) -> Score:
    """Score an agent's rows against the gold's.

    Return 1 if solved, otherwise 0.99 times the share of common rows (intersection over union),
    halved if their order is wrong. A wrong answer with most of the gold's values is ambiguous.
    """
    if agent is None or gold is None or not (match := _match(agent, gold, order)):
        rule = "no rows" if agent is None else "another number of columns"
        parts = {"rows": 0.0, "order": 0.0, "columns": 0.0}
        return Score(0.0, False, parts, mostly_in(_values(gold), _values(agent)), rule)
    agent_rows, gold_rows, window, matched = match
    common = _common(matched)
    either = len(agent_rows) + len(gold.rows) - common
    rows = common / either if either else 1.0
    if rows == 1:  # each row is at a place of its tie group, and no group has a row too often
        groups = _groups(gold_rows, order.ties)
        answered = _groups(agent_rows, order.ties[window])
        in_order = all(group <= groups[tie] for tie, group in answered.items())
    else:
        in_order = _rises(agent_rows, gold_rows, order.ties)
    parts = {"rows": rows, "order": float(in_order), "columns": 1.0}
    cut = agent.cut or gold.cut
    if rows == 1 and in_order and not cut:
        same = agent_rows == gold_rows[window]
        return Score(1.0, True, parts, rule="same rows" if same else "same rows in another order")
    rule = "another order"
    if cut or len(agent.rows) != len(gold.rows):
        rule = "another number of rows"
    elif rows < 1:
        rule = "other rows"
    reward = _BELOW_ONE * rows
    if not in_order:
        reward *= _DISORDER
    return Score(reward, False, parts, mostly_in(_values(gold), _values(agent)), rule)


def sql_bird(agent: Table | None, gold: Table | None) -> Score:
    """Score as BIRD's evaluation does: 1 if the sets of rows are equal, whatever the order, repeats
    and names of columns; otherwise 0."""
    same = (
        agent is not None
        and gold is not None
        and not (agent.cut or gold.cut)
        and set(agent.rows) == set(gold.rows)
    )
    return Score(float(same), same, {"rows": float(same)})


def difference(agent: Table, gold: Table, order: Order) -> tuple[list[int], list[int]]:
    """Return the places of the gold's rows that the agent lacks, and of the agent's rows that the
    gold lacks; all places if the columns do not match."""
    match = _match(agent, gold, order)
    if match is None:
        return [*range(len(gold.rows))], [*range(len(agent.rows))]
    agent_rows, _, window, matched = match
    used = sum(matched.values(), Counter[Row]())
    ties = order.ties[window]
    # another member of a cut tie is not a missing row
    lacking = Counter(ties)
    for tie, rows in matched.items():
        lacking[tie] -= rows.total()
    missing = []
    extra = []
    for place, (row, tie) in enumerate(zip(map(_plain_row, gold.rows), ties, strict=False)):
        if matched[tie][row]:
            matched[tie][row] -= 1
        elif lacking[tie]:
            lacking[tie] -= 1
            missing.append(place)
    for place, row in enumerate(agent_rows):
        if used[row]:
            used[row] -= 1
        else:
            extra.append(place)
    return missing, extra


def _values(table: Table | None) -> Iterable[str]:
    return map(str, chain.from_iterable(table.rows)) if table else ()


# -- rows and tie groups ---------------------------------------------------------------------------


def _common(matched: Mapping[int, Counter[Row]]) -> int:
    return sum(map(Counter.total, matched.values()))


def _match(agent: Table, gold: Table, order: Order) -> Match | None:
    """Return the agent's rows and the gold's in a form that `==` compares, the window of the
    gold's returned rows, and by tie group the agent's rows that match rows of the gold, in any
    order; None if the numbers of columns differ.

    Groups that lie entirely inside the window are matched first. A group that the window cuts may
    match any of its rows, up to its number of places in the window.
    """
    by_name = _align(agent.columns, gold.columns)
    if by_name is None:
        return None
    match = _matched(agent, by_name, gold, order)
    by_place = [*range(len(by_name))]
    computed = not all(map(str.isidentifier, {*agent.columns} & {*gold.columns}))
    if computed and by_name != by_place:  # COUNT(*) may be another count, as its place says
        placed = _matched(agent, by_place, gold, order)
        if _common(placed[-1]) > _common(match[-1]):
            return placed
    return match


def _matched(agent: Table, columns: Sequence[int], gold: Table, order: Order) -> Match:
    window = slice(order.start, order.start + len(gold.rows))
    agent_rows, gold_rows = _comparable(agent, columns, gold, order.rows, window)
    unmatched, groups, matched = Counter(agent_rows), _groups(gold_rows, order.ties), {}
    places = Counter(order.ties[window])
    for tie in sorted(places, key=lambda tie: places[tie] < groups[tie].total()):
        matched[tie] = Counter(islice((unmatched & groups[tie]).elements(), places[tie]))
        unmatched -= matched[tie]
    return agent_rows, gold_rows, window, matched


def _align(agent: Sequence[str], gold: Sequence[str]) -> list[int] | None:
    """Return for each of the gold's columns the index of the agent's column; None if the numbers of
    columns differ."""
    if len(agent) != len(gold):
        return None
    agent_names = [*map(str.casefold, agent)]
    gold_names = [*map(str.casefold, gold)]
    shared = {*agent_names} & {*gold_names}
    if len(agent_names) - len(shared) > 1 or any(
        agent_names.count(name) + gold_names.count(name) > 2 for name in shared
    ):
        return [*range(len(agent))]
    (other,) = {*agent_names} - shared or {""}
    return [agent_names.index(name if name in shared else other) for name in gold_names]


def _groups(rows: Iterable[Row], ties: Iterable[int]) -> dict[int, Counter[Row]]:
    """Return the rows of each tie group, as a multiset."""
    groups: dict[int, Counter[Row]] = defaultdict(Counter)
    for row, tie in zip(rows, ties, strict=True):
        groups[tie][row] += 1
    return groups


def _rises(agent: Sequence[Row], gold: Sequence[Row], ties: Sequence[int]) -> bool:
    """Return whether the agent's rows that are also in the gold can be read in the gold's order."""
    gold_ties = defaultdict(list)
    for row, tie in zip(gold, ties, strict=True):
        gold_ties[row].append(tie)
    now = 0
    for row in agent:
        if row in gold_ties:
            place = bisect_left(gold_ties[row], now)
            if place == len(gold_ties[row]):
                return False
            now = gold_ties[row][place]
    return True


# -- values ----------------------------------------------------------------------------------------


def _comparable(
    answer: Table, columns: Sequence[int], table: Table, gold: Sequence[Row], window: slice
) -> tuple[list[Row], list[Row]]:
    """Return both sides' rows in a form that `==` compares: an agent's row that equals one of the
    gold's within the tolerances becomes that row.

    Each gold row replaces at most one of the agent's. `columns`: the answer's, in the order of
    those of the gold's `table`; `gold`: the rows from which the gold returned those in `window`.
    """
    agent = [tuple([row[place] for place in columns]) for row in answer.rows]
    agent_rows = [*map(_plain_row, agent)]
    gold_rows = [*map(_plain_row, gold)]
    if Counter(agent_rows) <= Counter(gold_rows):
        return agent_rows, gold_rows
    # what the server rounded, except in a column that is rounded in the same way on both sides
    digits = [*table.digits] or [None] * len(columns)
    for place, column in enumerate(columns):
        if answer.digits and answer.digits[column] == digits[place]:
            digits[place] = None
    rounded = {place for place, column in enumerate(digits) if column and column.significant}
    places = sorted(_inexact(gold) & (_inexact(agent) | rounded))
    if not places:
        return agent_rows, gold_rows
    agents = [*map(partial(_numbers, places, [None] * len(columns)), agent, agent_rows)]
    golds = [*map(partial(_numbers, places, digits), gold, gold_rows)]
    returned = golds[window]
    if len(agents) == len(returned) and all(map(_equal, agents, returned)):
        return gold_rows[window], gold_rows
    for place, partner in _partners(agents, golds, places).items():
        agent_rows[place] = gold_rows[partner]
    return agent_rows, gold_rows


def _inexact(rows: Sequence[Row]) -> set[int]:
    """Return the indexes of the columns that contain a number with a tolerance."""
    places = set()
    for place, column in enumerate(zip(*rows, strict=True)):
        if any(map(_scale, column)):
            places.add(place)
    return places


def _plain_row(row: Row) -> Row:
    return tuple(map(_plain, row))


def _plain(value: object) -> Hashable:
    if isinstance(value, str):
        return _without_zeros(value) if ":" in value and "." in value else value
    if type(value) is int or value is None:
        return value
    if isinstance(value, float | Decimal) and math.isnan(value):
        return _NAN
    if isinstance(value, float):
        return int(value) if value.is_integer() else Decimal(repr(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, date | time):
        return _without_zeros(str(value))
    if isinstance(value, timedelta):
        return _without_zeros(format_time(value))
    return value if isinstance(value, Hashable) else str(value)


def _without_zeros(text: str) -> str:
    """Return a time without the last zeros of its fraction: a driver prints six digits, a server as
    many as the column declares."""
    if time := _FRACTION.fullmatch(text):
        return time[1] + time[2].rstrip("0").rstrip(".")
    return text


# -- numbers with a tolerance ----------------------------------------------------------------------


class _Number(NamedTuple):
    """A plain value; its scale if it is a number with a tolerance; whether it is a DOUBLE or FLOAT;
    and how far a FLOAT may be from its printed value."""

    value: Any
    scale: float | None = None
    is_double: bool = False
    slack: Decimal = Decimal(0)

    @property
    def position(self) -> Decimal:
        """Return the position on the number line; 0 for other values."""
        if isinstance(self.value, int | Decimal) and Decimal(self.value).is_finite():
            return Decimal(self.value)
        return Decimal(0)


_Numbers = Sequence[_Number]


def _numbers(
    places: Sequence[int], digits: Sequence[Digits | None], row: Row, plain: Row
) -> _Numbers:
    numbers = [*map(_Number, plain)]
    for place in places:
        numbers[place] = _number(row[place], plain[place], digits[place])
    return numbers


def _number(value: object, plain: Any, digits: Digits | None) -> _Number:
    scale = _scale(value)
    slack = Decimal(0)
    is_double = scale == _DOUBLE
    if is_double and digits:
        significant, decimals = digits
        if significant is None:
            if decimals is not None and decimals >= _FINE:
                scale = decimals
        elif plain:
            last = Decimal(plain).adjusted() - significant + 1
            if decimals is not None:
                last = min(last, -decimals)
            slack = Decimal(5).scaleb(last - 1)
    return _Number(plain, scale, is_double, slack)


def _scale(value: object) -> float | None:
    if isinstance(value, float) and math.isfinite(value):
        return _DOUBLE
    if isinstance(value, Decimal) and value.is_finite():
        scale = -int(value.as_tuple().exponent)
        if scale >= _FINE:
            return scale
    return None


def _equal(agent: _Numbers, gold: _Numbers) -> bool:
    return all(map(_equal_values, agent, gold))


def _equal_values(agent: _Number, gold: _Number) -> bool:
    if agent.value == gold.value:
        return True
    is_number = isinstance(agent.value, int | Decimal)
    if gold.slack and is_number and abs(agent.value - gold.value) <= gold.slack:
        return True
    if agent.scale is None or gold.scale is None:
        return False
    doubles = agent.is_double + gold.is_double
    if not doubles and agent.scale == gold.scale:
        return False
    tolerance = (0, _DIGITS, _RELATIVE)[doubles] * max(abs(agent.value), abs(gold.value))
    if gold.is_double:
        tolerance = max(tolerance, _ZERO)
    scale = min(agent.scale, gold.scale)
    if scale != _DOUBLE:
        unit = Decimal(1).scaleb(-int(scale))
        if abs(gold.value) < _SURE * unit:
            unit = unit / 2 if gold.scale == scale else Decimal(0)
        tolerance = max(tolerance, unit)
    return bool(abs(agent.value - gold.value) <= tolerance)


def _partners(
    agents: Sequence[_Numbers], golds: Sequence[_Numbers], places: Sequence[int]
) -> dict[int, int]:
    """Return for the agent's rows equal rows of the gold, both by number. `places`: the columns
    with a tolerance.

    Only rows in the same cell are compared: in each column they have the same value, or numbers
    without a gap wider than a tolerance between them. The agent's rows are taken in descending
    order, and each takes the greatest equal row that is left.
    """
    columns = [*zip(*agents, *golds, strict=True)]
    reaches = {}
    values = [[number.value for number in column] for column in columns]
    for place in places:
        reaches[place] = _reach(columns[place])
        values[place] = _chains(columns[place], reaches[place])
    cells = defaultdict[tuple[Hashable, ...], tuple[list[int], list[int]]](lambda: ([], []))
    for row, cell in enumerate(zip(*values, strict=True)):
        if row < len(agents):
            cells[cell][0].append(row)
        else:
            cells[cell][1].append(row - len(agents))
    partners = {}
    for agent_rows, gold_rows in cells.values():
        if not (agent_rows and gold_rows):
            continue
        if len(agent_rows) == len(gold_rows) == 1:
            if _equal(agents[agent_rows[0]], golds[gold_rows[0]]):
                partners[agent_rows[0]] = gold_rows[0]
            continue
        key = max(reaches, key=lambda place: len({golds[row][place].value for row in gold_rows}))
        gold_rows.sort(key=lambda row: _rank(golds[row], key))
        agent_rows.sort(key=lambda row: _rank(agents[row], key), reverse=True)
        line = [golds[row][key].position for row in gold_rows]
        for row in agent_rows:
            position = agents[row][key].position
            room = reaches[key](position)
            first = bisect_left(line, position - room)
            last = bisect_right(line, position + room)
            for near in range(last - 1, max(first, last - _LOOKS) - 1, -1):
                if _equal(agents[row], golds[gold_rows[near]]):
                    partners[row] = gold_rows.pop(near)
                    del line[near]
                    break
    return partners


def _reach(column: Sequence[_Number]) -> Callable[[Decimal], Decimal]:
    """Return a bound on how far a number at a position may be from an equal one in its column."""
    least = min(number.scale for number in column if number.scale is not None)
    unit = _ZERO
    if least != _DOUBLE:
        unit = max(unit, Decimal(1).scaleb(-int(least)))
    share = _RELATIVE
    for number in column:
        if number.slack:
            share = max(share, number.slack / abs(number.position))
    return lambda position: max(unit, 2 * share * abs(position))


def _chains(column: Sequence[_Number], reach: Callable[[Decimal], Decimal]) -> list[Hashable]:
    """Return for each number the least number in its chain, in which neighbours are at most a
    tolerance apart; other values are returned unchanged."""
    line = sorted({number.position for number in column})
    least = {line[0]: line[0]}
    for position, upper in pairwise(line):
        least[upper] = least[position] if upper - position <= reach(upper) else upper
    return [least.get(number.value, number.value) for number in column]


def _rank(row: _Numbers, key: int) -> list[tuple[Decimal, bool]]:
    """Return the sort key for rows in a cell: their numbers, column `key` first; of equal numbers,
    those without a tolerance come last."""
    return [(number.position, number.scale is None) for number in (row[key], *row)]
