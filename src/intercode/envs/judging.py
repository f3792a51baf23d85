"""A reward that the caller names or brings: checked when the environment is made, named in the run, held to its contract."""

from __future__ import annotations

from collections.abc import Sequence

from intercode.errors import UsageError
from intercode.types import Score


def require_reward(reward: object, known: Sequence[str], arguments: str) -> None:
    """Raises `UsageError` unless it is one of the `known` names, or something to be called with `arguments`."""
    if not callable(reward) and reward not in known:
        raise UsageError(f"reward {reward!r}: it is {', '.join(map(repr, known))}, or a function of ({arguments})")


def reward_name(reward: object) -> str:
    """What stands in the run for it."""
    return reward if isinstance(reward, str) else getattr(reward, "__qualname__", repr(reward))


def judged(given: object) -> Score:
    """What a function of the caller's returned; of a number, 1 alone is success. Raises `UsageError` if it is no score."""
    score = Score(float(given), given == 1) if isinstance(given, int | float) else given
    if not isinstance(score, Score) or not 0 <= score.reward <= 1 or not _is_plain(score):
        raise UsageError(f"a reward function returns a Score with a reward from 0 to 1, or such a number, not {given!r}")
    return score


def _is_plain(score: Score) -> bool:
    """As a run's record has it."""
    return isinstance(score.success, bool) and all(isinstance(part, int | float) for part in score.parts.values())
