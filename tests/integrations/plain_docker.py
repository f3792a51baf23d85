"""Harbor's environment over plain `docker` commands, since its own needs `docker compose`."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities


class PlainDocker(BaseEnvironment):
    container = tag = ""

    @staticmethod
    def type() -> str:
        return "plain-docker"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        assert (self.environment_dir / "Dockerfile").exists()

    async def docker(self, *words: str, check: bool = True, timeout: float | None = None) -> Any:
        result = await asyncio.to_thread(
            subprocess.run, ["docker", *words], capture_output=True, timeout=timeout
        )
        assert not check or result.returncode == 0, (words, result.stderr[-500:])
        return result

    async def start(self, force_build: bool) -> None:
        self.tag = f"intercode-test:harbor-{uuid.uuid4().hex[:12]}"
        await self.docker("build", "--quiet", "--tag", self.tag, str(self.environment_dir))
        variables = [f"--env={name}={value}" for name, value in self._startup_env().items()]
        words = ["--detach", "--network=none", *variables, "--entrypoint=sleep", self.tag, "3600"]
        self.container = (await self.docker("run", *words)).stdout.decode().strip()
        await self.ensure_dirs(self._mount_targets(writable_only=True))

    async def stop(self, delete: bool) -> None:
        if self.container:
            await self.docker("rm", "--force", self.container)
            await self.docker("image", "rm", "--force", self.tag)
            self.container = ""

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        words = [f"--env={name}={value}" for name, value in (self._merge_env(env) or {}).items()]
        if cwd:
            words.append(f"--workdir={cwd}")
        if (user := self._resolve_user(user)) is not None:
            words.append(f"--user={user}")
        words += [self.container, "bash", "-c", command]
        result = await self.docker("exec", *words, check=False, timeout=timeout_sec)
        out, errors = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        return ExecResult(stdout=out, stderr=errors, return_code=result.returncode)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        folder = str(Path(target_path).parent)
        await self.docker("exec", self.container, "mkdir", "-p", folder)
        await self.docker("cp", str(source_path), f"{self.container}:{target_path}")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self.docker("exec", self.container, "mkdir", "-p", target_dir)
        await self.docker("cp", f"{source_dir}/.", f"{self.container}:{target_dir}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        await self.docker("cp", f"{self.container}:{source_path}", str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        await self.docker("cp", f"{self.container}:{source_dir}/.", str(target_dir))
