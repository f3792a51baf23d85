"""JudgedEnv: an environment of a world and judges.

A subclass sets `world`, and `judges` from the kind of a task (`kind_of`) to its judge. The hooks of
`InterCodeEnv` then ask the world or the judge of the task; a class derived from the subclass may
override each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, Self

from intercode.env import InterCodeEnv, single_thread
from intercode.envs.judges import Attempt, Judge, Ruling, W
from intercode.envs.judges.outcome import OutcomeJudge
from intercode.errors import DataError, SandboxDied, is_inside
from intercode.hooks import NO_VALUE
from intercode.plugins import call_plugin
from intercode.types import ExecResult, GoldRun, Score, Task, TaskIssue
from intercode.user import part_of, still_alive


class JudgedEnv(InterCodeEnv, Generic[W]):
    """The base of the built-in environments."""

    world: W
    judges: Mapping[str, Judge[W]]
    _ruling: Ruling | None = None
    _valued: tuple[int, float | None] | None = None
    """The turn after which the state was scored, and its value."""
    _no_value: str | None = None
    _unhealthy = ""
    """The health check that failed after the agent's work, before a later round."""
    """The answer of `no_value` in this round, once it was asked."""

    def kind_of(self, task: Task) -> str:
        """Return the kind of judge that decides about a task, a key of `judges`."""
        return "outcome"

    def judge_of(self, task: Task) -> Judge[W]:
        return self.judges[self.kind_of(task)]

    def make_judges(self) -> Mapping[str, Judge[W]]:
        """Return judges for this environment, without worlds of their own yet."""
        raise NotImplementedError

    @property
    def attempt(self) -> Attempt:
        """The agent's work in this episode so far."""
        return Attempt(self.task, self._executed, self._word, self._seen)

    def start_episode(self, task: Task) -> None:
        self._ruling = self._valued = self._no_value = None
        self._unhealthy = ""
        for posed in (task, *self._conversation.ahead):
            self.judge_of(posed).before(self.world, posed)
        self.world.start(task)

    def execute(self, action: str) -> ExecResult:
        return self.world.act(action)

    def score(self) -> Score:
        """Ask the judge. A path that it cannot use in a sandbox is the agent's doing, and earns 0:
        golds raise `DataError`, and a fault of the machine is no `OSError` of a sandbox."""
        try:
            self._ruling = self._rule()
        except OSError as error:
            if not is_inside(error):
                raise
            self._ruling = Ruling(Score(0.0, False, rule=f"a path cannot be used: {error}"))
        if files := self.world.files():
            files.services.require()
        return self._ruling.score

    def _rule(self) -> Ruling:
        """Ask the judge of this round, and those of the earlier rounds that are alive: the least
        score counts. The outcome of a round contains the outcomes of earlier rounds."""
        if self._unhealthy:
            return Ruling(Score(0.0, False, rule=self._unhealthy))
        attempt = self.attempt
        present = self.judge_of(attempt.task)
        ruling = call_plugin(present.rule, Ruling, self.world, attempt)
        score = ruling.score
        parts = {part_of(attempt.task): float(score.success)}
        for earlier in still_alive(attempt.task):
            judge = self.judge_of(earlier)
            word = self._conversation.words[len(earlier.earlier)]
            before = replace(attempt, task=earlier, word=word)
            if not isinstance(judge, OutcomeJudge):
                again = judge.rule(self.world, before).score
            elif isinstance(present, OutcomeJudge):
                continue
            else:
                again = judge.demand(self.world, before)
            parts[part_of(earlier)] = float(again.success)
            score = min(score, again, key=lambda score: score.reward)
        if len(parts) == 1:
            return ruling
        return replace(ruling, score=replace(score, parts={**score.parts, **parts}))

    def begin_round(self) -> None:
        self._ruling = self._valued = self._no_value = None
        if files := self.world.files():
            files.forget_answer()
            try:
                files.require_health(self.task)
            except DataError as error:
                if not self.task.gold:
                    raise
                self._unhealthy = str(error)  # after the golds, they succeed

    @property
    def no_value(self) -> str:
        if self.rules.scores_steps:
            return "every turn is scored"
        if type(self).score is not JudgedEnv.score:
            return NO_VALUE
        earlier = still_alive(self.task)
        judges = map(self.judge_of, (*earlier, self.task))
        if earlier and not all(isinstance(judge, OutcomeJudge) for judge in judges):
            return "tests of several rounds decide"
        if self._no_value is None:
            self._no_value = self.judge_of(self.task).no_value(self.world, self.task)
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
                reward = self.judge_of(self.task).value(self.world, attempt)
                value = self._conversation.score_of_episode(Score(reward, reward == 1)).reward
            self._valued = self.turn, value
        return self._valued[1]

    def outcomes(self) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        if self._ruling:
            shown = self._ruling.show()
            if rule := self._ruling.score.rule:
                shown.setdefault("rule", rule)
        if rounds := self._conversation.shown:
            shown["rounds"] = rounds
        if (files := self.world.files()) and (logs := files.services.logs()):
            shown["services"] = logs
        return shown

    def run_gold(self, task: Task) -> GoldRun:
        """Execute the golds of all rounds."""
        run = self.judge_of(task).examine(self.world, task)
        for posed in task.rounds:
            later, faults = self.judge_of(posed).examine(self.world, posed), [*run.faults]
            for fault in later.faults:
                issue = f"{part_of(posed)}: {fault}"
                faults.append(TaskIssue(issue, getattr(fault, "kind", "gold_fails")))
            evidence, summary = (run.evidence, later.evidence), f"{run.summary}\n{later.summary}"
            run = replace(run, evidence=evidence, summary=summary, faults=tuple(faults))
        return run

    def session_lost(self) -> bool:
        if self._ruling and self._ruling.session_lost is not None:
            return self._ruling.session_lost
        return self.world.session_lost()

    def copy_world(self, other: Self, live: bool) -> None:
        other.world, other._ruling = self.world.fork(live=live), None
        other.judges = other.make_judges()

    def close_world(self) -> None:
        self.world.close()
        for judge in self.judges.values():
            judge.close()
