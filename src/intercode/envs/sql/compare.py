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
on each side. A truncated answer (`Table.cut`) is never solved. Left out: the optimal pairing of
rows that equal several others (each row is paired in turn, with one of `_LOOKS` neighbours),
answers with every row of a tie group if the gold's LIMIT takes one, and values of other types,
which are compared directly, or by their text if they cannot be hashed.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import accumulate, islice, pairwise
from typing import Any, NamedTuple

from intercode.envs.rewards import mostly_in
from intercode.envs.sql.dialect import format_time
from intercode.envs.sql.text import Ordering
from intercode.types import Digits, Score, Table

Row = tuple[object, ...]

_BELOW_ONE, _DISORDER = 0.99, 0.5
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
    changes = (one != other for one, other in pairwise(keys))
    ties = [*accumulate(changes, initial=0)][: len(keys)]
    start = ordering.offset
    window = ties[start : start + len(gold.rows)]
    first, last = (
        (bisect_left(ties, window[0]), bisect_right(ties, window[-1])) if window else (start, start)
    )
    rows = tuple(row[:width] for row in full.rows[first:last])
    order = Order(rows, tuple(ties[first:last]), start - first)
    split = ordering.distinct and len({repr(row[:width]) for row in full.rows}) < len(full.rows)
    whole = (ordering.limited and not split) or len(full.rows) == len(gold.rows)
    return order if whole and sql_exact(gold, gold, order).success else strict(gold)


def sql_exact(agent: Table | None, gold: Table | None, order: Order) -> Score:
    """Score an agent's rows against the gold's.

    Return 1 if solved, otherwise 0.99 times the share of common rows (intersection over union),
    halved if their order is wrong. A wrong answer with most of the gold's values is ambiguous.
    """
    places = None if agent is None or gold is None else alignment(agent.columns, gold.columns)
    if agent is None or gold is None or places is None:
        return Score(
            0.0,
            False,
            {"rows": 0.0, "order": 0.0, "columns": 0.0},
            mostly_in(_values(gold), _values(agent)),
            "no rows" if agent is None else "another number of columns",
        )
    window = range(order.start, order.start + len(gold.rows))
    agent_rows, gold_rows = comparable(
        [tuple(row[place] for place in places) for row in agent.rows],
        order.rows,
        window,
        shortened(agent, gold, places),
    )
    matched = _match(agent_rows, gold_rows, order.ties, window)
    common = sum(rows.total() for rows in matched.values())
    either = len(agent_rows) + len(gold.rows) - common
    rows = common / either if either else 1.0
    if rows == 1:  # each row is at a place of its tie group, and no group has a row too often
        groups, ties = _groups(gold_rows, order.ties), [order.ties[place] for place in window]
        in_order = all(group <= groups[tie] for tie, group in _groups(agent_rows, ties).items())
    else:
        in_order = _rises(agent_rows, gold_rows, order.ties)
    solved = rows == 1 and in_order and not (agent.cut or gold.cut)
    reward = 1.0 if solved else _BELOW_ONE * rows * (1.0 if in_order else _DISORDER)
    ambiguous = not solved and mostly_in(_values(gold), _values(agent))
    if solved:
        rule = (
            "same rows"
            if agent_rows == gold_rows[window.start : window.stop]
            else "same rows in another order"
        )
    elif len(agent.rows) != len(gold.rows) or agent.cut or gold.cut:
        rule = "another number of rows"
    else:
        rule = "other rows" if rows < 1 else "another order"
    return Score(
        reward, solved, {"rows": rows, "order": float(in_order), "columns": 1.0}, ambiguous, rule
    )


def sql_bird(agent: Table | None, gold: Table | None) -> Score:
    """Score as BIRD's evaluation does: 1 if the sets of rows are equal, whatever the order, repeats
    and names of columns; otherwise 0."""
    if agent is None or gold is None or agent.cut or gold.cut:
        return Score(0.0, False, {"rows": 0.0})
    same = set(agent.rows) == set(gold.rows)
    return Score(float(same), same, {"rows": float(same)})


