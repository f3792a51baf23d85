"""Our sandbox as an environment of Harbor, which plays its own tasks and agents in it.

    harbor run --env intercode_sandbox.adapters.harbor:IntercodeEnvironment …

The task's Dockerfile is built as for `intercode eval harbor` (docs/harbor.md); `--ek image=NAME`
replaces it. There is no network unless you give `--ek network=host` (docs/security.md). Tests run
in the agent's sandbox, as Harbor does, so an agent may forge them: `intercode eval harbor` runs
them in another one.
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

import intercode_sandbox

# The usual limits of a task: MiB, MiB of changes, processes.
_MEMORY, _DISK, _PROCESSES = 2048, 10240, 512


class IntercodeEnvironment(BaseEnvironment):
    def __init__(
        self,
        *args: Any,
        image: str | None = None,
        provider: Any = None,
        network: Any = "none",
        root: bool = True,
        **kwargs: Any,
    ) -> None:
        self._image = image
        self._how = {"provider": provider, "network": network, "root": root}
        self._box: Any = None
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "intercode"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=self._how["network"] == "none")

    def _validate_definition(self) -> None:
        if not self._chosen_image():
            raise FileNotFoundError(
                f"{self.environment_dir} has no Dockerfile, and the task names no image; "
                "give one: --ek image=NAME"
            )

    def _chosen_image(self) -> str | None:
        dockerfile = self.environment_dir / "Dockerfile"
        image: str | None = self._image or self.task_env_config.docker_image
        if not self._image and dockerfile.exists():
            image = str(dockerfile)
        return image

    async def start(self, force_build: bool) -> None:
        """Open the sandbox; an image that has been built is not built again."""
        config = self.task_env_config
        sizes = {
            "memory": config.memory_mb or _MEMORY,
            "disk": config.storage_mb or _DISK,
            "processes": _PROCESSES,
        }
        self._box = await asyncio.to_thread(
            intercode_sandbox.open_sandbox,
            self._chosen_image(),
            environment=self._startup_env(),
            cwd=config.workdir,
            limits=intercode_sandbox.Limits().changed_by(sizes),
            **self._how,
        )
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        """Close the sandbox, which is always deleted."""
        box = self._box
        self._box = None
        if box is not None:
            await asyncio.to_thread(box.close)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        user = self._resolve_user(user)
        result = await asyncio.to_thread(
            self._box.run,
            ["bash", "-c", command],
            cwd=cwd or "",
            env=self._merge_env(env),
            timeout=timeout_sec or math.inf,
            user="agent" if user is None else str(user),
        )
        if result.timed_out:
            raise TimeoutError(f"Command timed out after {timeout_sec} seconds")
        stdout, stderr = result.texts()
        return ExecResult(stdout=stdout, stderr=stderr, return_code=result.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await asyncio.to_thread(self._box.copy_in, source_path, target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await asyncio.to_thread(self._box.copy_in, source_dir, target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await asyncio.to_thread(self._box.copy_out, source_path, target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(self._box.copy_out, source_dir, target_dir)
