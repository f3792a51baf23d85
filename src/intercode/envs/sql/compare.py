"""What a careful person would call solved in SQL: the gold's rows, in the gold's order where it has one.

    columns   as many as the gold's; in any order where their names decide it, else by position
    rows      the same multiset
    order     rows may change places with those that tie with them; a LIMIT that cuts a tie may take any of the tie

    place     1   2   3 │ 4            gold: … ORDER BY age LIMIT 3
    tie       1   2   2 │ 2            place 1 must be the row of tie 1; places 2 and 3 any two of the three of tie 2

Values: NULL equals only NULL; 1 = 1.0 = Decimal("1.00") = true; two numbers of which a column has a float are equal within
1e-6 of the larger; a number is never a text, bytes are never a text. Text counts letter by letter, case and blanks
included. Dates, times and moments are the text that the database prints for them (a date is not midnight).

Names decide the order of columns where all that both sides share occur once and at most one column is left over on each.
If an answer is cut (`Table.cut`), it is never solved. Left out: values between which floats lie more densely than 1e-6
(such a column is compared in steps of that width), and answers with every member of a tie where the gold's LIMIT takes one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from intercode.envs.overlap import mostly_in
from intercode.envs.sql.cells import Row, comparable
from intercode.envs.sql.text import Ordering
from intercode.types import Score, Table

_BELOW_ONE, _DISORDER = 0.99, 0.5


@dataclass(frozen=True, slots=True)
class Order:
    """What the order of the gold's rows means.

    `rows`: all that it would return without its LIMIT, in order; `ties`: the number of each one's tie group, rising;
    `start`: how many rows its OFFSET skips.
    """

    rows: tuple[Row, ...]
    ties: tuple[int, ...]
    start: int = 0


def free(gold: Table) -> Order:
    """Any order will do."""
    return Order(gold.rows, (0,) * len(gold.rows))


def strict(gold: Table) -> Order:
    """Only the gold's own order will do."""
    return Order(gold.rows, tuple(range(len(gold.rows))))


def order_of(gold: Table, ordering: Ordering, full: Table | None) -> Order:
    """The order of a gold's rows; `full` is what its `ordering.derived` returned, None if there is none or it failed.

    Strict where `full` does not help: it is cut, or the gold's own rows do not fit it. Ties that no row of the gold
    belongs to are left away.
    """
    if ordering.free:
        return free(gold)
    if full is None or full.cut or len(full.columns) != len(gold.columns) + 1:
        return strict(gold)
    order = _shown(full, ordering.offset, len(gold.rows))
    whole = ordering.limited or len(full.rows) == len(gold.rows)
    return order if whole and sql_exact(gold, gold, order).success else strict(gold)


def _shown(full: Table, start: int, length: int) -> Order:
    """The tie groups of which the places from `start` on show a row."""
    ranked = sorted((int(str(row[-1])), place) for place, row in enumerate(full.rows))
    ties = [tie for tie, _ in ranked]
    window = ties[start : start + length]
    first, last = (bisect_left(ties, window[0]), bisect_right(ties, window[-1])) if window else (start, start)
    rows = tuple(full.rows[place][:-1] for _, place in ranked[first:last])
    return Order(rows, tuple(ties[first:last]), start - first)


def sql_exact(agent: Table | None, gold: Table | None, order: Order) -> Score:
    """Score an agent's rows against the gold's.

    1 if solved; else 0.99 times the share of common rows (intersection over union), half of that if their order is wrong.
    Unsure if not solved, but most of the gold's values are among the agent's.
    """
    places = None if agent is None or gold is None else alignment(agent.columns, gold.columns)
    if agent is None or gold is None or places is None:
        return Score(0.0, False, {"rows": 0.0, "order": 0.0, "columns": 0.0}, mostly_in(_values(gold), _values(agent)))
    aligned = [tuple(row[place] for place in places) for row in agent.rows]
    rows, in_order = _compared(aligned, len(gold.rows), order)
    solved = rows == 1 and in_order and not (agent.cut or gold.cut)
    reward = 1.0 if solved else _BELOW_ONE * rows * (1.0 if in_order else _DISORDER)
    unsure = not solved and mostly_in(_values(gold), _values(agent))
    return Score(reward, solved, {"rows": rows, "order": float(in_order), "columns": 1.0}, unsure)


def _values(table: Table | None) -> list[str]:
    return [str(value) for row in table.rows for value in row] if table else []


def alignment(ours: Sequence[str], theirs: Sequence[str]) -> list[int] | None:
    """For each of the gold's columns the place of the agent's; None if they are not as many."""
    if len(ours) != len(theirs):
        return None
    mine, wanted = ([name.casefold() for name in names] for names in (ours, theirs))
    shared = set(mine) & set(wanted)
    once = all(mine.count(name) == wanted.count(name) == 1 for name in shared)
    if not once or len(mine) - len(shared) > 1:
        return list(range(len(ours)))
    rest = [place for place, name in enumerate(mine) if name not in shared]
    return [mine.index(name) if name in shared else rest[0] for name in wanted]


def _compared(agent: Sequence[Row], length: int, order: Order) -> tuple[float, bool]:
    """The share of common rows, and whether they are in order; the gold shows `length` rows."""
    ours, theirs = comparable(agent, order.rows)
    window = range(order.start, order.start + length)
    common = _common(ours, theirs, order.ties, window)
    either = len(ours) + length - common
    rows = common / either if either else 1.0
    return rows, _fits(ours, theirs, order.ties, window) if rows == 1 else _rising(ours, theirs, order.ties)


def _groups(rows: Iterable[Row], ties: Iterable[int]) -> dict[int, Counter[Row]]:
    """The rows of each tie group, as a multiset."""
    found: dict[int, Counter[Row]] = defaultdict(Counter)
    for row, tie in zip(rows, ties, strict=True):
        found[tie][row] += 1
    return found


def _common(ours: Sequence[Row], theirs: Sequence[Row], ties: Sequence[int], window: range) -> int:
    """How many of the agent's rows an answer can have in common with them, in any order.

    Groups that the window shows whole come first; of one that it cuts, any members up to the places that it has.
    """
    left, groups = Counter(ours), _groups(theirs, ties)
    places = Counter(ties[place] for place in window if place < len(ties))
    found = 0
    for tie in sorted(places, key=lambda tie: places[tie] < groups[tie].total()):
        taken = Counter(islice((left & groups[tie]).elements(), places[tie]))
        left -= taken
        found += taken.total()
    return found


def _fits(ours: Sequence[Row], theirs: Sequence[Row], ties: Sequence[int], window: range) -> bool:
    """Whether every row stands at a place of a group that it belongs to, and no group gives a row too often."""
    groups = _groups(theirs, ties)
    if len(ours) != len(window) or window.stop > len(ties):
        return False
    return all(shown <= groups[tie] for tie, shown in _groups(ours, (ties[place] for place in window)).items())


def _rising(ours: Sequence[Row], theirs: Sequence[Row], ties: Sequence[int]) -> bool:
    """Whether those of the agent's rows that the gold knows can be read as standing in order."""
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
