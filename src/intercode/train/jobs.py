"""A job, what is needed to play it, and the rollout that a pool makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from intercode.agents import Strategy
from intercode.runner.budget import BudgetTracker
from intercode.runner.env_forks import Playable
from intercode.runner.episode import play
from intercode.runner.warm_env import WarmEnv
from intercode.runs.segments import Segment
from intercode.train.sampling import Cut, EpisodeSampler
from intercode.train.settings import Setting
from intercode.types import Episode, Task, Turn


class Job(NamedTuple):
    """A rollout to play: a task or its id, the seed of the episode, and the number of the rollout's
    group."""

    task: Task | str
    seed: int = 0
    group: int = 0


JobLike = Job | tuple[Any, ...]
"""A job, or a tuple of its fields."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The result of a job. `reward` is 1.0 if the task was solved, otherwise 0.0, or in a `shaped`
    pool `episode.reward`, which may be a fraction. It is None after a fault, which `episode.error`
    names: do not train on such a rollout.

    `segments` contains the tokens (see `Segment`) and is empty if the model returned no ids; an
    agent that continues one conversation produces one segment. `cut` names the limit that ended the
    episode; its reward is that of the state at that moment.
    """

    task: str
    group: int
    seed: int
    segments: tuple[Segment, ...]
    reward: float | None
    episode: Episode
    cut: Cut | None = None

    @property
    def values(self) -> tuple[float | None, ...]:
        """Return the `value` of each turn, in a pool that records values; `episode.no_value` says
        why there is none."""
        return tuple(turn.value for turn in self.episode.turns)


class Group(NamedTuple):
    """The rollouts of one task that are compared, under the tag of the call that plays them."""

    tag: str
    number: int
    task: str


@dataclass(frozen=True)
class Order:
    """A job with all that is needed to play it. It passes from the pool through a worker to an
    environment, which may be in another process."""

    task: Task
    seed: int
    group: Group
    setting: Setting
    sampler: EpisodeSampler
    tracker: BudgetTracker
    values: bool
    env: WarmEnv | None = None
    """Replaces the worker's environment, and is closed afterwards."""
    wrap: Callable[[Playable], Playable] | None = None
    turns: list[Turn] = field(default_factory=list)
    """The turns so far, for a caller that needs them after a fault."""

    @property
    def strategy(self) -> Strategy:
        return self.setting.strategy_for(self.sampler.limits.turns)

    def play(self, env: Playable) -> Episode:
        """Play the episode in an environment. One of another process may play it there."""
        play_there = getattr(env, "play_rollout", None)
        if self.wrap:
            return self.play_here(self.wrap(env))
        if play_there is None:
            return self.play_here(env)
        episode: Episode = play_there(self)
        return episode

    def play_here(self, env: Playable) -> Episode:
        """Play the episode in this thread."""
        return play(
            env,
            self.task,
            self.strategy,
            self.sampler,
            self.tracker,
            seed=self.seed,
            turns=self.turns,
            values=self.values,
        )
