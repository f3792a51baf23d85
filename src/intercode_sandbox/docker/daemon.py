"""The docker command, the errors that its messages mean, and containers whose owner is gone.

Each container carries a label that names its owner; only containers of dead owners are removed.

    intercode.owner = BOOT/NAMESPACE/PID/START      the machine's start, the pid namespace, the
                                                    process and its start time

An owner on another machine or in another namespace cannot be judged from here and counts as alive.
Most containers end when the socket to their owner closes. Those that cannot, such as paused ones,
are left over.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from intercode_sandbox.errors import IntercodeError, SandboxError, SandboxUnavailable, UsageError

# Messages of docker, and the errors that they mean, if neither the image nor the caller is at
# fault.
_MACHINE = (
    (
        r"permission denied.*(?:docker|podman).*sock|connect: permission denied",
        SandboxUnavailable,
        "this user may not use the docker daemon; run: sudo usermod -aG docker $USER",
    ),
    (
        r"Cannot connect to the Docker daemon|error during connect|dial unix|daemon is not running"
        r"|invalid bind address",
        SandboxUnavailable,
        "the docker daemon is {down}\n{end}",
    ),
    (
        r"no space left on device",
        SandboxError,
        "docker's disk is full; free some space with: docker system prune\n{end}",
    ),
)
_CALLER = (
    (
        r"(?:unknown or invalid runtime name:|Unknown runtime specified) (\S+?)\.*(?:\s|$)",
        UsageError,
        "docker knows no runtime {name!r}; see: docker info",
    ),
    (
        r"network (\S+) not found",
        UsageError,
        "docker knows no network {name!r}; see: docker network ls",
    ),
    (
        r"No such image|Unable to find image|pull access denied|invalid reference format"
        r"|no such object",
        UsageError,
        "docker has no image {image!r}; get it with: "
        "docker pull {image}, or build one: --image DIR/Dockerfile",
    ),
)
_LABEL = "intercode.owner"
_REMOVED = re.compile(r"already in progress|No such container", re.I)


def docker(*words: str, stdin: IO[bytes] | None = None, seconds: float = 120) -> str:
    """Return the output of the docker command. Raises the error that its message means."""
    try:
        call = subprocess.run(
            [program_path(), *words],
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SandboxUnavailable(
            f"the docker daemon did not answer `{words[0]}` in {seconds:.0f} s; is it healthy?"
        ) from None
    if call.returncode:
        raise error_of(call.stderr.decode(errors="replace"), words[-1])
    return call.stdout.decode(errors="replace").strip()


def program_path() -> str:
    path = shutil.which("docker")
    if path is None:
        raise SandboxUnavailable(
            "the docker command is not installed; run: "
            "apt-get install docker.io (for podman: also systemctl --user start podman.socket and "
            "DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock)"
        )
    return path


def error_of(message: str, image: str) -> IntercodeError:
    """Return the error that docker's message about `image` means."""
    error = _find_error((*_MACHINE, *_CALLER), message, image)
    return error or SandboxError(f"docker failed:\n{message.strip()[-600:]}")


def machine_error(message: str) -> IntercodeError | None:
    """Return the error if neither the image nor the caller caused it."""
    return _find_error(_MACHINE, message)


def _find_error(
    table: Iterable[tuple[str, type[IntercodeError], str]], message: str, image: str = ""
) -> IntercodeError | None:
    down = "down; start it with: systemctl start docker (or dockerd &)"
    host = os.environ.get("DOCKER_HOST")
    if host:
        down = f"down, or not at DOCKER_HOST={host}; correct or unset that, or start it there"
    for pattern, kind, text in table:
        match = re.search(pattern, message, re.I)
        if match:
            name = "".join(match.groups())
            end = message.strip()[-600:]
            return kind(text.format(down=down, end=end, name=name, image=image))
    return None


def owner_label() -> str:
    return f"{_LABEL}={_owner(os.getpid())}"


def find_leftovers() -> list[str]:
    """Return the ids of containers whose owner is dead."""
    columns = f'{{{{.ID}}}} {{{{.Label "{_LABEL}"}}}}'
    rows = docker("ps", "--all", "--no-trunc", "--filter", f"label={_LABEL}", "--format", columns)
    containers = []
    for row in rows.splitlines():
        container, _, owner = row.partition(" ")
        if _is_dead(owner):
            containers.append(container)
    return containers


def remove_leftovers() -> list[str]:
    """Remove the containers whose owner is dead; return their ids."""
    containers = find_leftovers()
    for container in containers:
        try:
            docker("rm", "--force", "--volumes", container)
        except SandboxError as error:
            if not _REMOVED.search(str(error)):
                raise
    return containers


remove_leftovers_once = functools.cache(remove_leftovers)
"""Removes leftovers at the first start of a container in this process."""


def _owner(pid: int) -> str:
    start = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    return f"{_machine()}/{pid}/{start}"


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def _is_dead(owner: str) -> bool:
    machine, _, pid = owner.rpartition("/")[0].rpartition("/")
    if machine != _machine() or not pid.isdigit():
        return False
    try:
        return _owner(int(pid)) != owner
    except OSError:
        return True
