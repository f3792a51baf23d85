"""A reward that the caller names or brings: checked when the environment is made, named in the run, held to its contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intercode.errors import IntercodeError, UsageError
from intercode.plugins import describe_error
from intercode.types import Score, is_number


@dataclass(frozen=True, slots=True)
class NamedReward:
    """What `name`, module:function, gave: whatever that calls itself, under this name a run is resumed."""

    name: str
    function: Callable[..., object]

    def __call__(self, *asked: Any) -> object:
        return self.function(*asked)


def require_reward(reward: object, known: Sequence[str], arguments: str) -> None:
    """Raises `UsageError` unless it is one of the `known` names, or something to be called with `arguments`."""
    if not callable(reward) and reward not in known:
        raise UsageError(f"reward {reward!r}: it is {', '.join(map(repr, known))}, or a function of ({arguments})")


def reward_name(reward: object) -> str:
    """What stands in the run for it."""
    if isinstance(reward, str):
        return reward
    return reward.name if isinstance(reward, NamedReward) else getattr(reward, "__qualname__", type(reward).__qualname__)


def judged(reward: Callable[..., object], *asked: Any) -> Score:
    """What a function of the caller's says of `asked`, the task last; of a number, 1 alone is success.

    Raises `UsageError` if it returns no score, or raises anything but an error of ours.
    """
    who = f"the reward {reward_name(reward)}, asked about task {asked[-1].id},"
    try:
        given = reward(*asked)
        if is_number(given) and 0 <= given <= 1:
            return Score(float(given), given == 1)
        sound = (
            isinstance(given, Score)
            and (is_number(given.reward) and 0 <= given.reward <= 1 and isinstance(given.success, bool))
            and isinstance(given.parts, Mapping)
            and all(isinstance(name, str) and is_number(part) for name, part in given.parts.items())
        )
        if not isinstance(given, Score) or not sound:
            raise UsageError(f"{who} returned {given!r:.200}; it returns a Score with a reward from 0 to 1, or such a number")
        return given
    except IntercodeError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{who} raised {describe_error(error)}") from error


def best(scores: Iterable[Score]) -> Score:
    """The first success, beyond which no score is asked for, or else the highest score."""
    found: list[Score] = []
    for score in scores:
        found.append(score)
        if score.success:
            break
    return max(found, key=lambda each: (each.success, each.reward, each.ambiguous))
