"""Our sandboxes for Inspect's own tasks: `sandbox="intercode"`, or with a config.

    sandbox="intercode"                          this machine's /usr
    sandbox=("intercode", "path/to/Dockerfile")  an image, as for `intercode eval --image`
    sandbox=SandboxEnvironmentSpec("intercode", SandboxConfig(image="tools", root=True))

A sample may bring a config, so a config cannot open the network. Files are read and written by
programs inside, with the agent's rights.
"""

from __future__ import annotations

import errno
import math
import os
from functools import partial
from typing import Any, Literal

from anyio.to_thread import run_sync
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel

import intercode_sandbox
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.errors import UsageError
from intercode_sandbox.results import Completed

_WRITE = 'case $1 in */*) mkdir -p -- "${1%/*}/";; esac && cat > "$1"'
_FAULTS = {os.strerror(number): number for number in (errno.ENOENT, errno.EACCES, errno.EISDIR)}


class SandboxConfig(BaseModel, frozen=True):
    """The sandboxes of a task or a sample; sizes in MiB, as for `intercode eval`."""

    image: str | None = None
    provider: Literal["local", "docker", "pod"] | None = None
    root: bool = False
    cwd: str | None = None
    memory: int = 4096
    disk: int = 2048
    processes: int = 512


@sandboxenv(name="intercode")
class IntercodeSandbox(SandboxEnvironment):
    def __init__(self, box: GuestSandbox) -> None:
        super().__init__()
        self._box = box

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        if not isinstance(config, SandboxConfig):
            config = SandboxConfig(image=config)
        limits = intercode_sandbox.Limits().changed_by(config.model_dump())
        options = config.model_dump(exclude={"memory", "disk", "processes"})
        opening = partial(intercode_sandbox.open_sandbox, limits=limits, **options)
        return {"default": cls(await run_sync(opening))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await run_sync(environment.as_type(cls)._box.close)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return SandboxConfig(**config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        limits = SandboxEnvironmentLimits
        how = {"cwd": cwd or "", "env": env, "output": limits.MAX_EXEC_OUTPUT_SIZE}
        try:
            result = await self._run(cmd, input or b"", timeout, user=user or "agent", **how)
        except UsageError as error:
            if not user:
                raise
            raise SandboxUserUnsupportedError(str(error)) from error
        stdout, stderr = result.texts()
        if "output" in result.limits:
            raise OutputLimitExceededError(limits.MAX_EXEC_OUTPUT_SIZE_STR, stdout + stderr)
        if result.exit_code == 126 and os.strerror(errno.EACCES) in stderr:
            raise PermissionError(errno.EACCES, stderr.strip(), cmd[0])
        return ExecResult(result.exit_code == 0, result.exit_code or 0, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        _require_success(await self._run(["sh", "-c", _WRITE, "sh", file], contents), file)

    async def read_file(self, file: str, text: bool = True) -> Any:
        limits = SandboxEnvironmentLimits
        result = await self._run(["cat", "--", file], b"", output=limits.MAX_READ_FILE_SIZE)
        if "output" in result.limits:
            raise OutputLimitExceededError(limits.MAX_READ_FILE_SIZE_STR, None)
        _require_success(result, file)
        return result.stdout.decode() if text else result.stdout

    async def _run(
        self, command: list[str], stdin: str | bytes, seconds: float | None = None, **how: Any
    ) -> Completed:
        call = partial(self._box.run, command, stdin=stdin, timeout=seconds or math.inf, **how)
        # a sample that is over leaves the command to `sample_cleanup`
        result = await run_sync(call, abandon_on_cancel=True)
        if result.timed_out:
            raise TimeoutError(f"{command[0]} did not end in {seconds} s")
        return result


def _require_success(result: Completed, file: str) -> None:
    """Raise the OSError that a program has printed."""
    if result.exit_code == 0:
        return
    text = result.stderr.decode("utf-8", "replace").strip()
    for reason, number in _FAULTS.items():
        if reason in text:
            raise OSError(number, text, file)
    raise OSError(errno.EIO, text, file)
