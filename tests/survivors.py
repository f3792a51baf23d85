"""Who of a sandbox's processes is still there, told from those of other sandboxes of the same user.

A wall's processes are the descendants of its bwrap process; the pid namespaces that they live in name them after that is gone.
The kernel gives a namespace's number out again, so only processes older than the look count.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for each in _pids():
        children.setdefault(_stat(each)[0], []).append(each)
    found, open_ = set(), [pid]
    while open_:
        for child in children.get(open_.pop(), []):
            found.add(child)
            open_.append(child)
    return found


def spaces(pid: int) -> set[str]:
    """The pid namespaces below a bwrap process."""
    return {space for each in descendants(pid) if (space := _space(each))} - {_space(os.getpid())}


def left_in(spaces: set[str], seconds: float = 10.0) -> list[int]:
    """Processes of these namespaces that were born before now and do not go away."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS
    deadline = time.monotonic() + seconds
    while left := [pid for pid in _pids() if _space(pid) in spaces and 0 < _stat(pid)[1] <= now]:
        if time.monotonic() > deadline:
            return left
    return []


def numbers(pid: int) -> list[int]:
    """Its pid in each namespace, from ours to its own."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(number) for line in lines if line.startswith("NSpid:") for number in line.split()[1:]]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> tuple[int, int]:
    """Its parent, and when it was born, in ticks; zeros if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[1]), int(fields[19])


def _space(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def children_called(pid: int, name: str) -> list[int]:
    """Children of a process whose command begins like `name`; the kernel keeps 15 characters of it."""
    return [each for each in _pids() if _stat(each)[0] == pid and Path(f"/proc/{each}/comm").read_text().strip() == name[:15]]
