"""Times that a busy machine disturbs little: many short samples of all operations in turns, and of
them the quietest block."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

ROUNDS, IN_A_ROW = 5, 9

Measure = Callable[[], float]
"""Does something, and says how many seconds of it count."""


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def lower_quartiles(table: Mapping[str, Measure], runs: int) -> dict[str, float]:
    """All operations in turns, so that they meet the same noise. What others do only adds, so the
    lower times are truer."""
    rounds = [{name: measure() for name, measure in table.items()} for _ in range(runs)]
    return {name: sorted(times[name] for times in rounds)[runs // 4] for name in table}


def in_turns(
    table: Mapping[str, Measure], restart: Callable[[], object], blocks: int
) -> dict[str, float]:
    """The median of each operation in the quietest of so many blocks of five rounds.

    A round takes each operation nine times in a row, after an untimed `restart`, in an order that
    is shuffled anew.
    """
    chance = random.Random(0)
    return quietest(_block(table, restart, chance) for _ in range(blocks))


def quietest(blocks: Iterable[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """The medians of the block that took least time in all: the quietest moment, judged by all
    sides together."""
    samples = min(blocks, key=lambda samples: sum(map(sum, samples.values())))
    return {name: statistics.median(times) for name, times in samples.items()}


def _block(
    table: Mapping[str, Measure], restart: Callable[[], object], chance: random.Random
) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(ROUNDS):
        for name in chance.sample(sorted(table), len(table)):
            restart()
            samples[name] += [table[name]() for _ in range(IN_A_ROW)]
    return samples
