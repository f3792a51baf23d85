"""What processes hold: the proportional share (PSS) of a process with all its descendants."""

from __future__ import annotations

import os
import re
from pathlib import Path


def family(pid: int) -> set[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            children.setdefault(parent(int(name)), []).append(int(name))
        except OSError:
            continue
    found, ahead = {pid}, [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead.extend(below)
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def pss(pid: int) -> int:
    """Bytes; 0 for a process that is gone."""
    try:
        return pss_of(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def pss_of(rollup: str) -> int:
    """Bytes, as the kernel's sum over a process says."""
    found = re.search(r"^Pss: +(\d+) kB", rollup, re.MULTILINE)
    return int(found[1]) << 10 if found else 0
