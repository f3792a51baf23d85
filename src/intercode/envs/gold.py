"""What golds came to, each executed once for all environments that share a `GoldCache`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Generic, TypeVar

from intercode.errors import DataError, SandboxDied
from intercode.types import Task

Result = TypeVar("Result")
Key = tuple[str, ...]
"""A task's id, the gold, and what it was executed on, and how if that is to be told."""


def each_gold(task: Task) -> list[Task]:
    """The task once for each of its golds, with it as `gold`: a reward reads the text of the gold that it compares with."""
    return [replace(task, gold=gold) for gold in task.golds]


class GoldCache(Generic[Result]):
    """Whoever asks first executes, others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Key, Future[Result]] = {}

    def get(self, key: Key, execute: Callable[[], Result]) -> Result:
        with self._lock:
            mine = key not in self._results
            future = self._results.setdefault(key, Future())
        if mine:
            try:
                future.set_result(execute())
            except BaseException as error:  # passed on to all who wait, and not kept
                with self._lock:
                    del self._results[key]
                future.set_exception(error)
        return future.result()


def run_gold(execute: Callable[[], Result], gold: str) -> Result:
    """Return what `execute` makes of a gold. Raises `DataError` if the gold itself ended its sandbox."""
    try:
        return execute()
    except SandboxDied as death:
        if death.by_agent:
            raise DataError(f"the gold {gold[:200]!r} ends its sandbox: {death}") from death
        raise
