"""The host's ends of a command: feeds its input, and collects its output and its end.

    stdin ──► pump ──► command
    the first `limit` bytes of stdout and stderr ◄── pump ◄── command
    status, limits hit ◄── pump ◄── "137 memory" ◄── episode server

The command ends with its first process. What others still hold open is not waited for.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from intercode_sandbox.errors import SandboxDied
from intercode_sandbox.guest.limit import Limit
from intercode_sandbox.results import Completed

# Seconds between two calls of `ends`.
_LOOK = 0.1
# The most bytes that a pipe of an ordinary user can hold.
_PIPE = 1 << 20


class Streams(AbstractContextManager["Streams"]):
    """`fds` are those of `guest/shell.py`'s `Command.ends`; they are closed at the end."""

    def __init__(self, fds: list[int], stdin: bytes, limit: int) -> None:
        self._fds, self._limit, self._unsent = fds, limit, memoryview(stdin)
        stdout, stderr, self._reports, *feeders = fds
        self._output = {stdout: bytearray(), stderr: bytearray()}
        self._report = b""
        self._limits = set[str]()
        self._poll = select.poll()
        for fd in fds[:3]:
            self._poll.register(fd, select.POLLIN)
        for fd in feeders:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLOUT)

    def __exit__(self, *failure: object) -> None:
        for fd in self._fds:
            os.close(fd)

    def pump(self, seconds: float, ends: Callable[[], bool] | None = None) -> bool:
        """Return True when the command has ended, or False when its time is up or `ends` says so.
        Raises `SandboxDied` if the episode server has ended."""
        limit = Limit(seconds)
        while limit.left() > 0 and not (ends and ends()):
            wait = limit.wait()
            if ends:
                wait = min(wait, _LOOK)
            ready = [fd for fd, _ in self._poll.poll(max(wait, 0.0) * 1000)]
            for fd in ready:
                if fd in self._output:
                    self._read(fd)
                elif fd != self._reports:
                    self._feed(fd)
            if self._reports in ready:
                self._report = os.read(self._reports, 4096)
                if not self._report:
                    raise SandboxDied("the sandbox died during run")
                for fd in self._output:
                    self._read(fd)
                return True
        return False

    def completed(self, *, timed_out: bool) -> Completed:
        status = None
        words = self._report.decode().split()
        if words:
            status = int(words[0])
        limits = tuple(sorted(self._limits.union(words[1:])))
        stdout, stderr = map(bytes, self._output.values())
        return Completed(status, stdout, stderr, timed_out, limits)

    def _read(self, fd: int) -> None:
        """Read what is there now."""
        try:
            chunk = os.read(fd, _PIPE)
        except BlockingIOError:
            return
        if not chunk:
            with suppress(KeyError):
                self._poll.unregister(fd)
        room = self._limit - len(self._output[fd])
        self._output[fd] += chunk[:room]
        if len(chunk) > room:
            self._limits.add("output")

    def _feed(self, fd: int) -> None:
        """Write as much input as the pipe takes, and close it at the end, or if nobody reads."""
        try:
            self._unsent = self._unsent[os.write(fd, self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._poll.unregister(fd)
            self._fds.remove(fd)
            os.close(fd)
