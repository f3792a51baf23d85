"""The processors that one of several workers has for itself.

Where there are at least as many processors as workers, what serves a worker's sandboxes (the keeper and its cells) stays on the
worker's own, since processes that wake each other across processors leave both idle in between. The agent's processes go
anywhere: what they see and how many processors they get does not depend on the number of workers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

_mine = threading.local()


def share(worker: int, workers: int) -> list[int]:
    """Of worker 0, 1, ... of so many; none for one alone, or where there are too few processors."""
    there = sorted(os.sched_getaffinity(0))
    if not 1 < workers <= len(there):
        return []
    return there[len(there) * worker // workers : len(there) * (worker + 1) // workers]


@contextmanager
def sharing(worker: int, workers: int) -> Iterator[None]:
    """Walls that this thread makes in the meantime are the worker's."""
    _mine.processors = share(worker, workers)
    try:
        yield
    finally:
        _mine.processors = []


def mine() -> list[int]:
    """Of the worker whose thread this is; none without one."""
    return getattr(_mine, "processors", [])


@contextmanager
def near(processors: Collection[int]) -> Iterator[None]:
    """While this thread talks with a cell that stays there it does, too: not for longer, for what it runs otherwise (a model, a
    reward) may start threads and processes, which inherit it."""
    if not processors:
        yield
        return
    before = os.sched_getaffinity(0)
    _move(before.intersection(processors) or before)
    try:
        yield
    finally:
        _move(before)


def _move(processors: Collection[int]) -> None:
    with suppress(OSError):  # they were taken from this process
        os.sched_setaffinity(0, processors)
