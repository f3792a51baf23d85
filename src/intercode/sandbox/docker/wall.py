"""DockerWall: a container as the wall around a worker's episodes, with the same keeper and cells in it as behind bubblewrap.

    DockerWall ── docker run, attached ── daemon ── container of any image
        └── Unix socket, mounted into it ═══════════ keeper, pid 1 in there          guest/container.py, keeper.py
                                                       └ cell, one per episode: an overlay above the image

The container has CAP_SYS_ADMIN for as long as the keeper builds its rooms; no process of the agent's is ever in the user
namespace where that counts.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from intercode.errors import IntercodeError, SandboxDied, SandboxError, SandboxUnavailable
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.container import Spec, command, new_name, no_shell, silent
from intercode.sandbox.docker.daemon import docker, fault, machine_fault
from intercode.sandbox.docker.pool import Pool
from intercode.sandbox.guest import places, wire
from intercode.sandbox.wall import Wall

Cell = tuple[int, socket.socket]
_START, _END = 60.0, 10.0
"""Seconds that a container may take to start, and to end."""
_SANDBOXES = 4
"""The sandboxes in one wall, copies among them, that may use all of their limits at once."""
_RIGHTS = ("SYS_ADMIN", "SETFCAP")
_UNCONFINED = ("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined")


class NoRooms(SandboxError):
    """This container cannot be made into a wall with rooms."""


class DockerWall(Wall):
    """Starts at once, and waits until the line stands; `ready` waits for the first cell. Closed, it leaves `pool`."""

    pool: Pool[DockerWall] | None = None
    _first: Cell | None = None

    def __init__(self, spec: Spec) -> None:
        self.spec, self.name, self.cwd, self._stands = spec, new_name(), spec.image.cwd, False
        super().__init__(spec.program)

    def ready(self) -> Self:
        """Raises `UsageError` for an image without a shell, and `NoRooms`; then the container is gone."""
        try:
            plan = (2, (), (), self.spec.limits.disk, True)
            self._introduce(plan, self.spec.limits, self.spec.session, dict(self.spec.environment))
            self._control.settimeout(_START)
            head, _ = wire.receive(self._control, 0)
            self._control.settimeout(None)
        except (OSError, EOFError, wire.WireError):
            raise self._broken() from None
        if not head.get("ready"):
            self.close()
            raise _no_rooms(head["failed"]) if "failed" in head else no_shell(self.spec)
        self._stands = True
        try:
            self._first = super().cell()
        except SandboxUnavailable as error:
            self.close()
            raise _no_rooms(str(error)) from None
        return self

    def cell(self, *, cwd: str | None = None, replaces: int | None = None, upper: int | None = None) -> Cell:
        """The one that was made ahead, or a new one in place of another."""
        first, self._first = self._first, None
        return first or super().cell(cwd=cwd, replaces=replaces, upper=upper)

    @property
    def alive(self) -> bool:
        return silent(self._control)

    def close(self) -> None:
        if self._first:
            self._first[1].close()
        super().close()
        pool, self.pool = self.pool, None
        if pool and os.getpid() == self._pid:
            pool.leave()

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        with tempfile.TemporaryDirectory(prefix=leftovers.line_prefix()) as folder, socket.socket(socket.AF_UNIX) as door:
            path = Path(folder) / "line"
            door.bind(str(path))
            path.chmod(0o666)  # the folder is closed to others
            door.listen(1)
            line = ("--mount", f"type=bind,source={path},target={places.LINE}")
            argv = command(self.spec, self.name, "container", (*line, *_UNCONFINED), more_rights=_RIGHTS, sandboxes=_SANDBOXES)
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(
                argv, stdin=nothing, stdout=nothing, stderr=self._errors, cwd="/", start_new_session=True
            )
            return self._accept(door, process), process

    def _accept(self, door: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
        end, ready = os.pidfd_open(process.pid), select.poll()
        try:
            for each in (end, door.fileno()):
                ready.register(each, select.POLLIN)
            heard = dict(ready.poll(_START * 1000))
        finally:
            os.close(end)
        if door.fileno() in heard:
            return door.accept()[0]
        self._process = process
        if not heard:
            self._kill()
        process.wait()
        raise self._stillborn()

    def _kill(self) -> None:
        with contextlib.suppress(SandboxError):
            docker("rm", "--force", self.name)
        self._process.kill()

    def _broken(self) -> SandboxUnavailable | SandboxDied:
        self._control.close()
        try:
            self._process.wait(timeout=_END)
        except subprocess.TimeoutExpired:
            self._kill()
        if not self._stands:
            raise self._stillborn()
        return SandboxDied(f"the container {self.name} ended")

    def _stillborn(self) -> IntercodeError:
        words = self.last_words()
        self._errors.close()
        found = fault(words, self.spec.image.name)
        return _no_rooms(str(found)) if type(found) is SandboxError and not machine_fault(words) else found


def _no_rooms(why: str) -> NoRooms:
    return NoRooms(f"containers here cannot be erased from within: {why}; for Python, use --sandbox local")
