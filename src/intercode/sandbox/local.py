"""The local backend: one wall a worker, one cell an episode, and a socket straight into the cell.

LocalSandbox ──► Wall (bwrap, keeper)      reset = a new cell for the old one
     └────── socket ──────► cell ──► bash  exec, read, write, diff
fork = a second cell in the same wall, started from a copy of the first one's files and shell state
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Mapping
from typing import Any, Self

from intercode.errors import ForkError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import Limits, Program, Sandbox, Session
from intercode.sandbox.guest import wire
from intercode.sandbox.template import Template
from intercode.sandbox.wall import Wall, Weakened
from intercode.types import Change, ExecResult

_MOMENT, _QUICK = 150e-6, 500e-6
_PAYLOAD = 1 << 30
_GRACE = 15.0
"""Seconds that the cell may take over the action's own limit before it counts as dead."""


class _Shared:
    """A wall with the number of sandboxes that live in it."""

    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self.users = 0


class LocalSandbox(Sandbox):
    """See `Sandbox` for the contract. `environment` are the agent's variables; `weakened` is for tests of protections only.

    With `program="python"` the persistent session is a Python interpreter, and `branch` makes copies of it.
    """

    _number: int
    _sock: socket.socket
    _ready: select.poll
    _patience: float

    def __init__(
        self,
        template: Template,
        *,
        limits: Limits | None = None,
        session: Session = "persistent",
        environment: Mapping[str, str] | None = None,
        weakened: Weakened | None = None,
        program: Program = "bash",
    ) -> None:
        limits = limits or Limits()
        wall = Wall(template, limits, session, environment=environment, weakened=weakened, program=program)
        self._enter(_Shared(wall), limits, session)

    @classmethod
    def inside(cls, wall: Wall, limits: Limits, session: Session = "stateless") -> Self:
        """A sandbox in a wall that was made for it."""
        made = object.__new__(cls)
        made._enter(_Shared(wall), limits, session)
        return made

    def exec(
        self, action: str, *, argv: list[str] | None = None, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        if "\0" in action or any("\0" in word for word in argv or ()):
            raise UsageError("an action cannot hold a NUL character")
        seconds = self.limits.seconds if timeout is None else timeout
        head = {"op": "exec", "seconds": seconds, **({"argv": argv, "cwd": cwd} if argv else {})}
        reply, output = self._ask(head, action.encode("utf-8", "surrogateescape"), wait=seconds)
        return ExecResult(
            output=output.decode("utf-8", "backslashreplace"),
            exit_code=reply["exit_code"],
            timed_out=reply["timed_out"],
            session_lost=reply["lost"],
            overflow=reply["overflow"],
            cwd=reply["cwd"],
        )

    def read(self, path: str, *, limit: int = 8 << 20) -> bytes:
        return self._ask({"op": "read", "path": _absolute(path), "limit": limit})[1]

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._ask({"op": "write", "path": _absolute(path), "mode": mode}, data)

    def connect(self, path: str) -> socket.socket:
        fds: list[int] = []
        self._ask({"op": "connect", "path": _absolute(path)}, fds=fds)
        line = socket.socket(fileno=fds[0])
        line.setblocking(True)
        return line

    def branch(self) -> socket.socket:
        """A line to a forked copy of the session's interpreter. The last branch ends, with all that it started."""
        if self._wall.wall.program != "python":
            raise UsageError("this sandbox's session is a shell, which has no copies; make it with program='python'")
        fds: list[int] = []
        self._ask({"op": "branch"}, fds=fds)
        return socket.socket(fileno=fds[0])

    def end_branch(self) -> None:
        self._ask({"op": "branch", "end": True})

    def beside(self) -> Self:
        """An untouched sandbox in the same wall."""
        other = object.__new__(type(self))
        other._enter(self._wall, self.limits, self.session)
        return other

    def diff(self) -> dict[str, Change]:
        reply, _ = self._ask({"op": "diff"}, wait=120)
        return {path: Change(**change) for path, change in sorted(reply["changes"].items())}

    def reset(self) -> None:
        self._open()
        self._sock.close()
        self._move_in(*self._wall.wall.cell(replaces=self._number))

    def fork(self) -> Self:
        fds: list[int] = []
        reply, state = self._ask({"op": "snapshot"}, wait=60, fds=fds)
        try:
            if reply.get("blockers"):
                raise ForkError("a live copy cannot take along: " + ", ".join(reply["blockers"]) + "; end or close them")
            return self._sibling(reply, state, fds[0])
        finally:
            for fd in fds:
                os.close(fd)

    def close(self) -> None:
        if self._number < 0 or os.getpid() != self._pid:
            return
        self._sock.close()
        number, self._number = self._number, -1
        self._wall.users -= 1
        if self._wall.users == 0:
            self._wall.wall.close()
        elif not self._wall.wall.closed:
            self._wall.wall.end(number)

    def export(self) -> None:
        """Copy the changes into the folder given to the wall (used to make a setup layer)."""
        self._ask({"op": "export"}, wait=600)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _enter(self, shared: _Shared, limits: Limits, session: Session, **how: Any) -> None:
        self._pid, self._wall, self._number = os.getpid(), shared, -1
        self.limits, self.session = limits, session
        shared.users += 1
        try:
            self._move_in(*shared.wall.cell(**how))
        except SandboxError:
            self._wall.users -= 1
            if self._wall.users == 0:
                self._wall.wall.close()
            raise

    def _move_in(self, number: int, sock: socket.socket) -> None:
        self._number, self._sock, self._patience, self._quick = number, sock, 0.0, False
        self._ready = select.poll()
        self._ready.register(sock, select.POLLIN)

    def _sibling(self, seen: dict[str, Any], state: bytes, upper: int) -> Self:
        twin = object.__new__(type(self))
        twin._enter(self._wall, self.limits, self.session, cwd=seen["cwd"], upper=upper)
        if self.session == "persistent":
            done, _ = twin._ask({"op": "restore", "status": seen["status"]}, state)
            if not done["ok"]:
                twin.close()
                raise ForkError(f"the copy could not take on the session's state: {done.get('said', 'its shell ended')}")
        return twin

    def _open(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError("this sandbox belongs to the process that made it; make one in each process after forking")
        if self._number < 0:
            raise UsageError("the sandbox is closed")

    def _ask(
        self, head: dict[str, Any], payload: bytes = b"", wait: float = 0.0, fds: list[int] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """The reply's head and payload; descriptors that come with it are added to `fds`."""
        self._open()
        try:
            self._allow(wait + _GRACE)
            with contextlib.suppress(BrokenPipeError):  # the cell has ended; its last frame says why
                wire.send(self._sock, head, payload)
            reply, content = self._prompt_answer() if head["op"] == "exec" else self._answer(fds)
        except TimeoutError:
            raise SandboxDied(f"the sandbox did not answer {head['op']} in {wait + _GRACE:.0f} s") from None
        except (OSError, EOFError, wire.WireError) as error:
            raise SandboxDied(f"the sandbox died during {head['op']} ({error or 'its end of the line closed'})") from None
        if "perished" in reply:
            raise SandboxDied(f"the sandbox's first process ended before {head['op']} did", by_agent=reply["by_agent"])
        if "errno" in reply and "path" in head:
            raise OSError(reply["errno"], reply["error"], head["path"])
        if "errno" in reply:
            raise SandboxDied(f"the sandbox broke during {head['op']} ({reply['error']})")
        return reply, content

    def _prompt_answer(self) -> tuple[dict[str, Any], bytes]:
        """Stay awake for a moment: most builtins answer in less time than it takes to put a process to sleep and wake it.

        After an action that took longer not again, until one is quick: where others need the processor it would be in the way.
        """
        began = time.perf_counter()
        while self._quick and not self._ready.poll(0) and time.perf_counter() - began < _MOMENT:
            os.sched_yield()
        answer = self._answer(None)
        self._quick = time.perf_counter() - began < _QUICK
        return answer

    def _answer(self, fds: list[int] | None) -> tuple[dict[str, Any], bytes]:
        if fds is None:
            return wire.receive(self._sock, _PAYLOAD)
        reply, content, came = wire.receive_with_fds(self._sock, _PAYLOAD)
        fds += came
        return reply, content

    def _allow(self, seconds: float) -> None:
        if seconds != self._patience:
            self._sock.settimeout(seconds)
            self._patience = seconds


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise UsageError(f"{path!r}: a path in the sandbox is absolute")
    return path
