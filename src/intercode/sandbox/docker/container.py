"""One container: `docker run`, attached, with the guest as its first process.

    Container ── socket ══ docker run ══ daemon ══ stdin, stdout of the guest (pid 1)

The container lives as long as the line: when the socket closes, however this process ends, the guest reads the end of its
input and exits, and the daemon removes the container (`--rm`). Nothing is published and no name is fixed. It has no more
rights than giving files and users within needs, and no network unless one is named.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from intercode.errors import SandboxDied, SandboxError, SandboxUnavailable, UsageError
from intercode.sandbox import seccomp
from intercode.sandbox.base import MIB, Limits, Session
from intercode.sandbox.docker import bundle, leftovers
from intercode.sandbox.docker.daemon import docker, fault, program
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.guest import wire
from intercode.sandbox.wall import rlimits

_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
_GUEST_MEMORY, _GUEST_PROCESSES = 128 * MIB, 8
_START, _DESCRIBE, _END = 60.0, 120.0, 10.0
"""Seconds that these may take."""
_containers: weakref.WeakSet[Container] = weakref.WeakSet()


@dataclass(frozen=True)
class Spec:
    """All that decides what a container is; equal ones share a pool."""

    image: DockerImage
    limits: Limits
    session: Session
    environment: tuple[tuple[str, str], ...]


class Container:
    """Starts at once; `ready` waits until it can be used."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.name = spec, f"intercode-{secrets.token_hex(6)}"
        self._pid, self._ready = os.getpid(), False
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self.sock, inside = socket.socketpair()
        with inside:
            self._attached = subprocess.Popen(
                _command(spec, self.name, bundle.bundle()),
                stdin=inside.fileno(), stdout=inside.fileno(), stderr=self._errors, cwd="/", start_new_session=True,
            )  # fmt: skip
        _containers.add(self)

    def ready(self) -> Container:
        """Raises `UsageError` for an image without a shell, and what docker complains of; then the container is gone."""
        try:
            self.sock.settimeout(_START)
            with contextlib.suppress(BrokenPipeError):
                wire.send(self.sock, _config(self.spec), seccomp.program())
            head, _ = wire.receive(self.sock, 0)
        except (OSError, EOFError, wire.WireError):
            raise self._stillborn() from None
        if not head.get("shell", True):
            self.close()
            raise UsageError(f"the image {self.spec.image.name!r} has no shell: put bash (or sh) into it")
        return self

    def ask(self, head: dict[str, Any]) -> dict[str, Any]:
        try:
            self.sock.settimeout(_DESCRIBE)
            wire.send(self.sock, head)
            return wire.receive(self.sock, 0)[0]
        except (OSError, EOFError, wire.WireError) as error:
            raise SandboxDied(f"a container died during {head['op']} ({error})") from None

    @property
    def alive(self) -> bool:
        """While nothing was asked, the line is silent; only its end can be heard."""
        ready = select.poll()
        ready.register(self.sock, select.POLLIN)
        return not ready.poll(0)

    def close(self, *, wait: bool = True) -> None:
        if os.getpid() != self._pid:
            return
        self.sock.close()
        if wait:
            self._bury()
        else:
            threading.Thread(target=self._bury, name="intercode-undertaker", daemon=True).start()

    def _bury(self) -> None:
        try:
            self._attached.wait(_END)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(SandboxError):
                docker("rm", "--force", self.name)
            self._attached.kill()
            self._attached.wait()
        self._errors.close()

    def _stillborn(self) -> Exception:
        try:
            self._attached.wait(1)
        except subprocess.TimeoutExpired:
            self.close()
            return SandboxUnavailable(f"a container of {self.spec.image.name!r} was not ready in {_START:.0f} s")
        self._errors.seek(0)
        said = self._errors.read(8192).decode(errors="replace")
        self.close()
        return fault(said, self.spec.image.name)


def _command(spec: Spec, name: str, mounted: Path) -> list[str]:
    image, limits = spec.image, spec.limits
    memory = str(limits.memory + _GUEST_MEMORY)
    argv = [program(), "run", "--rm", "--interactive", "--sig-proxy=false", "--pull", "never", "--log-driver", "none"]
    argv += ["--name", name, "--label", leftovers.label(), "--hostname", "intercode", "--network", image.network]
    argv += ["--cap-drop", "ALL", *(word for right in _RIGHTS for word in ("--cap-add", right))]
    argv += ["--security-opt", "no-new-privileges", "--user", "0", "--workdir", "/"]
    argv += ["--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes + _GUEST_PROCESSES)]
    argv += ["--cpus", str(image.cpus)] if image.cpus else []
    argv += ["--runtime", image.runtime] if image.runtime else []
    argv += ["--mount", f"type=bind,source={mounted},target={bundle.PLACE},readonly"]
    return [*argv, "--entrypoint", f"{bundle.PLACE}/loader", image.id, *bundle.COMMAND]


def _config(spec: Spec) -> dict[str, Any]:
    limits = spec.limits
    return {
        "cwd": spec.image.cwd,
        "env": dict(spec.environment),
        "persistent": spec.session == "persistent",
        "memory": limits.memory,
        "processes": limits.processes,
        "disk": limits.disk,
        "output": limits.output,
        "rlimits": {name: value for name, value in rlimits(limits).items() if name != "NPROC"},
        "payload": 1 << 30,
    }


def _after_fork() -> None:
    """In a forked child: let go of the parent's containers, so that they end with the parent."""
    for container in list(_containers):
        container.sock.close()


os.register_at_fork(after_in_child=_after_fork)
