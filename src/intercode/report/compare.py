"""Two runs on the same tasks: by how much the second is better, how sure that is, and which tasks changed sides.

    task   A        B        difference d
    t1     1 0 1    1 1 1    +1/3            mean share of successes over epochs, B less A
    t2     1        0        −1
    …
    difference = mean d       interval: d with two tasks of +½ … −½ added       p: signs of d flipped in all ways

Tasks are what is independent, so epochs of a task are averaged first. With one epoch p is McNemar's exact test, and the
interval Agresti's and Min's. A task counts as the same if its id is, and one query contains the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, sqrt
from typing import Any

import numpy as np

from intercode.report.analysis import analysis
from intercode.report.summary import Z95, hardness, summary
from intercode.report.turns import in_order
from intercode.types import Episode

FINEST = 420
"""Differences are counted in shares of a task no smaller than 1/FINEST: only with uneven epochs is it reached."""

Run = tuple[Mapping[str, Any], Sequence[Episode]]


@dataclass(frozen=True)
class Pair:
    """One task in both runs: its share of successes in each."""

    task: str
    query: str
    a: Fraction
    b: Fraction

    @property
    def difference(self) -> Fraction:
        return self.b - self.a


def side_by_side(runs: Sequence[Run]) -> dict[str, Any]:
    """The whole report of some runs: `runs`, each a summary with its `analysis`, and of two also their `comparison`."""
    found = [{**summary(*run), "analysis": analysis(*run)} for run in runs]
    return {"runs": found, **({"comparison": compare(*runs)} if len(runs) == 2 else {})}


def compare(a: Run, b: Run) -> dict[str, Any] | None:
    """What `report A B --json` adds, under `comparison`; None if the runs have no task in common."""
    first, second = _shares(a[1]), _shares(b[1])
    pairs = [
        Pair(task, query, first[task][1], share)
        for task, (query, share) in second.items()
        if task in first and (query in first[task][0] or first[task][0] in query)
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda pair: (-abs(pair.difference), in_order(pair.task)))
    levels = {**(a[0].get("hardness") or {}), **(b[0].get("hardness") or {})}
    found = sorted({levels[pair.task] for pair in pairs if pair.task in levels}, key=hardness)
    return {
        "a": a[0].get("run"),
        "b": b[0].get("run"),
        "unpaired": len(first) + len(second) - 2 * len(pairs),  # tasks without a scored episode in the other
        **paired(pairs),
        "by_hardness": {level: paired([p for p in pairs if levels.get(p.task) == level]) for level in found},
        "gained": [_flip(pair) for pair in pairs if pair.difference > 0],
        "lost": [_flip(pair) for pair in pairs if pair.difference < 0],
    }


def paired(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Both rates, the difference (second less first) with its 95 % interval, and the p-value of no difference."""
    count, differences = len(pairs), [pair.difference for pair in pairs]
    return {
        "tasks": count,
        "rate_a": float(sum(pair.a for pair in pairs) / count),
        "rate_b": float(sum(pair.b for pair in pairs) / count),
        "difference": float(sum(differences) / count),
        "ci95": interval_of_difference(differences),
        "p_value": sign_flip_test(differences),
    }


def interval_of_difference(differences: Sequence[Fraction]) -> tuple[float, float]:
    """Wald's interval of the mean with half a task added to each cell of the table: +1, −1, and two zeros.

    Agresti and Min 2005, "Simple improved confidence intervals for comparing matched proportions". With
    epochs the same additions are made to shares.
    """
    count = len(differences) + 2
    middle = float(sum(differences)) / count
    variance = (float(sum(d * d for d in differences)) + 1) / count - middle * middle
    half = Z95 * sqrt(variance / count)
    return max(-1.0, middle - half), min(1.0, middle + half)


def sign_flip_test(differences: Sequence[Fraction]) -> float:
    """Two-sided p: the chance of a sum at least as far from 0, were the sign of each difference a coin's (Fisher 1935, §21).

    Exact, but that shares finer than 1/FINEST are rounded; where all are −1, 0 or 1 it is McNemar's exact test.
    """
    grain = min(FINEST, lcm(*(d.denominator for d in differences)))
    steps = [round(d * grain) for d in differences if d]
    chance = np.ones(1)  # of each sum, from −Σ|steps| to Σ|steps|
    for step in map(abs, steps):
        shifted = np.zeros(len(chance) + 2 * step)
        shifted[: len(chance)] += chance / 2
        shifted[2 * step :] += chance / 2
        chance = shifted
    distance = np.abs(np.arange(len(chance)) - len(chance) // 2)
    return min(1.0, float(chance[distance >= abs(sum(steps))].sum()))


def _shares(episodes: Sequence[Episode]) -> dict[str, tuple[str, Fraction]]:
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.reward is not None:
            by_task.setdefault(episode.task, []).append(episode)
    return {task: (own[0].query, Fraction(sum(e.success for e in own), len(own))) for task, own in by_task.items()}


def _flip(pair: Pair) -> dict[str, Any]:
    return {"task": pair.task, "query": pair.query, "a": float(pair.a), "b": float(pair.b)}
