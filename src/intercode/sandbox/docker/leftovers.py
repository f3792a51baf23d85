"""Containers whose process is gone. Each carries a label that says whose it is; only those of dead owners are removed.

    intercode.owner = BOOT/NAMESPACE/PID/START      the machine's start, the pid namespace, the process and its start time

An owner of another machine or namespace cannot be judged from here and counts as alive. Most containers need none of this: they
end with the line to their process. Left over are those that could not, such as paused ones.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from intercode.errors import SandboxError
from intercode.sandbox.docker.daemon import docker

_KEY = "intercode.owner"
_GOING = re.compile(r"already in progress|No such container", re.I)
_FORMAT = f'{{{{.ID}}}} {{{{.Label "{_KEY}"}}}}'


def label() -> str:
    return f"{_KEY}={_owner(os.getpid())}"


def find() -> list[str]:
    """The ids of containers whose owner is dead."""
    listed = docker("ps", "--all", "--no-trunc", "--filter", f"label={_KEY}", "--format", _FORMAT)
    rows = (line.split(maxsplit=1) for line in listed.splitlines())
    return [row[0] for row in rows if len(row) == 2 and _dead(row[1])]


def clear() -> list[str]:
    """Remove them; the ids of those that were there."""
    found = find()
    for container in found:
        try:
            docker("rm", "--force", "--volumes", container)
        except SandboxError as error:
            if not _GOING.search(str(error)):
                raise
    return found


@cache
def clear_once() -> None:
    """At the first start of a container in this process."""
    clear()


def _owner(pid: int) -> str:
    start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{_here()}/{pid}/{start}"


def _here() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def _dead(owner: str) -> bool:
    here, _, process = owner.rpartition("/")[0].rpartition("/")
    if here != _here() or not process.isdigit():
        return False
    try:
        return _owner(int(process)) != owner
    except OSError:
        return True
