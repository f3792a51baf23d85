"""Can the rules say no? Turns that agree are given a wrong reward, and every rule is tried on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import islice

from fidelity.proof import UNEXPLAINED, Proof, T

_APART = 0.02


def wrongly_explained(
    turns: Sequence[T],
    agrees: Callable[[T], bool],
    explain: Callable[[T], Proof],
    earned: Sequence[float],
    count: int,
    seed: int = 1,
) -> tuple[int, int]:
    """How many of `count` agreeing turns, drawn at random, a rule explains with a reward that another turn `earned`.

    The second number is `count`, unless fewer agree.
    """
    chance = random.Random(seed)
    agreeing = islice(filter(agrees, chance.sample(turns, len(turns))), count)
    wrong = [
        turn.with_reward(chance.choice([each for each in earned if abs(each - turn.recorded) > _APART])) for turn in agreeing
    ]
    return sum(explain(turn).cause != UNEXPLAINED for turn in wrong), len(wrong)
