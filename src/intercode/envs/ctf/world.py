"""CtfWorld: a shell in /ctf, which has the files of one task."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Self

from intercode.envs.ctf.challenges import Challenge
from intercode.envs.workspace import Workspace, WorkspaceSpec
from intercode.errors import DataError
from intercode.types import ExecResult, Task
from intercode_sandbox.base import Sandbox

FOLDER = "/ctf"
_ARCHIVE = "/dev/shm/assets.tar"
_UNPACK = f"tar -C {FOLDER} --no-same-owner -xpf {_ARCHIVE}; status=$?; rm {_ARCHIVE}; exit $status"


class CtfWorld:
    """A workspace whose episodes start with the task's assets unpacked. `challenges` maps task ids
    to assets."""

    def __init__(self, spec: WorkspaceSpec, challenges: Mapping[str, Challenge]) -> None:
        self.spec, self.workspace, self.challenges = spec, Workspace(spec), challenges

    @property
    def sandbox(self) -> Sandbox:
        return self.workspace.sandbox

    def start(self, task: Task) -> None:
        workspace, challenge = self.workspace, self.challenges[task.id]
        workspace.switch_to(self.spec.with_services(task))
        workspace.start_episode()
        workspace.execute(f"cd {FOLDER}")
        if challenge.packed is None:
            return
        workspace.sandbox.write(_ARCHIVE, challenge.packed, mode=0o600)
        done = workspace.sandbox.exec("", argv=["sh", "-c", _UNPACK], cwd="/", timeout=60)
        if done.exit_code != 0:
            raise DataError(
                f"task {task.id}: {challenge.assets} cannot be unpacked in the sandbox: "
                f"{last_line(done.output)}"
            )

    def act(self, action: str) -> ExecResult:
        return self.workspace.execute(action)

    def files(self) -> Workspace:
        return self.workspace

    def session_lost(self) -> bool:
        return self.sandbox.session_lost()

    def fork(self, *, live: bool) -> Self:
        other = copy.copy(self)
        other.workspace = self.workspace.fork(live=live)
        return other

    def close(self) -> None:
        self.workspace.close()


def last_line(output: str) -> str:
    """Return the last line of an output, which contains the flag of a script."""
    return output.strip().rpartition("\n")[2].strip()
