"""A job, and the rollout that a pool makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from intercode.runs.segments import Segment
from intercode.train.sampling import Cut
from intercode.types import Episode, Task


class Job(NamedTuple):
    """A rollout to play: a task or its id, the seed of the episode, and the number of the rollout's
    group."""

    task: Task | str
    seed: int = 0
    group: int = 0


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
