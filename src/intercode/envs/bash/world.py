"""BashWorld: files and a shell, in a sandbox on the spec of each task."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Self

from intercode.envs.workspace import Workspace, WorkspaceSpec
from intercode.types import ExecResult, Task
from intercode_sandbox.base import Sandbox


class BashWorld:
    """A workspace, which `start` puts on the spec of the task. `command` makes Bash of an action;
    for `skips_missing` see `Workspace`."""

    def __init__(
        self, spec: WorkspaceSpec, command: Callable[[str], str], *, skips_missing: bool = False
    ) -> None:
        self.spec, self.command = spec, command
        self.workspace = Workspace(spec)
        self.workspace.skips_missing = skips_missing

    @property
    def sandbox(self) -> Sandbox:
        return self.workspace.sandbox

    def spec_of(self, task: Task) -> WorkspaceSpec:
        return self.spec.for_task(task)

    def prepare(self, task: Task) -> None:
        """Make the sandbox one of the task's spec, without beginning an episode."""
        self.workspace.switch_to(self.spec_of(task))

    def start(self, task: Task) -> None:
        self.prepare(task)
        self.workspace.start_episode()
        self.workspace.require_health((*task.earlier, task)[0])

    def act(self, action: str) -> ExecResult:
        return self.workspace.execute(self.command(action))

    def files(self) -> Workspace:
        return self.workspace

    def session_lost(self) -> bool:
        return self.sandbox.session_lost()

    def lend_sandbox(self) -> Sandbox:
        return self.workspace.lend_sandbox()

    def share_services(self, other: Sandbox) -> None:
        self.workspace.share_services(other)

    def service_box(self, name: str) -> Sandbox:
        return self.workspace.services.box(name)

    def end_processes(self) -> None:
        self.workspace.end_processes()

    def as_bash(self, action: str) -> str:
        return action

    def from_bash(self, command: str) -> str:
        return command

    def fork(self, *, live: bool) -> Self:
        other = copy.copy(self)
        other.workspace = self.workspace.fork(live=live)
        return other

    def close(self) -> None:
        self.workspace.close()
