"""Where Python episodes are played: the agent's interpreter, the grader's, and one for golds, in one wall.

Workshop ── agent    the episode's own cell, reset for each
         ├─ grader   executes tests; never a line of the agent's code
         └─ aside    executes golds while an episode goes on
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Self

from intercode.envs.gold import run_gold
from intercode.envs.python.grading import About, Grader, Result
from intercode.envs.python.suite import Suite
from intercode.envs.workspace import WorkspaceSpec
from intercode.errors import DataError, SandboxDied, UsageError
from intercode.sandbox.build import open_interpreter
from intercode.sandbox.local import CellSandbox
from intercode.types import ExecResult


@dataclass(frozen=True)
class PythonGround(WorkspaceSpec):
    """A ground whose sessions are Python interpreters."""

    def make(self) -> CellSandbox:
        return open_interpreter(self.template, limits=self.limits, environment=self.environment)

    def require_python(self) -> None:
        """Raises `UsageError` if the image has none."""
        with self.make() as sandbox:
            if (said := sandbox.exec("1 + 1").output.strip()) != "2":
                raise UsageError(
                    f"the image has no Python that can be used ({said[-300:]}); build one with the package python3"
                )


class Workshop:
    """`seconds` is each test's limit; for `patience` see `Grader`."""

    agent: CellSandbox
    _aside: CellSandbox | None
    _referee: Grader | None
    _clean: bool

    def __init__(self, spec: PythonGround, *, seconds: float, patience: int | None) -> None:
        self.spec, self._seconds, self._patience = spec, seconds, patience
        self._furnish(spec.make())

    def begin(self) -> None:
        """A fresh interpreter. A sandbox that does not live any more is replaced, and so are those beside it."""
        if self._clean:
            return
        try:
            self.agent.reset()
        except SandboxDied:
            self.close()
            self._furnish(self.spec.make())
        self._clean = True

    def act(self, action: str) -> ExecResult:
        self._clean = False
        return self.agent.exec(action)

    def about(self, name: str, method: str = "") -> About | None:
        self._clean = False
        return self._grader.about(self.agent, name, method)

    def grade(self, suite: Suite, *, name: str | None, text: str | None = None) -> list[Result]:
        self._clean = False
        return self._graded(self.agent, suite, name, text)

    def try_gold(self, suite: Suite, gold: str) -> tuple[ExecResult, list[Result]]:
        """What a gold printed in a fresh interpreter, and how it does in its tests. A program is not executed by itself.

        Raises `DataError` if the gold ends its sandbox.
        """
        return run_gold(lambda: self._try(suite, gold), gold)

    def as_the_paper_did(self, suite: Suite, action: str, name: str, gold: str | None) -> list[Result]:
        """What the first system's scoring tested: the action alone, upon a gold that was left there by the scoring before."""
        aside = self._fresh_aside()
        for text in (gold, action):
            if text is not None:
                aside.exec(text)
        return self._graded(aside, suite, name)

    def _try(self, suite: Suite, gold: str) -> tuple[ExecResult, list[Result]]:
        aside = self._fresh_aside()
        shown = ExecResult("", 0) if suite.program else aside.exec(gold)
        if shown.session_lost:
            raise DataError(f"the gold {gold[:200]!r} ends its interpreter")
        return shown, self._graded(aside, suite, suite.entry, gold if suite.program else None)

    def _graded(self, played: CellSandbox, suite: Suite, name: str | None, text: str | None = None) -> list[Result]:
        """A grader that died, or may be out of step, is never asked again: a new one comes for the next grading."""
        try:
            return self._grader.grade(played, suite, name=name, text=text)
        except SandboxDied:
            self._dismiss_grader()
            raise

    def _dismiss_grader(self) -> None:
        _end(self._referee.sandbox if self._referee else None)
        self._referee = None

    def _fresh_aside(self) -> CellSandbox:
        _end(self._aside)
        self._aside = self._beside()
        return self._aside

    def twin(self) -> Self:
        """Return an untouched place in the same wall."""
        other = copy.copy(self)
        other._furnish(self._beside())
        return other

    def close(self) -> None:
        _end(self.agent)
        _end(self._aside)
        self._dismiss_grader()

    def _furnish(self, agent: CellSandbox) -> None:
        """The others come when they are first needed."""
        self.agent, self._referee, self._aside, self._clean = agent, None, None, True

    @property
    def _grader(self) -> Grader:
        if self._referee is None:
            self._referee = Grader(self._beside(), seconds=self._seconds, patience=self._patience)
        return self._referee

    def _beside(self) -> CellSandbox:
        """In the agent's wall; where that has fallen, in another."""
        try:
            return self.agent.beside()
        except SandboxDied:
            self._clean = False
            return self.spec.make()


def _end(sandbox: CellSandbox | None) -> None:
    if sandbox is not None:
        sandbox.close()
