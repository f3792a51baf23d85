"""DockerWall: a container as the wall around a worker's episodes, with the same keeper and cells in it as behind bubblewrap.

    DockerWall ── docker run, attached ── daemon ── container of any image
        └── Unix socket, mounted into it ═══════════ keeper, pid 1 in there          guest/supervisor.py
                                                       └ cell, one per episode: an overlay above the image

The container lives as long as the line: when the socket closes, however this process ends, the keeper exits, and the daemon
removes the container (`--rm`). No port is published. The container has CAP_SYS_ADMIN while the keeper builds its rooms; no
process of the agent's is ever in the user namespace where that counts.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from intercode.errors import IntercodeError, SandboxDied, SandboxError, SandboxUnavailable, UsageError
from intercode.sandbox.base import MIB, Limits, Program, Session
from intercode.sandbox.docker import bundle, leftovers
from intercode.sandbox.docker.daemon import docker, fault, machine_fault, program
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.guest import wire
from intercode.sandbox.wall import Wall

Cell = tuple[int, socket.socket]
_START, _END = 60.0, 10.0
"""Seconds that a container may take to start, and to end."""
_SANDBOXES = 4
"""The sandboxes in one wall, copies among them, that may use all of their limits at once."""
_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_ADMIN", "SETFCAP")
_UNCONFINED = ("seccomp=unconfined", "apparmor=unconfined")
_GUEST_MEMORY, _GUEST_PROCESSES = 128 * MIB, 8


@dataclass(frozen=True)
class Spec:
    """All that decides what a container is; equal ones share a pool."""

    image: DockerImage
    limits: Limits
    session: Session
    environment: tuple[tuple[str, str], ...]
    program: Program


class DockerWall(Wall):
    """Starts at once, and waits until the line stands; `ready` waits for the first cell. Closed, it calls `leave`."""

    leave: Callable[[], None] | None = None
    _first: Cell | None = None

    def __init__(self, spec: Spec) -> None:
        self.spec, self.cwd, self._stands = spec, spec.image.cwd, False
        self.name = f"intercode-{secrets.token_hex(6)}"
        super().__init__(spec.program)

    def ready(self) -> Self:
        """Raises `UsageError` for an image without a shell, and `SandboxUnavailable`; then the container is gone."""
        try:
            plan = (2, (), (), self.spec.limits.disk, True)
            own_network = self.spec.image.network == "none"
            self._introduce(plan, self.spec.limits, self.spec.session, dict(self.spec.environment), own_network=own_network)
            self._control.settimeout(_START)
            head, _ = wire.receive(self._control, 0)
            self._control.settimeout(None)
        except (OSError, EOFError, wire.WireError):
            raise self._broken() from None
        if not head.get("ready"):
            self.close()
            if "failed" in head:
                raise _no_namespaces(head["failed"])
            raise UsageError(f"the image {self.spec.image.name!r} has no shell: put bash (or sh) into it")
        self._stands = True
        try:
            self._first = super().cell()
        except SandboxUnavailable as error:
            self.close()
            raise _no_namespaces(str(error)) from None
        return self

    def cell(self, *, cwd: str | None = None, replaces: int | None = None, upper: int | None = None) -> Cell:
        """The one that was made ahead, or a new one in place of another."""
        first, self._first = self._first, None
        return first or super().cell(cwd=cwd, replaces=replaces, upper=upper)

    @property
    def alive(self) -> bool:
        ready = select.poll()
        ready.register(self._control, select.POLLIN)
        return not ready.poll(0)  # while nothing was asked, only the end of a line can be heard

    def close(self) -> None:
        if self._first:
            self._first[1].close()
        super().close()
        leave, self.leave = self.leave, None
        if leave and os.getpid() == self._pid:
            leave()

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        with tempfile.TemporaryDirectory(prefix="intercode-line-") as folder, socket.socket(socket.AF_UNIX) as door:
            path = Path(folder) / "line"
            door.bind(str(path))
            path.chmod(0o666)  # the folder is closed to others
            door.listen(1)
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(
                self._command(path), stdin=nothing, stdout=nothing, stderr=self._errors, cwd="/", start_new_session=True
            )
            return self._accept(door, process), process

    def _command(self, line: Path) -> list[str]:
        """Return the `docker run` with the keeper as first process."""
        image, limits = self.spec.image, self.spec.limits
        memory = str(_SANDBOXES * limits.memory + _GUEST_MEMORY)
        processes = str(_SANDBOXES * (limits.processes + _GUEST_PROCESSES))
        argv = [program(), "run", "--rm", "--sig-proxy=false", "--pull", "never", "--log-driver", "none"]
        argv += ["--mount", f"type=bind,source={line},target={wire.LINE}"]
        argv += ["--mount", f"type=bind,source={bundle.bundle()},target={wire.BUNDLE},readonly"]
        argv += ["--name", self.name, "--label", leftovers.label(), "--hostname", "intercode", "--network", image.network]
        argv += ["--cap-drop", "ALL", *(word for right in _RIGHTS for word in ("--cap-add", right))]
        argv += [word for option in _UNCONFINED for word in ("--security-opt", option)]
        argv += ["--security-opt", "no-new-privileges", "--user", "0", "--workdir", "/", "--no-healthcheck"]
        argv += ["--tmpfs", "/sys/fs/cgroup:ro"]  # else it may be one that root can write to, and no reset looks at
        argv += ["--memory", memory, "--memory-swap", memory, "--pids-limit", processes]
        argv += ["--cpus", str(image.cpus)] if image.cpus else []
        argv += ["--runtime", image.runtime] if image.runtime else []
        return [*argv, "--entrypoint", f"{wire.BUNDLE}/loader", image.id, *bundle.ARGUMENTS]

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
        return _no_namespaces(str(found)) if type(found) is SandboxError and not machine_fault(words) else found


def _no_namespaces(why: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"no namespaces can be made in containers here: {why}; let the daemon and its runtime grant --cap-add SYS_ADMIN "
        "--security-opt seccomp=unconfined, or use --sandbox local"
    )