def difference(agent: Table, gold: Table, order: Order) -> tuple[list[int], list[int]]:
    """Return the places of the gold's rows that the agent lacks, and of the agent's rows that the
    gold lacks; all places if the columns do not match."""
    places = alignment(agent.columns, gold.columns)
    if places is None:
        return [*range(len(gold.rows))], [*range(len(agent.rows))]
    aligned = [tuple(row[place] for place in places) for row in agent.rows]
    window = range(order.start, order.start + len(gold.rows))
    agent_rows, gold_rows = comparable(aligned, order.rows, window, shortened(agent, gold, places))
    matched = _match(agent_rows, gold_rows, order.ties, window)
    used = sum(matched.values(), Counter[Row]())
    ties = [order.ties[place] for place in window if place < len(order.ties)]
    # another member of a cut tie is not a missing row
    lacking = Counter(ties)
    lacking.subtract({tie: rows.total() for tie, rows in matched.items()})
    missing, extra = [], []
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


def _values(table: Table | None) -> list[str]:
    return [str(value) for row in table.rows for value in row] if table else []


def alignment(agent: Sequence[str], gold: Sequence[str]) -> list[int] | None:
    """Return for each of the gold's columns the index of the agent's column; None if the numbers of
    columns differ."""
    if len(agent) != len(gold):
        return None
    agent_names, gold_names = ([name.casefold() for name in names] for names in (agent, gold))
    shared = set(agent_names) & set(gold_names)
    once = all(agent_names.count(name) == gold_names.count(name) == 1 for name in shared)
    if not once or len(agent_names) - len(shared) > 1:
        return list(range(len(agent)))
    rest = [place for place, name in enumerate(agent_names) if name not in shared]
    return [agent_names.index(name) if name in shared else rest[0] for name in gold_names]


def shortened(agent: Table, gold: Table, places: Sequence[int]) -> tuple[Digits | None, ...]:
    """Return, by column, the digits to which the server rounded the gold's numbers; None for a
    column that is not rounded, or rounded in the same way on both sides."""
    nothing = (None,) * len(places)
    agent_digits, gold_digits = agent.digits or nothing, gold.digits or nothing
    return tuple(
        None if agent_digits[place] == digits else digits
        for place, digits in zip(places, gold_digits, strict=True)
    )


# -- rows and tie groups ---------------------------------------------------------------------------


def _groups(rows: Iterable[Row], ties: Iterable[int]) -> dict[int, Counter[Row]]:
    """Return the rows of each tie group, as a multiset."""
    groups: dict[int, Counter[Row]] = defaultdict(Counter)
    for row, tie in zip(rows, ties, strict=True):
        groups[tie][row] += 1
    return groups


def _match(
    agent: Sequence[Row], gold: Sequence[Row], ties: Sequence[int], window: range
) -> dict[int, Counter[Row]]:
    """Return, by tie group, the agent's rows that match rows of the gold, in any order.

    Groups that lie entirely inside the window are matched first. A group that the window cuts may
    match any of its rows, up to its number of places in the window.
    """
    unmatched, groups, matched = Counter(agent), _groups(gold, ties), dict[int, Counter[Row]]()
    places = Counter(ties[place] for place in window if place < len(ties))
    for tie in sorted(places, key=lambda tie: places[tie] < groups[tie].total()):
        matched[tie] = Counter(islice((unmatched & groups[tie]).elements(), places[tie]))
        unmatched -= matched[tie]
    return matched


def _rises(agent: Sequence[Row], gold: Sequence[Row], ties: Sequence[int]) -> bool:
    """Return whether the agent's rows that are also in the gold can be read in the gold's order."""
    gold_ties: dict[Row, list[int]] = defaultdict(list)
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


