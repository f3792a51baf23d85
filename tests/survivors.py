"""The pid namespaces of a sandbox, by which its processes are told from those of other sandboxes of the same user."""

from __future__ import annotations

import os
import time

from families import all_pids, family, namespace, stat, wait_until


def descendants(pid: int) -> set[int]:
    return {each for each, _ in family(pid)}


def spaces(pid: int) -> set[str]:
    """The pid namespaces below a bwrap process."""
    return {namespace(each) for each in descendants(pid)} - {namespace(os.getpid()), ""}


def left_in(spaces: set[str], seconds: float = 10.0) -> list[int]:
    """Processes of these namespaces that do not go away. Numbers are given out again, so only those born before count."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")

    def left() -> list[int]:
        there = [pid for pid in all_pids() if namespace(pid) in spaces]
        return [pid for pid in there if (fields := stat(pid)) and int(fields[19]) <= now]

    wait_until(lambda: not left(), seconds)
    return left()
