"""What the rules for causes answer with, in Bash and in SQL: a cause, and the experiment that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from intercode.types import Task

UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Proof:
    cause: str
    how: str


class Turn(Protocol):
    """A recorded turn that is executed again: a `Scene` of Bash or of SQL."""

    @property
    def task(self) -> Task: ...
    @property
    def index(self) -> int: ...
    @property
    def recorded(self) -> float: ...
    def with_reward(self, reward: float) -> Self:
        """The same turn, as if this reward had been recorded."""


T = TypeVar("T", bound=Turn)


@dataclass(frozen=True)
class Cause(Generic[T]):
    """One disagreement and what explains it."""

    scene: T
    replayed: float
    proof: Proof

    def as_json(self) -> dict[str, Any]:
        """Without texts of the data."""
        return {
            "task": self.scene.task.id,
            "turn": self.scene.index,
            "recorded": self.scene.recorded,
            "replayed": self.replayed,
            "cause": self.proof.cause,
            "how": self.proof.how,
        }