def comparable(
    agent: Sequence[Row], gold: Sequence[Row], window: range, digits: Sequence[Digits | None]
) -> tuple[list[Row], list[Row]]:
    """Return both sides' rows in a form that `==` compares: an agent's row that equals one of the
    gold's within the tolerances becomes that row.

    Each gold row replaces at most one of the agent's. `window`: the places of the gold's returned
    rows in `gold`; `digits`: those of the gold's columns (see `shortened`).
    """
    agent_rows, gold_rows = [*map(_plain_row, agent)], [*map(_plain_row, gold)]
    floats = {place for place, column in enumerate(digits) if column and column.significant}
    places = _inexact(gold) & (_inexact(agent) | floats)
    if not places or Counter(agent_rows) <= Counter(gold_rows):
        return agent_rows, gold_rows
    agents = [*map(partial(_numbered, places, (None,) * len(digits)), agent, agent_rows)]
    golds = [*map(partial(_numbered, places, digits), gold, gold_rows)]
    in_window = golds[window.start : window.stop]
    if len(agents) == len(in_window) and all(map(_equal, agents, in_window)):
        return gold_rows[window.start : window.stop], gold_rows
    partners = enumerate(_partners(agents, golds, gold_rows))
    return [row or agent_rows[place] for place, row in partners], gold_rows


def _inexact(rows: Sequence[Row]) -> set[int]:
    """Return the indexes of the columns that contain a number with a tolerance."""
    columns = enumerate(zip(*rows, strict=True))
    return {
        place for place, column in columns if any(_scale(value) is not None for value in column)
    }


def _plain_row(row: Row) -> Row:
    return tuple(map(_plain, row))


def _plain(value: object) -> Hashable:
    kind = type(value)
    if isinstance(value, str):
        return _without_zeros(value) if ":" in value and "." in value else value
    if kind is int or value is None:
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


def _without_zeros(text: object) -> str:
    """Return a time without the last zeros of its fraction: a driver prints six digits, a server as
    many as the column declares."""
    time = _FRACTION.fullmatch(str(text))
    return f"{time[1]}{time[2].rstrip('0')}".rstrip(".") if time else str(text)


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
        number = isinstance(self.value, int) or (
            isinstance(self.value, Decimal) and self.value.is_finite()
        )
        return Decimal(self.value) if number else Decimal(0)


_Numbered = tuple[_Number, ...]


def _numbered(places: set[int], digits: Sequence[Digits | None], row: Row, plain: Row) -> _Numbered:
    return tuple(
        _number(row[place], value, digits[place]) if place in places else _Number(value)
        for place, value in enumerate(plain)
    )


def _number(value: object, plain: Any, digits: Digits | None) -> _Number:
    scale, slack = _scale(value), Decimal(0)
    if scale != _DOUBLE or digits is None:
        return _Number(plain, scale, scale == _DOUBLE)
    significant, decimals = digits
    if significant is None:
        scale = decimals if decimals is not None and decimals >= _FINE else _DOUBLE
    elif plain:
        last = Decimal(plain).adjusted() - significant + 1
        slack = Decimal(5).scaleb(min(last, last if decimals is None else -decimals) - 1)
    return _Number(plain, scale, True, slack)


def _scale(value: object) -> float | None:
    if isinstance(value, float):
        return _DOUBLE if math.isfinite(value) else None
    if isinstance(value, Decimal) and value.is_finite():
        scale = -int(value.as_tuple().exponent)
        return scale if scale >= _FINE else None
    return None


def _equal(one: _Numbered, other: _Numbered) -> bool:
    return all(map(_equal_values, one, other))


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
    larger, scale = max(abs(agent.value), abs(gold.value)), min(agent.scale, gold.scale)
    tolerance = larger * (Decimal(0), _DIGITS, _RELATIVE)[doubles]
    if gold.is_double:
        tolerance = max(tolerance, _ZERO)
    if scale != _DOUBLE:
        unit = Decimal(1).scaleb(-int(scale))
        if abs(gold.value) < _SURE * unit:
            unit = unit / 2 if gold.scale == scale else Decimal(0)
        tolerance = max(tolerance, unit)
    return bool(abs(agent.value - gold.value) <= tolerance)


