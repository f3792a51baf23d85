"""An environment for Harbor's own runner (0.26) that needs `docker` alone, without compose, and
gives no network. Harbor's class for another program of containers does the work: that program's
command line is docker's, but for what `container` in this folder translates.

    harbor run --path TASKS --agent oracle --env plain_docker:PlainDocker

with this folder in PYTHONPATH and `programs` in PATH.
"""

from __future__ import annotations

from typing import Any

from harbor.environments.apple_container import AppleContainerEnvironment
from harbor.environments.base import ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities


class PlainDocker(AppleContainerEnvironment):
    @classmethod
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        """Any machine with docker will do."""

    @staticmethod
    def type() -> str:  # type: ignore[override]
        return "plain-docker"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            mounted=True, disable_internet=True, dynamic_network_policy=True
        )

    async def _apply_network_policy(self, network_policy: object) -> None:
        """There is no network at all."""

    async def exec(
        self, *arguments: Any, user: str | int | None = None, **options: Any
    ) -> ExecResult:
        if isinstance(user, int):
            user = str(user)  # docker has no --uid
        return await super().exec(*arguments, user=user, **options)
