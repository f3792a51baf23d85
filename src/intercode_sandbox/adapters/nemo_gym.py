"""Our sandboxes as a sandbox provider of NeMo Gym: the name `intercode` in the entry-point group
`nemo_gym.sandbox_providers`.

`SandboxSpec.image` is as for `intercode eval --image`; `provider_options` may contain `provider`
and `root`. There is no network. A sandbox has no time limit (`ttl_s` is not read): close it.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from pathlib import Path
from typing import Any

from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)

import intercode_sandbox
from intercode_sandbox.errors import IntercodeError, SandboxError, UsageError

_OPTIONS = {"provider", "root"}


class IntercodeProvider:
    name = "intercode"

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Open a sandbox; NeMo Gym uploads the files of `spec`. Raises `SandboxCreateError`."""
        try:
            box = await asyncio.to_thread(self._open, spec)
        except (IntercodeError, ValueError, OSError) as error:
            raise SandboxCreateError(f"intercode: {error}") from error
        return SandboxHandle(uuid.uuid4().hex, self.name, box)

    @staticmethod
    def _open(spec: SandboxSpec) -> Any:
        unknown = spec.provider_options.keys() - _OPTIONS
        if unknown:
            raise UsageError(
                f"provider_options takes {', '.join(sorted(_OPTIONS))}, not {', '.join(unknown)}"
            )
        if spec.entrypoint:
            raise UsageError("an entrypoint is not started; start it by exec")
        asked: Any = spec.resources
        if asked.gpu:
            raise UsageError("a sandbox has no GPU")
        if getattr(spec, "ports", ()):  # NeMo Gym 0.4 has no ports
            raise UsageError("a sandbox has no ports to the outside: run the clients inside it")
        sizes = {"memory": asked.memory_mib, "disk": asked.disk_gib and asked.disk_gib << 10}
        return intercode_sandbox.open_sandbox(
            spec.image,
            environment=spec.env,
            cwd=spec.workdir,
            limits=intercode_sandbox.Limits().changed_by(sizes),
            **spec.provider_options,
        )

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: int | float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a command in a new shell. `error_type` is "timeout" or "sandbox" where the command
        has no exit status."""
        try:
            result = await asyncio.to_thread(
                handle.raw.run,
                ["bash", "-c", command],
                cwd=cwd or "",
                env=env,
                timeout=timeout_s or math.inf,
                user="agent" if user is None else str(user),
            )
        except SandboxError as error:
            return SandboxExecResult(None, str(error), -1, "sandbox")
        if result.timed_out:
            return SandboxExecResult(*result.texts(), -1, "timeout")
        return SandboxExecResult(*result.texts(), result.exit_code, None)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        await asyncio.to_thread(handle.raw.copy_in, source_path, target_path)

    async def download_file(
        self, handle: SandboxHandle, source_path: str, target_path: Path
    ) -> None:
        await asyncio.to_thread(handle.raw.copy_out, source_path, target_path)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        try:
            await asyncio.to_thread(handle.raw.run, ["true"])
        except (SandboxError, UsageError):
            return SandboxStatus.STOPPED
        return SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        await asyncio.to_thread(handle.raw.close)

    async def aclose(self) -> None:
        """Do nothing: each sandbox is closed by `close`."""
