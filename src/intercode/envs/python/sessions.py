"""The sandboxes of a Python environment: interpreters for the agent, the grader and golds, in one
container.

PythonSessions ── agent     the episode's interpreter, reset for each episode
               ├─ grader    executes tests, never the agent's code
               ├─ gold      executes golds while an episode is in progress
               └─ programs  an interpreter that executes nothing, whose copies run programs
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from intercode.envs.gold import blame_gold
from intercode.envs.python.grading import Definitions, Grader, Place, Result
from intercode.envs.python.suite import Suite, behind
from intercode.envs.workspace import WorkspaceSpec
from intercode.errors import DataError, SandboxDied, UsageError
from intercode.types import ExecResult
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.guest.python_interpreter import GIVEN

_FLUSH = """exec('''
import contextlib, gc, io, sys
shelf = getattr(sys.modules.get("shelve"), "Shelf", ())
for one in gc.get_objects():
    with contextlib.suppress(Exception):
        if isinstance(one, io.IOBase):
            one.flush()
        elif isinstance(one, shelf):
            one.close()  # the tests end the interpreter
''', {})"""
"""Writes what open files and shelves hold back, as an interpreter does at its end: tests see files.
It leaves no name in the agent's namespace."""
_FLUSH_SECONDS = 5.0


@dataclass(frozen=True)
class PythonSpec(WorkspaceSpec):
    """A `WorkspaceSpec` with Python interpreters as sessions."""

    program = "python"

    def make(self) -> GuestSandbox:
        sandbox = super().make()
        if isinstance(sandbox, GuestSandbox):
            return sandbox
        sandbox.close()
        raise UsageError(
            f"{type(self.provider).__name__} has no Python sessions, whose copies run tests; "
            "use --sandbox local or docker"
        )

    def require_python(self) -> None:
        """Raise `UsageError` if the image has no working Python."""
        with self.make() as sandbox:
            if (output := sandbox.exec("1 + 1").output.strip()) != "2":
                raise UsageError(
                    f"the image has no usable Python ({output[-300:]}); "
                    "build one with the package python3"
                )


