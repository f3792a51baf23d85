"""What a process and all that it started hold of the machine at one moment."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from families import alive, family, wait_until


@dataclass(frozen=True)
class Footprint:
    """Memory is resident, pages that are shared counted at each who has them."""

    own_memory: int
    children_memory: int
    descriptors: int
    mounts: int
    processes: int

    @classmethod
    def settled(cls) -> Footprint:
        """When no process ends any more while it is looked at; memory that is free for the next
        episode is given back first."""
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
        spaces = {os.readlink(f"/proc/{pid}/ns/mnt"): pid for pid in (*children, os.getpid())}
        inside = [
            len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines()) for pid in spaces.values()
        ]
        return cls(
            own_memory=_resident(os.getpid()),
            children_memory=sum(map(_resident, children)),
            descriptors=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), *children)),
            mounts=sum(inside),
            processes=len(children),
        )


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds() -> float:
    """What this process and all that it started, the dead ones too, have used so far, whoever else
    was busy meanwhile."""
    ticks = 0
    for pid in (os.getpid(), *(pid for pid, _ in family(os.getpid()))):
        with contextlib.suppress(OSError):
            ticks += sum(
                map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])
            )
    return ticks / os.sysconf("SC_CLK_TCK")
