"""How many more processes the sandboxes' user may start on this machine, by `ulimit -u` and the
pids limits of control groups.

A program that cannot start gets the same error from the kernel whether the machine is full or the
agent has used up its own limit. So each episode starts and is scored only while there is room:
otherwise the machine would decide a reward.
"""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from intercode_sandbox.errors import SandboxUnavailable
from intercode_sandbox.identity import identity

LEAST = 16
"""Processes for which there must be room while an episode is scored."""
_CGROUPS = Path("/sys/fs/cgroup")
# A `ulimit -u` this high is not compared with the running processes, which takes milliseconds.
_HIGH = 1 << 12


def require_processes(needed: int) -> None:
    """Raise `SandboxUnavailable` if fewer than `needed` more processes may be started."""
    for limit, used in _limits():
        if limit - used < needed:
            raise SandboxUnavailable(
                f"this machine has no room for {needed} more processes, which a sandbox may need: "
                "other programs or agents have too many, or the limit is too low (`ulimit -u`; "
                "of a container, its pids limit)"
            )


def _limits() -> Iterator[tuple[int, int]]:
    """Yield each limit with the number of processes that it counts."""
    for folder, limit in _control_groups():
        with suppress(OSError, ValueError):
            yield limit, int((folder / "pids.current").read_text("utf-8"))
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if most != resource.RLIM_INFINITY and most < _HIGH and identity().uid != 0:
        used = 0
        for entry in os.scandir("/proc"):
            with suppress(OSError):  # the process has ended
                if entry.name.isdigit() and entry.stat().st_uid == identity().uid:
                    used += len(os.listdir(f"/proc/{entry.name}/task"))  # the kernel counts threads
        yield most, used


@functools.cache
def _control_groups() -> list[tuple[Path, int]]:
    """Return the control groups around this process that limit the number of processes, with their
    limits."""
    limits = []
    for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "pids" not in controllers.split(","):
            continue
        base = _CGROUPS
        if controllers:
            base /= "pids"
        inner = base / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if not folder.is_relative_to(base):
                break
            with suppress(OSError, ValueError):  # no such limit, or the word "max"
                limits.append((folder, int((folder / "pids.max").read_text("utf-8"))))
    return limits