def _partners(
    agents: Sequence[_Numbered], golds: Sequence[_Numbered], rows: Sequence[Row]
) -> list[Row | None]:
    """Return for each of the agent's rows an equal row of the gold; None if none is left.

    Only rows in the same cell are compared: in each column they have the same value, or numbers
    without a gap wider than a tolerance between them. The agent's rows are taken in descending
    order, and each takes the greatest equal row that is left.
    """
    columns = [*zip(*agents, *golds, strict=True)]
    reaches = [*map(_reach, columns)]
    tolerant = {place: reach for place, reach in enumerate(reaches) if reach is not None}
    cells = [*zip(*map(_cells, columns, reaches), strict=True)]
    agent_cells, gold_cells = _by_cell(cells[: len(agents)]), _by_cell(cells[len(agents) :])
    partners: list[Row | None] = [None] * len(agents)
    for cell in agent_cells.keys() & gold_cells.keys():
        if len(agent_cells[cell]) == len(gold_cells[cell]) == 1:
            (place,), (near,) = agent_cells[cell], gold_cells[cell]
            partners[place] = rows[near] if _equal(agents[place], golds[near]) else None
            continue
        key = max(
            tolerant, key=lambda place: len({golds[row][place].value for row in gold_cells[cell]})
        )
        left = sorted(gold_cells[cell], key=lambda row: _rank(golds[row], key))
        line = [golds[row][key].position for row in left]
        falling = sorted(agent_cells[cell], key=lambda row: _rank(agents[row], key), reverse=True)
        for place in falling:
            position = agents[place][key].position
            room = tolerant[key].of(position)
            first, last = bisect_left(line, position - room), bisect_right(line, position + room)
            for near in range(last - 1, max(first, last - _LOOKS) - 1, -1):
                if _equal(agents[place], golds[left[near]]):
                    partners[place] = rows[left.pop(near)]
                    del line[near]
                    break
    return partners


class _Reach(NamedTuple):
    """A bound on the distance between equal numbers in a column, absolute and relative."""

    unit: Decimal
    share: Decimal

    def of(self, position: Decimal) -> Decimal:
        return max(self.unit, self.share * abs(position))


def _reach(column: Sequence[_Number]) -> _Reach | None:
    """Return the reach for the numbers in a column; None for a column without a tolerance."""
    least = min((number.scale for number in column if number.scale is not None), default=None)
    if least is None:
        return None
    unit = _ZERO if least == _DOUBLE else max(Decimal(1).scaleb(-int(least)), _ZERO)
    shares = [number.slack / abs(number.position) for number in column if number.slack]
    return _Reach(unit, 2 * max([_RELATIVE, *shares]))


def _cells(column: Sequence[_Number], reach: _Reach | None) -> list[Hashable]:
    """Return for each number the least number in its chain, in which neighbours are at most a
    tolerance apart; other values are returned unchanged."""
    if reach is None:
        return [number.value for number in column]
    line = sorted({number.position for number in column})
    least = dict.fromkeys(line[:1], line[0])
    for one, other in pairwise(line):
        least[other] = least[one] if other - one <= reach.of(other) else other
    return [least.get(number.value, number.value) for number in column]


def _by_cell(cells: Sequence[tuple[Hashable, ...]]) -> dict[tuple[Hashable, ...], list[int]]:
    places: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for place, cell in enumerate(cells):
        places[cell].append(place)
    return places


def _rank(row: _Numbered, key: int) -> list[tuple[Decimal, bool]]:
    """Return the sort key for rows in a cell: their numbers, column `key` first; of equal numbers,
    those without a tolerance come last."""
    return [(number.position, number.scale is None) for number in (row[key], *row)]