class PythonSessions:
    """The interpreters of one environment. `seconds` is each test's time limit; for `patience` see
    `Grader`. The grader's and the golds' sandboxes are made on first use."""

    agent: GuestSandbox
    _gold_sandbox: GuestSandbox | None
    _grader: Grader | None
    _programs: GuestSandbox | None
    _clean: bool

    def __init__(self, spec: PythonSpec, *, seconds: float, patience: int | None) -> None:
        self.spec = spec
        self._seconds = seconds
        self._patience = patience
        self._start_with(spec.make())

    def _start_with(self, agent: GuestSandbox) -> None:
        self.agent = agent
        self._clean = True
        self._grader = self._gold_sandbox = self._programs = None

    def start_episode(self, preamble: str = "") -> None:
        """Give the agent a new interpreter, which has executed `preamble`. If its sandbox has died,
        all sandboxes are replaced. Raises `DataError` if the preamble fails."""
        if not self._clean:
            try:
                self.agent.reset()
            except SandboxDied:
                self.close()
                self._start_with(self.spec.make())
        self._clean = False
        _execute_preamble(self.agent, preamble)

    def execute(self, action: str) -> ExecResult:
        """Execute an action in the agent's interpreter."""
        return self.agent.exec(action)

    def lend_agent(self) -> GuestSandbox:
        """Return the agent's sandbox, in which the caller may change files."""
        self.agent.exec(_FLUSH, timeout=_FLUSH_SECONDS)
        return self.agent

    def end_processes(self) -> None:
        """End all processes in the agent's sandbox, its interpreter too."""
        self.lend_agent().end_processes()

    def describe(self, name: str, method: str = "") -> Definitions | None:
        """Return the agent's definitions and a description of `name`; None if its interpreter does
        not answer."""
        return self._open_grader().describe(self.agent, name, method)

    def run_graded(
        self, suite: Suite, *, name: str | None, text: str | None = None
    ) -> list[Result]:
        """Execute the tests on the agent's function `name`, or on `text` as a program."""
        if not suite.tests:
            return []
        return self._grade(self.agent, suite, name, text)

    def run_gold(self, suite: Suite, gold: str) -> tuple[ExecResult, list[Result]]:
        """Execute a gold in a new interpreter; return its output and the results of its tests. A
        program is executed only by its tests.

        Raises `DataError` if the gold kills its interpreter or its sandbox.
        """

        def execute() -> tuple[ExecResult, list[Result]]:
            sandbox = self._new_gold_sandbox()
            result = ExecResult("", 0)
            text = None
            if suite.program:
                text = behind(suite.preamble, gold)
            else:
                _execute_preamble(sandbox, suite.preamble)
                result = sandbox.exec(gold)
            if result.session_lost:
                raise DataError(f"the gold {gold[:200]!r} ends its interpreter")
            return result, self._grade(sandbox, suite, suite.gold_name, text)

        return blame_gold(execute, gold)

    def gives(self, suite: Suite) -> bool:
        """Return whether the preamble brings the name that the answer must have. Raises `DataError`
        if the preamble fails."""
        sandbox = self._new_gold_sandbox()
        _execute_preamble(sandbox, suite.preamble)
        definitions = self._open_grader().describe(sandbox, suite.name)
        return bool(definitions and definitions.given)

    def run_as_v1(self, suite: Suite, action: str, name: str, gold: str | None) -> list[Result]:
        """Return the test results as in InterCode v1: for the action alone, executed after `gold`
        if an earlier scoring left the gold there."""
        sandbox = self._new_gold_sandbox()
        if gold is not None:
            sandbox.exec(gold)
        sandbox.exec(action)
        return self._grade(sandbox, suite, name)

    def fork(self) -> Self:
        """Return new sessions in the same container, without the actions so far."""
        other = copy.copy(self)
        other._start_with(self._open_sibling())
        return other

    def close(self) -> None:
        """Close all sandboxes."""
        self.agent.close()
        if self._gold_sandbox:
            self._gold_sandbox.close()
        self._gold_sandbox = None
        self._close_grader()

    def _close_grader(self) -> None:
        if self._grader:
            self._grader.sandbox.close()
        if self._programs:
            self._programs.close()
        self._grader = self._programs = None

    def _grade(
        self, sandbox: GuestSandbox, suite: Suite, name: str | None, text: str | None = None
    ) -> list[Result]:
        """Grade in the grader's sandbox. If either sandbox dies, the grader may be out of sync, so
        a new one is used next."""
        grader = self._open_grader()
        try:
            places = () if text is None else self._places(sandbox)
            return grader.grade(sandbox, suite, name=name, text=text, places=places)
        except SandboxDied:
            self._close_grader()
            raise

    def _places(self, sandbox: GuestSandbox) -> list[Place]:
        """Return where a program is tested: with the files of the episode's start; and, if they
        have changed, with those of the agent."""
        if self._programs is None:
            self._programs = self._open_sibling()
        else:
            self._programs.reset()
        places: list[Place] = [self._at_start]
        if sandbox.diff():
            places.append(sandbox.copy_files)
        return places

    @contextmanager
    def _at_start(self) -> Iterator[GuestSandbox]:
        assert self._programs is not None
        self._programs.restore()
        yield self._programs

    def _open_grader(self) -> Grader:
        if self._grader is None:
            sandbox = self._open_sibling()
            try:
                self._grader = Grader(sandbox, seconds=self._seconds, patience=self._patience)
            except SandboxDied:
                sandbox.close()
                raise
        return self._grader

    def _new_gold_sandbox(self) -> GuestSandbox:
        if self._gold_sandbox is not None:
            self._gold_sandbox.close()
        self._gold_sandbox = self._open_sibling()
        return self._gold_sandbox

    def _open_sibling(self) -> GuestSandbox:
        """Open a sandbox in the agent's container, or in a new one if the agent's has died."""
        try:
            return self.agent.sibling()
        except SandboxDied:
            self._clean = False
            return self.spec.make()


def _execute_preamble(sandbox: GuestSandbox, preamble: str) -> None:
    """Execute a task's preamble in the session, by a call: so it is not what was defined last."""
    if not preamble:
        return
    execute = f"exec(compile({preamble!r}, '<preamble>', 'exec', 0, True), globals())"
    result = sandbox.exec(GIVEN + execute)
    if result.exit_code != 0:
        last = result.output.strip().rpartition("\n")[2]
        raise DataError(f"field 'preamble': it fails: {last[:200]}")
