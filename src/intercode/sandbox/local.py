"""The local backend: one wall a worker, one cell an episode, and a socket straight into the cell.

LocalSandbox ──► Wall (bwrap, keeper)      reset = a new cell for the old one
     └────── socket ──────► cell ──► bash  exec, read, write, diff
fork = a second cell in the same wall, started from a copy of the first one's files and shell state
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from intercode.errors import ForkError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import Limits, Program, Session
from intercode.sandbox.line import GuestSandbox, absolute, changes, said, unhindered
from intercode.sandbox.template import Template
from intercode.sandbox.wall import Bubblewrap, Wall, Weakened
from intercode.types import Change


class Shared:
    """A wall with the number of sandboxes that live in it."""

    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self.users = 0


class CellSandbox(GuestSandbox):
    """A sandbox in a cell, behind whichever wall."""

    _number: int

    @classmethod
    def inside(cls, wall: Wall, limits: Limits, session: Session = "stateless") -> Self:
        """A sandbox in a wall that was made for it."""
        made = object.__new__(cls)
        made._enter(Shared(wall), limits, session)
        return made

    def connect(self, path: str) -> socket.socket:
        line = self._lent({"op": "connect", "path": absolute(path)})
        line.setblocking(True)
        return line

    def branch(self) -> socket.socket:
        """A line to a forked copy of the session's interpreter. The last branch ends, with all that it started."""
        if self._wall.wall.program != "python":
            raise UsageError("this sandbox's session is a shell, which has no copies; make it with program='python'")
        return self._lent({"op": "branch"})

    def end_branch(self) -> None:
        self._ask({"op": "branch", "end": True})

    def beside(self) -> Self:
        """An untouched sandbox in the same wall."""
        other = object.__new__(type(self))
        other._enter(self._wall, self.limits, self.session)
        return other

    def diff(self) -> dict[str, Change]:
        reply, _ = self._ask({"op": "diff"}, wait=120)
        return changes(reply)

    def reset(self) -> None:
        self._open()
        self._sock.close()
        self._number, sock = self._wall.wall.cell(replaces=self._number)
        self._speak(sock)

    def fork(self) -> Self:
        if self._wall.wall.program == "python":
            raise ForkError("an interpreter cannot be copied live; fork its environment, which executes the episode again")
        fds: list[int] = []
        reply, state = self._ask({"op": "snapshot"}, wait=60, fds=fds)
        try:
            unhindered(reply, "a live copy cannot take along")
            if len(fds) != 1:
                raise SandboxDied("the sandbox did not hand out its files")
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
            with contextlib.suppress(SandboxDied):  # the wall fell, and the cell with it
                self._wall.wall.end(number)

    def export(self, made: Path) -> None:
        """Copy the changes into the folder given to the wall, `made` (used to make a layer). Raises `OSError` if it is full."""
        self._ask({"op": "export", "path": str(made)}, wait=600)

    # -- inside -----------------------------------------------------------------------------------------------------

    @property
    def _closed(self) -> bool:
        return self._number < 0

    def _enter(self, shared: Shared, limits: Limits, session: Session, **how: Any) -> None:
        self._pid, self._wall, self._number = os.getpid(), shared, -1
        self.limits, self.session = limits, session
        shared.users += 1
        try:
            self._number, sock = shared.wall.cell(**how)
            self._speak(sock)
        except SandboxError:
            self._wall.users -= 1
            if self._wall.users == 0:
                self._wall.wall.close()
            raise

    def _lent(self, head: dict[str, Any]) -> socket.socket:
        """The socket that the guest answers with."""
        fds: list[int] = []
        self._ask(head, fds=fds)
        with contextlib.ExitStack() as unused:
            for fd in fds:
                unused.callback(os.close, fd)
            if len(fds) == 1 and stat.S_ISSOCK(os.fstat(fds[0]).st_mode):
                unused.pop_all()
                return socket.socket(fileno=fds[0])
        raise SandboxDied(f"the sandbox answered {head['op']} without a line")

    def _sibling(self, seen: dict[str, Any], state: bytes, upper: int) -> Self:
        twin = object.__new__(type(self))
        twin._enter(self._wall, self.limits, self.session, cwd=said(seen, "cwd", str), upper=upper)
        if self.session == "persistent":
            try:
                done, _ = twin._ask({"op": "restore", "status": said(seen, "status", int)}, state)
                if not said(done, "ok", bool):
                    raise ForkError("the copy could not take on the session's state: its shell ended")
            except BaseException:
                twin.close()
                raise
        return twin


class LocalSandbox(CellSandbox):
    """See `Sandbox` for the contract. `environment` are the agent's variables; `weakened` is for tests of protections only.

    With `program="python"` the persistent session is a Python interpreter, and `branch` makes copies of it.
    """

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
        check_program(program, session)
        limits = limits or Limits()
        wall = Bubblewrap(template, limits, session, environment=environment, weakened=weakened, program=program)
        self._enter(Shared(wall), limits, session)


def check_program(program: Program, session: Session) -> None:
    if program == "python" and session != "persistent":
        raise UsageError("an interpreter is a persistent session: program='python' goes with session='persistent'")
