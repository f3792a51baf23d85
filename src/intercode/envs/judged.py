"""JudgedEnv: an environment of a world and judges.

A subclass sets `world`, and `judges` from the kind of a task (`kind_of`) to its judge. The hooks of
`InterCodeEnv` then ask the world or the judge of the task; a class derived from the subclass may
override each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from intercode.env import NO_VALUE, GoldRun, InterCodeEnv, single_thread
from intercode.envs.judges import Attempt, Judge, Ruling
from intercode.errors import SandboxDied, is_inside
from intercode.types import ExecResult, Score, Task


class JudgedEnv(InterCodeEnv):
    """The base of the built-in environments."""

    world: Any
    judges: Mapping[str, Any]
    _ruling: Ruling | None = None
    _valued: tuple[int, float | None] | None = None
    """The turn after which the state was scored, and its value."""
    _no_value: str | None = None
    """The answer of `no_value` in this episode, once it was asked."""

    def kind_of(self, task: Task) -> str:
        """Return the kind of judge that decides about a task, a key of `judges`."""
        return "outcome"

    def judge_of(self, task: Task) -> Any:
        return self.judges[self.kind_of(task)]

    def make_judges(self) -> Mapping[str, Judge[Any]]:
        """Return judges for this environment, without worlds of their own yet."""
        raise NotImplementedError

    @property
    def attempt(self) -> Attempt:
        """The agent's work in this episode so far."""
        actions = [*filter(self._executes, self._actions)]
        return Attempt(self.task, actions, self._word, self._seen)

    def start_episode(self, task: Task) -> None:
        self._ruling = self._valued = self._no_value = None
        for posed in filter(None, (task, self._follow_up)):
            self.judge_of(posed).before(self.world, posed)
        self.world.start(task)

    def execute(self, action: str) -> ExecResult:
        result: ExecResult = self.world.act(action)
        return result

    def score(self) -> Score:
        """Ask the judge. A path that it cannot use in a sandbox is the agent's doing, and earns 0:
        golds raise `DataError`, and a fault of the machine is no `OSError` of a sandbox."""
        try:
            self._ruling = self.judge_of(self.task).rule(self.world, self.attempt)
        except OSError as error:
            if not is_inside(error):
                raise
            self._ruling = Ruling(Score(0.0, False, rule=f"a path cannot be used: {error}"))
        if workspace := getattr(self.world, "workspace", None):
            workspace.require_services()
        return self._ruling.score

    @property
    def no_value(self) -> str:
        if self.rules.scores_steps:
            return "every turn is scored"
        if type(self).score is not JudgedEnv.score:
            return NO_VALUE
        if self._no_value is None:
            self._no_value = str(self.judge_of(self.task).no_value(self.world, self.task))
        return self._no_value

    @single_thread
    def value(self) -> float | None:
        """Return what a submission now would earn. None if the task has no value, and if the world
        has died: then the next step raises."""
        if self._done or self.no_value:
            return None
        if self._valued is None or self._valued[0] != self.turn:
            value = None
            with suppress(SandboxDied):
                attempt = replace(self.attempt, word="", peek=True)
                value = self.of_episode(self.judge_of(self.task).value(self.world, attempt))
            self._valued = self.turn, value
        return self._valued[1]

    def outcomes(self) -> dict[str, Any]:
        shown = self._ruling.show() if self._ruling else {}
        workspace = getattr(self.world, "workspace", None)
        logs = workspace.service_logs() if workspace else {}
        return {**shown, "services": logs} if logs else shown

    def run_gold(self, task: Task) -> GoldRun:
        run: GoldRun = self.judge_of(task).examine(self.world, task)
        return run

    def session_lost(self) -> bool:
        lost = self._ruling and self._ruling.session_lost
        return self.world.session_lost() if lost is None else bool(lost)

    def copy_world(self, other: Self, live: bool) -> None:
        other.world, other._ruling = self.world.fork(live=live), None
        other.judges = other.make_judges()

    def close_world(self) -> None:
        for part in (self.world, *self.judges.values()):
            part.close()
