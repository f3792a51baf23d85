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
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Self

from intercode.errors import IntercodeError, SandboxDied, SandboxError, SandboxUnavailable, UsageError
from intercode.sandbox import seccomp
from intercode.sandbox.base import MIB, Limits, Program, Session
from intercode.sandbox.docker import bundle, leftovers
from intercode.sandbox.docker.daemon import docker, fault, program
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.guest import places, wire
from intercode.sandbox.wall import ENVIRONMENT, rlimits

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
    program: Program = "bash"


def make_spec(
    image: DockerImage,
    limits: Limits | None,
    session: Session,
    environment: Mapping[str, str] | None,
    program: Program = "bash",
) -> Spec:
    variables = {**ENVIRONMENT, **dict(image.environment)} if environment is None else environment
    return Spec(image, limits or Limits(), session, tuple(sorted(variables.items())), program)


class Container:
    """Starts at once; `ready` waits until it can be used."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.name = spec, new_name()
        self._pid, self._ready = os.getpid(), False
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self.sock, inside = socket.socketpair()
        with inside:
            self._attached = subprocess.Popen(
                command(spec, self.name, "lone", ("--interactive",)),
                stdin=inside.fileno(), stdout=inside.fileno(), stderr=self._errors, cwd="/", start_new_session=True,
            )  # fmt: skip
        _containers.add(self)

    def ready(self) -> Self:
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
            raise no_shell(self.spec)
        return self

    def ask(self, head: dict[str, Any]) -> dict[str, Any]:
        try:
            self.sock.settimeout(_DESCRIBE)
            wire.send(self.sock, head)
            return wire.receive(self.sock, 0)[0]
        except (OSError, EOFError, wire.WireError) as error:
            raise SandboxDied(f"a container died during {head['op']} ({str(error) or 'its end of the line closed'})") from None

    @property
    def alive(self) -> bool:
        return silent(self.sock)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        self.sock.close()
        try:
            self._attached.wait(_END)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(SandboxError):
                docker("rm", "--force", self.name)
            self._attached.kill()
            self._attached.wait()
        self._errors.close()

    def _stillborn(self) -> IntercodeError:
        try:
            self._attached.wait(_END)
        except subprocess.TimeoutExpired:
            self.close()
            return SandboxUnavailable(f"a container of {self.spec.image.name!r} was not ready in {_START:.0f} s")
        self._errors.seek(0)
        said = self._errors.read(8192).decode(errors="replace")
        self.close()
        return fault(said, self.spec.image.name)


def silent(line: socket.socket) -> bool:
    """While nothing was asked, a line is silent; only its end can be heard."""
    ready = select.poll()
    ready.register(line, select.POLLIN)
    return not ready.poll(0)


def new_name() -> str:
    return f"intercode-{secrets.token_hex(6)}"


def no_shell(spec: Spec) -> UsageError:
    return UsageError(f"the image {spec.image.name!r} has no shell: put bash (or sh) into it")


def command(
    spec: Spec, name: str, guest: str, options: Sequence[str], *, more_rights: Sequence[str] = (), sandboxes: int = 1
) -> list[str]:
    """`docker run` with the guest's module `guest` as first process, and bounds for so many sandboxes."""
    image, limits = spec.image, spec.limits
    memory = str(sandboxes * limits.memory + _GUEST_MEMORY)
    processes = str(sandboxes * (limits.processes + _GUEST_PROCESSES))
    argv = [program(), "run", "--rm", "--sig-proxy=false", "--pull", "never", "--log-driver", "none", *options]
    argv += ["--name", name, "--label", leftovers.label(), "--hostname", "intercode", "--network", image.network]
    argv += ["--cap-drop", "ALL", *(word for right in (*_RIGHTS, *more_rights) for word in ("--cap-add", right))]
    argv += ["--security-opt", "no-new-privileges", "--user", "0", "--workdir", "/", "--no-healthcheck"]
    argv += ["--tmpfs", "/sys/fs/cgroup:ro"]  # else it may be one that root can write to, and no reset looks at
    argv += ["--memory", memory, "--memory-swap", memory, "--pids-limit", processes]
    argv += ["--cpus", str(image.cpus)] if image.cpus else []
    argv += ["--runtime", image.runtime] if image.runtime else []
    argv += ["--mount", f"type=bind,source={bundle.bundle()},target={places.BUNDLE},readonly"]
    return [*argv, "--entrypoint", f"{places.BUNDLE}/loader", image.id, *bundle.arguments(guest)]


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
