"""Kendall's tau-b: how far two lists agree in order, from 1 (the same) through 0 to −1 (reversed).

    tau_b = (C − D) / √((N − X)(N − Y))      N pairs of places; C agree, D disagree, X tie in the first, Y in the second

Source: Kendall, "The treatment of ties in ranking problems", 1945; the counting is Knight's, 1966: sort by the first
list, then D is the number of exchanges that a merge sort of the second needs, so n·log n steps in all.
Left out: significance, and lists with values that cannot be ordered.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence


def kendall_tau(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Tau-b of two lists of one length, ranked as strings; None if either has fewer than two different values."""
    paired = sorted(zip(first, second, strict=True))
    x_ties, y_ties, both = _ties(first), _ties(second), _ties(paired)
    pairs = _pairs(len(paired))
    if pairs in (x_ties, y_ties):
        return None
    exchanges, seen = 0, list[str]()
    for _, y in paired:
        exchanges += len(seen) - bisect_right(seen, y)
        insort(seen, y)
    surplus = pairs - x_ties - y_ties + both - 2 * exchanges
    return max(-1.0, min(1.0, surplus / math.sqrt(pairs - x_ties) / math.sqrt(pairs - y_ties)))


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _ties(values: Iterable[Hashable]) -> int:
    return sum(map(_pairs, Counter(values).values()))
