"""The paper's SQL reward, number for number, so that published results can be compared (InterCode, appendix).

    reward = iou                                    if the rows in common have no order (tau is undefined)
             round(iou · tau, 2)                    else; below 0 where the order is reversed

    "iou"    rows in common / rows on either side, as multisets of printed rows; 1 if both are empty
    "order"  Kendall's tau-b of the rows in common, in the agent's order and in the gold's, ranked as strings

Rows are compared as Python prints the driver's tuples. A row that one side has more often than the other is taken as
often as both have it, and at its first places: of the readings of "the rows of the intersection in their order", the
one that agrees with most recorded rewards. Recorded rewards also show that the product is rounded, not tau.
Some recordings (all of ReAct) were made before the first system knew order: `ordered=False` scores as they do.

Left out: rows beyond the limit of what is kept (`Table.cut`); both sides are compared by what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from intercode.paper.kendall import kendall_tau
from intercode.types import Score, Table


def sql_paper(agent: Table | None, gold: Table | None, *, ordered: bool = True) -> Score:
    """Score an agent's rows against the gold's; 0 unless both sides returned rows (an empty result is one)."""
    if agent is None or gold is None:
        return Score(0.0, False, {"iou": 0.0})
    ours, theirs = ([str(row) for row in side.rows] for side in (agent, gold))
    common = Counter(ours) & Counter(theirs)
    either = len(ours) + len(theirs) - common.total()
    iou = common.total() / either if either else 1.0
    tau = kendall_tau(_taken(ours, common), _taken(theirs, common)) if ordered else None
    if tau is None:
        return Score(iou, iou == 1, {"iou": iou})
    reward = round(iou * tau, 2)
    return Score(reward, reward == 1, {"iou": iou, "order": tau})


def _taken(rows: Sequence[str], common: Counter[str]) -> list[str]:
    """The rows of the intersection in this side's order, the first ones where there are more."""
    left, taken = common.copy(), []
    for row in rows:
        if left[row] > 0:
            left[row] -= 1
            taken.append(row)
    return taken
