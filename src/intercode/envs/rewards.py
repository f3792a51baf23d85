"""Rewards by name, or functions of the caller's: checked when the environment is made, named in the
run, called with care.

An environment class has a registry `rewards` of names; `--reward` takes one of these names, or
`module:function`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from intercode.errors import IntercodeError, UsageError
from intercode.plugins import describe_error, load_plugin
from intercode.types import Score, is_number


@dataclass(frozen=True, slots=True)
class NamedReward:
    """The function that `name`, module:function or path.py:function, names. A run is resumed under
    this name."""

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
    """Raise `UsageError` unless `reward` is one of the names, or a function to be called with
    `arguments`."""
    if not callable(reward) and reward not in names:
        raise UsageError(
            f"reward {reward!r}: "
            f"it is {', '.join(map(repr, names))}, or a function of ({arguments})"
        )


def reward_name(reward: object) -> str:
    """Return the name that stands for the reward in a run."""
    if isinstance(reward, str):
        return reward
    return (
        reward.name
        if isinstance(reward, NamedReward)
        else getattr(reward, "__qualname__", type(reward).__qualname__)
    )


def is_papers(reward: object, rewards: Mapping[str, str]) -> bool:
    """Return whether the reward is one of InterCode v1's, by the registry of its environment."""
    return isinstance(reward, str) and rewards.get(reward, "").startswith("intercode.paper.")


def call_reward(reward: Callable[..., object], *arguments: Any) -> Score:
    """Return the score that a function of the caller's gives; `arguments` end with the task. Of
    numbers only 1 is success.

    Raises `UsageError` if the function returns no score, or raises anything but an error of ours.
    """
    who = f"the reward {reward_name(reward)}, asked about task {arguments[-1].id},"
    try:
        score = reward(*arguments)
        if is_number(score) and 0 <= score <= 1:
            return Score(float(score), score == 1)
        valid = (
            isinstance(score, Score)
            and (
                is_number(score.reward)
                and 0 <= score.reward <= 1
                and isinstance(score.success, bool)
            )
            and isinstance(score.parts, Mapping)
            and all(isinstance(name, str) and is_number(part) for name, part in score.parts.items())
            and isinstance(score.rule, str)
        )
        if not isinstance(score, Score) or not valid:
            raise UsageError(
                f"{who} returned {score!r:.200}; "
                "it returns a Score with a reward from 0 to 1, or such a number"
            )
        return score
    except IntercodeError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{who} raised {describe_error(error)}") from error


def best_score(scores: Iterable[Score]) -> Score:
    """Return the first success, or else the highest score. After a success no further score is
    computed."""
    computed: list[Score] = []
    for score in scores:
        computed.append(score)
        if score.success:
            break
    return max(computed, key=rank)


def rank(score: Score) -> tuple[bool, float, bool]:
    """Return the key by which scores against several golds are compared."""
    return score.success, score.reward, score.ambiguous


def mostly_in(gold: Iterable[Hashable], agent: Iterable[Hashable]) -> bool:
    """Return whether more than half of the gold's values, counted with repeats, are among the
    agent's.

    A wrong answer with most of the gold's values is ambiguous: a judge may read it.
    """
    gold_counts = Counter(gold)
    return 2 * (gold_counts & Counter(agent)).total() > gold_counts.total()
