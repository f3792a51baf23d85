"""The processes of this machine by their commands, and what descends from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def processes(mark: str, *kinds: str) -> dict[int, str]:
    """The processes whose command begins with one of `kinds`, and has `mark` in its words or
    variables, by process id."""
    found = {}
    beginnings = tuple(kind.encode() for kind in kinds)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            words = (folder / "cmdline").read_bytes()
            if words.startswith(beginnings) and (
                mark.encode() in words + (folder / "environ").read_bytes()
            ):
                found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


def below(*roots: int) -> set[tuple[int, str]]:
    """The processes that descend from `roots`, each with the time of its start; sandboxes are among
    them."""
    parents, started = dict[int, int](), dict[int, str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)], started[int(folder.name)] = int(words[1]), words[19]
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {(pid, started[pid]) for pid in found - set(roots)}


def alive(known: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """Those of the processes that have not ended, not even as zombies that nobody has waited
    for."""
    found = set()
    for pid, started in known:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found |= {(pid, started)} if words[19] == started and words[0] != "Z" else set()
    return found


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found
