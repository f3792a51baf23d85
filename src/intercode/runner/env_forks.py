"""The environment of an episode, and the copies of it that a strategy asked for.

    trunk (0) ──fork──► 1 ──fork──► 3          each has acted since, or not; the first submission closes all but its own
       └───────fork───► 2

The trunk belongs to the caller and stays open; every copy is closed at the end. A copy is live where the backend can
make one, else the episode is re-executed in a new place; where that is refused as well the strategy gets the `ForkError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, Self, SupportsFloat

from intercode.agents.base import TRUNK, Branch
from intercode.errors import ForkError, IntercodeError, UsageError
from intercode.types import Turn


class Playable(Protocol):
    """What the loop needs of an environment: `InterCodeEnv`, or any Gymnasium environment that behaves like it.

    One that strategies with `Fork` can play has a method `fork(replay=True)` as well. Which actions submit, its pattern
    `submission` says; without one, lines whose first word is `submit`.
    """

    @property
    def protocol(self) -> str: ...
    def reset(self, *, seed: int | None = ..., options: dict[str, Any] | None = ...) -> tuple[str, dict[str, Any]]: ...
    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]: ...
    def close(self) -> None: ...


COPIES = 256
"""Open at the same time."""


class EnvForks:
    """The places where an episode can go on, each with the position in the episode of the last turn that acted there.

    `agent` is the name that is blamed for a branch that is not there, or for too many."""

    def __init__(self, root: Playable, agent: str) -> None:
        self._agent = agent
        self._places: dict[Branch, Playable] = {TRUNK: root}
        self._ends: dict[Branch, int] = {TRUNK: -1}
        self._last = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for branch in self._places.keys() - {TRUNK}:
            self.drop(branch)

    def __getitem__(self, branch: Branch) -> Playable:
        try:
            return self._places[branch]
        except (KeyError, TypeError):
            raise UsageError(
                f"the agent {self._agent} named a branch {branch!r:.50} that is not there: dropped, or never forked"
            ) from None

    @property
    def latest(self) -> Branch | None:
        """The branch that acted last, of those that are there; None if all were dropped."""
        return max(self._places, key=self._ends.__getitem__, default=None)

    def fork(self, of: Branch) -> Branch | ForkError:
        """A new branch, or why there can be none."""
        fork = getattr(self[of], "fork", None)
        if fork is None:
            name = type(self[of]).__name__
            raise UsageError(
                f"the agent {self._agent} forks, but {name} has no method fork; unwrap it, or choose another agent"
            )
        if len(self._places) > COPIES:
            raise UsageError(f"the agent {self._agent} has {COPIES} copies open and forks again; let it drop some first")
        try:
            copy = fork(replay=True)
        except ForkError as refusal:
            return refusal
        branch = max(self._ends) + 1
        self._places[branch], self._ends[branch] = copy, self._ends[of]
        return branch

    def drop(self, branch: Branch) -> None:
        """The trunk is only forgotten; a copy that has broken may fail to close as well."""
        place = self[branch]
        del self._places[branch]
        if branch != TRUNK:
            with suppress(IntercodeError):
                place.close()

    def choose(self, branch: Branch) -> None:
        """Close all the others."""
        for other in self._places.keys() - {branch}:
            self.drop(other)

    def after(self, branch: Branch, log: Sequence[Turn]) -> int | None:
        """For the turn that now acted on `branch`, about to be appended to `log`: its `Turn.after`."""
        before, last = self._ends[branch], self._last
        self._ends[branch] = self._last = len(log)
        return None if before == last else before
