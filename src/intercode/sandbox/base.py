"""The sandbox contract: an isolated machine that knows of no task and no reward.

    template (read-only) ──► create ──► exec, read, write, diff, fork ──► reset ──► … ──► close
                                             ▲                              │
                                             └──────────────────────────────┘  nothing of the last episode is left

A backend implements the abstract methods; `check_sandbox` in `intercode.testing` tests them.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from intercode.errors import UsageError
from intercode.types import Change, ExecResult

Session = Literal["persistent", "stateless"]
Program = Literal["bash", "python"]
"""What lives on between the actions of a persistent session."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Times in seconds, sizes in bytes."""

    seconds: float = 10.0
    memory: int = 1024 * MIB
    processes: int = 128
    file_size: int = 256 * MIB
    disk: int = 512 * MIB
    output: int = 8 * MIB
    open_files: int = 512


SETUP_LIMITS = Limits(seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB, processes=512)
SCRIPT = "/dev/shm/setup.sh"
"""Where a setup script lies while it runs: outside of what becomes the layer."""


SETUP_LIMITS = Limits(seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB, processes=512)
SCRIPT = "/dev/shm/setup.sh"
"""Where a setup script lies while it runs: outside of what becomes the layer."""


class Sandbox(ABC):
    """One isolated machine. Not thread-safe: one thread at a time; use one sandbox per worker."""

    limits: Limits
    session: Session

    @abstractmethod
    def exec(
        self, action: str, *, argv: list[str] | None = None, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run `action` in the session's shell, or `argv` as a program of its own in `cwd` (the session's by default).

        `timeout` is in seconds, the limit's by default; at it, what the action started is interrupted, then killed.
        Raises `SandboxDied` if the sandbox was lost, and `UsageError` for text with a NUL character.
        """

    @abstractmethod
    def read(self, path: str, *, limit: int = 8 * MIB) -> bytes:
        """The content of a regular file, as the agent would find it. Raises `FileNotFoundError` or `OSError`."""

    @abstractmethod
    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a regular file, creating its folders."""

    def connect(self, path: str) -> socket.socket:
        """A stream to the program that listens on the Unix socket `path` inside, for as long as the episode lasts.

        Raises `OSError`: nothing there, no socket, nobody listening, or too many waiting. A backend may lack it.
        """
        raise UsageError(f"{type(self).__name__} has no connections to programs inside")

    @abstractmethod
    def diff(self) -> dict[str, Change]:
        """Every path that differs from the template, sorted by path."""

    @abstractmethod
    def reset(self) -> None:
        """Back to the template: no file, process, variable or socket of the past is left."""

    @abstractmethod
    def fork(self) -> Sandbox:
        """A second sandbox in the same state. Raises `ForkError` for what cannot be copied."""

    @abstractmethod
    def close(self) -> None:
        """End everything inside. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
