"""The paper's SQL reward, reproduced exactly so that results can be compared with published ones
(InterCode, appendix).

    reward = iou                     if the rows in common have no order (tau is undefined)
             round(iou · tau, 2)     otherwise; negative if the order is reversed

    "iou"    rows in common / rows on either side, as multisets of printed rows; 1 if both are empty
    "order"  Kendall's tau-b of the rows in common, in the agent's order and in the gold's, ranked
             as strings, from 1 (the same order) through 0 to −1 (reversed)

    tau_b = (C − D) / √((N − X)(N − Y))      N pairs of places; C agree, D disagree, X tie in the
                                             first, Y in the second

Rows are compared as Python prints the driver's tuples. If one side contains a row more often than
the other, only its first places are used, as many as the other side has. Of the interpretations of
"the rows of the intersection in their order", this one agrees with most recorded rewards. Recorded
rewards also show that the product is rounded, not tau.

Source of tau: Kendall, "The treatment of ties in ranking problems", 1945; of the algorithm: Knight,
1966: sort by the first list; D is then the number of exchanges in a merge sort of the second, which
takes O(n log n) steps. Left out: rows beyond the size limit (`Table.cut`); both sides are compared
by the rows that were kept.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import partial

from intercode.types import Score, Table


def sql_paper(agent: Table | None, gold: Table | None, *, ordered: bool = True) -> Score:
    """Score an agent's rows against the gold's; 0 unless both sides returned a table, which may be
    empty."""
    if agent is None or gold is None:
        return Score(0.0, False, {"iou": 0.0})
    agent_rows = list(map(str, agent.rows))
    gold_rows = list(map(str, gold.rows))
    common = Counter(agent_rows) & Counter(gold_rows)
    either = len(agent_rows) + len(gold_rows) - common.total()
    iou = 1.0
    if either:
        iou = common.total() / either
    tau = None
    if ordered:
        tau = kendall_tau(_common_rows(agent_rows, common), _common_rows(gold_rows, common))
    if tau is None:
        return Score(iou, iou == 1, {"iou": iou})
    reward = round(iou * tau, 2)
    return Score(reward, reward == 1, {"iou": iou, "order": tau})


sql_overlap = partial(sql_paper, ordered=False)
"""The reward in some recordings (all of ReAct), made before InterCode v1 scored the order of
rows."""


def _common_rows(rows: Sequence[str], common: Counter[str]) -> list[str]:
    """Return the rows of the intersection in this side's order; of repeated rows, the first
    ones."""
    left = common.copy()
    taken = []
    for row in rows:
        if left[row] > 0:
            left[row] -= 1
            taken.append(row)
    return taken


def kendall_tau(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return tau-b of two lists of equal length, ranked as strings; None if either has fewer than
    two different values."""
    paired = sorted(zip(first, second, strict=True))
    x_ties, y_ties, both = _ties(first), _ties(second), _ties(paired)
    pairs = math.comb(len(paired), 2)
    if pairs in (x_ties, y_ties):
        return None
    exchanges = 0
    seen = list[str]()
    for _, y in paired:
        exchanges += len(seen) - bisect_right(seen, y)
        insort(seen, y)
    surplus = pairs - x_ties - y_ties + both - 2 * exchanges
    return max(-1.0, min(1.0, surplus / math.sqrt(pairs - x_ties) / math.sqrt(pairs - y_ties)))


def _ties(values: Iterable[Hashable]) -> int:
    return sum(math.comb(count, 2) for count in Counter(values).values())
