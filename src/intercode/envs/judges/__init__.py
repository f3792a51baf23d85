"""Worlds and judges: who acts, and who decides.

    judge.before(world, task) ──► world.start(task) ──► world.act(action) … ──┐
                                                                              ▼
                             Ruling: score, session lost, what to show ◄── judge.rule(world, …)

Actions change a world; it knows nothing of golds and rewards. A judge is chosen for each
task, not for each class: it compares outcomes with those of golds (`outcome.py`), runs the task's
tests (`tests.py`) or asserts (`python/judge.py`), or looks for a flag (`ctf/judge.py`).
`intercode.envs.judged` joins both in an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from intercode.envs.gold import NO_GOLD, blame_gold
from intercode.envs.services import Services
from intercode.errors import DataError, UsageError
from intercode.plugins import call_plugin
from intercode.types import ExecResult, GoldRun, Score, Task
from intercode.user import golds_of

W = TypeVar("W", bound="World")
W_contra = TypeVar("W_contra", bound="World", contravariant=True)


class Files(Protocol):
    """The part of a workspace that an environment asks; see `envs/workspace.py`."""

    def run(self, argv: Sequence[str], *, cwd: str) -> ExecResult:
        """Run a program outside the session."""
        ...

    def forget_answer(self) -> None:
        """Have no answer yet: the last one belongs to a round that has ended."""

    def require_health(self, task: Task) -> None:
        """Wait until the health checks of a round succeed."""

    @property
    def services(self) -> Services:
        """The task's servers."""
        ...


class World(Protocol):
    """Files and a shell, a database, or an interpreter that actions change."""

    def start(self, task: Task) -> None:
        """Begin an episode; no state from earlier ones remains. Raises `DataError` if the task
        cannot be played, and `SandboxError` if the world cannot be made."""

    def act(self, action: str) -> ExecResult:
        """Execute one action. Raises `SandboxDied` if the world died."""
        ...

    def session_lost(self) -> bool:
        """Return whether the session has ended since the last action."""
        ...

    def files(self) -> Files | None:
        """Return the files and services of the world; None if it has neither."""
        ...

    def fork(self, *, live: bool) -> Self:
        """Return a second world: a live copy, or an unused one. Raises `ForkError` if a live copy
        cannot be made now."""
        ...

    def close(self) -> None:
        """End the world. May be called more than once."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The work of an agent on a task: its actions without submissions, the submitted word, and the
    output of its last action as the agent saw it. `peek`: the episode goes on, and the agent must
    not notice that it was looked at."""

    task: Task
    actions: Sequence[str] = ()
    word: str = ""
    seen: str = ""
    peek: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of a judge. `show` returns the outcomes for readers (`InterCodeEnv.outcomes`);
    `session_lost` is None unless the judge had to end the session."""

    score: Score
    show: Callable[[], dict[str, Any]] = dict
    session_lost: bool | None = None


class Judge(Protocol[W_contra]):
    """Decides what an agent's work is worth; `docs/own-judge.md` shows one. May keep worlds of its
    own. A class derived from this one needs only `rule`."""

    def before(self, world: W_contra, task: Task) -> None:
        """Execute the golds or the reference, if that has not been done. No episode may be in
        progress in `world`. Raises `DataError` if the task has none that is sound."""

    def rule(self, world: W_contra, attempt: Attempt) -> Ruling:
        """Decide. Raises `SandboxDied` if a world died, and `DataError` if the gold is at fault."""
        raise UsageError(f"the judge {type(self).__name__} has no method `rule`")

    def value(self, world: W_contra, attempt: Attempt) -> float:
        """Return the reward that a submission now would earn; the world does not change. Only for a
        task without a reason not to (`no_value`)."""
        return self.rule(world, attempt).score.reward

    def no_value(self, world: W_contra, task: Task) -> str:
        """Return why the task has no value between turns; "" if it has one."""
        return "its judge does not say whether it changes what it looks at"

    def examine(self, world: W_contra, task: Task) -> GoldRun:
        """Execute the gold for `intercode check`. No episode may be in progress in `world`."""
        if not task.gold:
            return GoldRun(None, "", (NO_GOLD,))

        def play() -> tuple[Score, str]:
            world.start(task)
            *_, output = [world.act(gold).output for gold in golds_of(task)]
            attempt = Attempt(task, [task.gold], seen=output)
            return call_plugin(self.rule, Ruling, world, attempt).score, output

        try:
            score, output = blame_gold(play, task.gold)
        except DataError as error:
            return GoldRun(None, "", (str(error),))
        return GoldRun(score, output, () if score.success else ("the gold does not succeed",))

    def close(self) -> None:
        """End the judge's own worlds. May be called more than once."""


Done = Attempt  # its name before
