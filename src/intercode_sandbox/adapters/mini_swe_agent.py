"""Our sandbox as an environment of mini-swe-agent.

    environment:
      environment_class: intercode_sandbox.adapters.mini_swe_agent.IntercodeEnvironment
      image: python.Dockerfile  # as for `intercode eval --image`; otherwise this machine's /usr
      cwd: /srv

Each command is a new shell, as in mini-swe-agent's own environments. There is no network.
"""

from __future__ import annotations

import platform
from typing import Any, Literal

from minisweagent.environments.local import LocalEnvironment
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel

import intercode_sandbox

# Run a program whose errors go where its output goes, as a terminal shows them.
_BOTH = 'exec 2>&1; exec "$@"'


class IntercodeEnvironmentConfig(BaseModel):
    """Sizes are in MiB, and times in seconds."""

    image: str | None = None
    provider: Literal["local", "docker", "pod"] | None = None
    cwd: str = "/"
    env: dict[str, str] = {}
    timeout: int = 30
    interpreter: list[str] = ["bash", "-c"]
    root: bool = False
    memory: int = 4096
    disk: int = 2048
    processes: int = 512


class IntercodeEnvironment(LocalEnvironment):
    def __init__(self, *, config_class: type = IntercodeEnvironmentConfig, **config: Any) -> None:
        super().__init__(config_class=config_class, **config)
        chosen = self.config
        self._box = intercode_sandbox.open_sandbox(
            chosen.image,
            provider=chosen.provider,
            environment=chosen.env,
            limits=intercode_sandbox.Limits().changed_by(chosen.model_dump()),
            root=chosen.root,
        )

    def execute(
        self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None
    ) -> dict[str, Any]:
        """Run a command, and return its output, `returncode` and `exception_info`. Raises
        mini-swe-agent's `Submitted` when the command prints its mark, and `SandboxError` if the
        machine fails."""
        command = action.get("command", "")
        seconds = timeout or self.config.timeout
        program = ["sh", "-c", _BOTH, "sh", *self.config.interpreter, command]
        result = self._box.run(program, cwd=cwd or self.config.cwd, timeout=seconds)
        output: dict[str, Any] = {
            "output": result.stdout.decode("utf-8", "replace"),
            "returncode": result.exit_code,
            "exception_info": "",
        }
        if result.timed_out:
            why = f"Command {command!r} timed out after {seconds} seconds"
            output |= {
                "returncode": -1,
                "exception_info": f"An error occurred while executing the command: {why}",
                "extra": {"exception_type": "TimeoutExpired", "exception": why},
            }
        self._check_finished(output)
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Return the variables of prompts, without this machine's environment variables."""
        machine = platform.uname()._asdict()
        return dict(recursive_merge(self.config.model_dump(), machine, kwargs))

    def cleanup(self) -> None:
        """Close the sandbox."""
        self._box.close()

    def __del__(self) -> None:
        if hasattr(self, "_box"):
            self.cleanup()
