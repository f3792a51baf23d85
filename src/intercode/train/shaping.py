"""What a trainer gets for an episode: success, or the shaped reward.

    Score, Episode ──► training_reward ──► 1.0 solved, 0.0 not solved, None after a fault
                                  shaped ► the reward of the score, which may be a fraction

Fractions come from SQL, from `paper`, from the verdicts of tests and from rewards of your own. With
them, the least wrong answer of a group in which all failed has a positive advantage, so a policy
learns partial answers.
"""

from __future__ import annotations

import warnings
from functools import cache

from intercode.types import Episode, Score


def training_reward(scored: Episode | Score, *, shaped: bool = False) -> float | None:
    """Return 1.0 for success and 0.0 without; with `shaped`, the reward of the score. After a fault
    it is None either way."""
    if shaped or scored.reward is None:
        return scored.reward
    return float(scored.success)


@cache
def warn_of_shaped() -> None:
    """Warn once per process, where the shaped reward is asked for."""
    warnings.warn(
        "shaped=True hands over the shaped reward, which pays a fraction for a wrong answer: "
        "a policy that is trained on it learns partial answers; "
        "without shaped, the reward is 1.0 for success, otherwise 0.0",
        RuntimeWarning,
        stacklevel=3,
    )
