"""What a process and all that it started hold of the machine at one moment."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from families import alive, family, mounts, wait_until


@dataclass(frozen=True)
class Footprint:
    """Memory is resident, pages that are shared counted at each who has them; tmpfs is what lies in those behind walls."""

    own_memory: int
    children_memory: int
    descriptors: int
    mounts: int
    processes: int
    tmpfs: int

    @classmethod
    def settled(cls) -> Footprint:
        """When no process ends any more while it is looked at; memory that is free for the next episode is given back first."""
        ctypes.CDLL(None).malloc_trim(0)
        seen: list[Footprint] = []

        def look() -> bool:
            with contextlib.suppress(OSError):
                seen.append(cls._now())
            return bool(seen)

        assert wait_until(look)
        return seen[0]

    @classmethod
    def _now(cls) -> Footprint:
        children = sorted(pid for pid, _ in alive(family(os.getpid())))
        spaces = {_namespace(pid): pid for pid in (*children, os.getpid())}
        spaces.pop(_namespace(os.getpid()))
        used = dict(volume for pid in spaces.values() for volume in _volumes(pid))
        return cls(
            own_memory=_resident(os.getpid()),
            children_memory=sum(map(_resident, children)),
            descriptors=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), *children)),
            mounts=len(mounts()) + sum(len(_mounts(pid)) for pid in spaces.values()),
            processes=len(children),
            tmpfs=sum(used.values()),
        )


def processor_seconds() -> float:
    """What this process and all that it started, the dead ones too, have used so far, whoever else was busy meanwhile."""
    fields = [_stat(pid) for pid in (os.getpid(), *(pid for pid, _ in family(os.getpid())))]
    return sum(sum(map(int, each[11:15])) for each in fields) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/mnt")


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _mounts(pid: int) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]


def _volumes(pid: int) -> list[tuple[str, int]]:
    """The tmpfs that this process sees, also as the upper folder of an overlay, by device, and the bytes in use there."""
    found = []
    for fields in _mounts(pid):
        kind, options = fields[fields.index("-") + 1], fields[-1]
        if kind == "tmpfs" or (kind == "overlay" and "upperdir=" in options):
            info = os.statvfs(f"/proc/{pid}/root{fields[4]}")
            found.append((fields[2], (info.f_blocks - info.f_bfree) * info.f_frsize))
    return found
