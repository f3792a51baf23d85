"""Rewards, by name or as functions that the caller passes: checked when the environment is made,
named in the run's record, and guarded when called.

Each environment class has a registry `rewards`; `--reward` accepts one of its names or
`module:function`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from intercode.errors import IntercodeError, UsageError
from intercode.plugins import describe_error, load_plugin
from intercode.types import Score, Task, is_number


@dataclass(frozen=True, slots=True)
class NamedReward:
    """A reward function and its name, `module:function` or `path.py:function`, under which a
    resumed run loads it again."""

    name: str
    function: Callable[..., object]

    def __call__(self, *arguments: Any) -> object:
        return self.function(*arguments)

    def __reduce__(self) -> Any:
        return load_reward, (self.name,)


def load_reward(name: str) -> NamedReward:
    """Return the function that `module:function` or `path.py:function` names."""
    return NamedReward(name, load_plugin(name, "reward"))


def require_reward(reward: object, names: Collection[str], arguments: str) -> None:
    """Raise `UsageError` unless `reward` is one of the names or a function; the message lists the
    function's `arguments`."""
    if not callable(reward) and reward not in names:
        raise UsageError(
            f"reward {reward!r}: use {', '.join(map(repr, names))}, or a function of ({arguments})"
        )


def reward_name(reward: object) -> str:
    """Return the reward's name in a run's record."""
    if isinstance(reward, str):
        return reward
    if isinstance(reward, NamedReward):
        return reward.name
    return str(getattr(reward, "__qualname__", type(reward).__qualname__))


def is_papers(reward: object, rewards: Mapping[str, str]) -> bool:
    """Return whether the environment's registry maps this reward name to one of InterCode v1's
    rewards."""
    return isinstance(reward, str) and rewards.get(reward, "").startswith("intercode.interop.v1.")


def call_reward(reward: Callable[..., object], *arguments: Any) -> Score:
    """Call a user's reward function and return its score. The task is the last of the `arguments`.

    Raises `UsageError` if the function does not return a score, or raises an exception that is not
    an `IntercodeError`.
    """
    with guarded_reward(reward, arguments[-1]) as who:
        return checked_score(reward(*arguments), who)


@contextmanager
def guarded_reward(reward: object, task: Task) -> Iterator[str]:
    """Raise exceptions of a user's reward as `UsageError`; give the words that name the reward in
    errors."""
    who = f"the reward {reward_name(reward)}, called for task {task.id},"
    try:
        yield who
    except IntercodeError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{who} raised {describe_error(error)}") from error


def checked_score(value: object, who: str) -> Score:
    """Return the score that a user's reward returned: a `Score`, or a number, which counts as
    success only if it is 1. Raises `UsageError` for anything else."""
    score = _plain(value)
    if _is_reward(score):
        return Score(float(score), bool(score == 1))
    if isinstance(score, Score) and isinstance(score.parts, Mapping):
        parts = {name: _plain(part) for name, part in score.parts.items()}
        success = _plain(score.success)
        score = replace(score, reward=_plain(score.reward), success=success, parts=parts)
        if (
            _is_reward(score.reward)
            and isinstance(success, bool)
            and isinstance(score.rule, str)
            and all(isinstance(name, str) and is_number(parts[name]) for name in parts)
        ):
            return score
    raise UsageError(
        f"{who} returned {score!r:.200}; "
        "it must return a Score with a reward from 0 to 1, or a number from 0 to 1"
    )


def _plain(value: Any) -> Any:
    """Return Python's number for one of NumPy or of a tensor library."""
    return value.item() if hasattr(value, "item") else value


def _is_reward(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def rank(score: Score) -> tuple[bool, float, bool]:
    """Return the sort key for scores against several golds."""
    return score.success, score.reward, score.ambiguous


def mostly_in(gold: Iterable[Hashable], agent: Iterable[Hashable]) -> bool:
    """Return whether more than half of the gold's values, repeats included, are among the agent's.

    A wrong answer that contains most of the gold's values is ambiguous, so a judge may review it.
    """
    gold_counts = Counter(gold)
    return 2 * (gold_counts & Counter(agent)).total() > gold_counts.total()
