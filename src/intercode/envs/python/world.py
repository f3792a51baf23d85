"""PythonWorld: the interpreters of an environment, and the action that is the answer."""

from __future__ import annotations

import copy
import shlex
from typing import Self

from intercode.envs.python.language import LANGUAGE, without_submit
from intercode.envs.python.sessions import PythonSessions, PythonSpec
from intercode.envs.python.suite import Suite, completed, may_print, read_suite
from intercode.envs.workspace import WorkspaceSpec
from intercode.errors import DataError
from intercode.types import ExecResult, Task
from intercode_sandbox.client import GuestSandbox


class PythonWorld:
    """Interpreters, `seconds` and `patience` as for `PythonSessions`. `as_v1`: actions are executed
    as InterCode v1 did, without a preamble before them."""

    def __init__(
        self, spec: PythonSpec, *, seconds: float, patience: int | None, as_v1: bool
    ) -> None:
        self.sessions = PythonSessions(spec, seconds=seconds, patience=patience)
        self._as_v1, self._suites = as_v1, dict[str, Suite]()
        self._completes, self.last_action = "", ""

    @property
    def sandbox(self) -> GuestSandbox:
        return self.sessions.agent

    def suite(self, task: Task) -> Suite:
        """Return the task's tests. Raises `DataError` if they cannot be read."""
        if task.id not in self._suites:
            self._suites[task.id] = read_suite(task)
        return self._suites[task.id]

    def start(self, task: Task) -> None:
        # a program is executed by its tests, behind the preamble
        tested = task.extra.get("verify") is not None
        self.sessions.start_episode("" if self._as_v1 or tested else self.suite(task).preamble)
        cwd = task.extra.get("cwd") if tested else None
        if cwd and self.sessions.execute(f"__import__('os').chdir({cwd!r})").exit_code != 0:
            raise DataError(f"field 'cwd': there is no folder {cwd} in the task's world")
        self._completes, self.last_action = str(task.extra.get("completes") or ""), ""

    def act(self, action: str) -> ExecResult:
        if not self._as_v1:
            action = without_submit(action)
            if self._completes:
                action = completed(self._completes, action)
        # a sentence or a bare value is no program in place of an earlier one
        if self._as_v1 or not self.last_action or may_print(action):
            self.last_action = action
        return self.sessions.execute(action)

    def files(self) -> None:
        """Return None: no programs can be run next to the session, and there are no services."""

    def session_lost(self) -> bool:
        return self.sandbox.session_lost()

    def spec_of(self, task: Task) -> WorkspaceSpec:
        return self.sessions.spec

    def lend_sandbox(self) -> GuestSandbox:
        return self.sessions.lend_agent()

    def share_services(self, other: object) -> None:
        """Do nothing: tasks in Python have no services."""

    def service_box(self, name: str) -> GuestSandbox:
        raise DataError(f"tasks in Python have no service {name!r}")

    def end_processes(self) -> None:
        self.sessions.end_processes()

    def as_bash(self, action: str) -> str:
        return as_bash(action)

    def from_bash(self, command: str) -> str:
        return from_bash(command)

    def fork(self, *, live: bool) -> Self:
        assert not live  # an interpreter's state is not copied
        other = copy.copy(self)
        other.sessions, other._suites = self.sessions.fork(), dict(self._suites)
        return other

    def close(self) -> None:
        self.sessions.close()


def as_bash(action: str) -> str:
    """Return Bash that executes Python."""
    return f"python3 -c {shlex.quote(action)}"


def from_bash(command: str) -> str:
    """Return Python that executes Bash, and shows nothing but what that prints."""
    return LANGUAGE.in_shell(command)
