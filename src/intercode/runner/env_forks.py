"""The environment of an episode, and its forks.

    root (0) ──fork──► 1 ──fork──► 3           the first submission closes all branches but its own
       └──────fork───► 2

The root belongs to the caller and stays open; every copy is closed at the end. A fork is a live
copy if the environment can make one, else a new environment that executes the episode's actions
again; if both fail the strategy gets the `ForkError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, SupportsFloat

from intercode.agents.base import ROOT, Branch
from intercode.errors import ForkError, IntercodeError, UsageError
from intercode.types import Turn


class Playable(Protocol):
    """The interface that the loop needs: `InterCodeEnv`, or a Gymnasium environment that behaves
    like it.

    Strategies with `Fork` need a method `fork(replay=True)` as well. The optional pattern
    `submission` matches the actions that submit; without it, lines whose first word is `submit` do.
    The optional `outcomes()` describes a finished episode. The optional `value()` is what a
    submission now would earn, and the optional `no_value` says why the present task has none.
    """

    @property
    def protocol(self) -> str: ...
    def reset(
        self, *, seed: int | None = ..., options: dict[str, Any] | None = ...
    ) -> tuple[str, dict[str, Any]]: ...
    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]: ...
    def close(self) -> None: ...


MOST_COPIES = 256
"""Copies that are open at the same time."""


class EnvForks(AbstractContextManager["EnvForks"]):
    """The open branches of an episode, each with the position in the episode of the last turn that
    acted on it.

    `agent` is the strategy's name, for errors about a missing branch or too many copies."""

    def __init__(self, root: Playable, agent: str) -> None:
        self._agent = agent
        self._envs: dict[Branch, Playable] = {ROOT: root}
        self._last_turns: dict[Branch, int] = {ROOT: -1}

    def __exit__(self, *failure: object) -> None:
        for branch in self._envs.keys() - {ROOT}:
            self.close(branch)

    def __getitem__(self, branch: Branch) -> Playable:
        try:
            return self._envs[branch]
        except (KeyError, TypeError):
            raise UsageError(
                f"the agent {self._agent} named a branch {branch!r:.50} that is not open: "
                "closed, or never forked"
            ) from None

    @property
    def latest(self) -> Branch | None:
        """Return the open branch that acted last; None if all are closed."""
        return max(self._envs, key=self._last_turns.__getitem__, default=None)

    def fork(self, branch: Branch) -> Branch | ForkError:
        """Return a copy of a branch, or the error that explains why the environment cannot be
        copied."""
        fork = getattr(self[branch], "fork", None)
        if fork is None:
            name = type(self[branch]).__name__
            raise UsageError(
                f"the agent {self._agent} forks, but {name} has no method fork; "
                "unwrap it, or choose another agent"
            )
        if len(self._envs) > MOST_COPIES:
            raise UsageError(
                f"the agent {self._agent} has {MOST_COPIES} copies open and forks again; "
                "let it close some first"
            )
        try:
            copy = fork(replay=True)
        except ForkError as error:
            return error
        new = max(self._last_turns) + 1
        self._envs[new], self._last_turns[new] = copy, self._last_turns[branch]
        return new

    def close(self, branch: Branch) -> None:
        """Forget a branch, and close it unless it is the root, ignoring errors: a broken copy may
        fail to close."""
        env = self[branch]
        del self._envs[branch]
        if branch != ROOT:
            with suppress(IntercodeError):
                env.close()

    def choose(self, branch: Branch) -> None:
        """Close all other branches."""
        for other in self._envs.keys() - {branch}:
            self.close(other)

    def after(self, branch: Branch, log: Sequence[Turn]) -> int | None:
        """Return `Turn.after` for a turn that has just acted on `branch` and will be appended to
        `log`."""
        before, last = self._last_turns[branch], max(self._last_turns.values())
        self._last_turns[branch] = len(log)
        return None if before == last else before
