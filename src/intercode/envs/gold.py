"""Gold results. Each gold is executed once for all environments that share a `GoldCache`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from intercode.errors import DataError, SandboxDied, is_inside
from intercode.types import TaskIssue

Result = TypeVar("Result")
NO_GOLD = TaskIssue(
    "has no gold, so it is not known whether an answer can pass its tests", "no_gold"
)
Key = tuple[str, ...]
"""A task's id, its gold, the template's digest, and the execution mode if there are several."""


class GoldCache(Generic[Result]):
    """Results by key. The first thread that requests a key executes the gold, and other threads
    wait for the result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Key, Future[Result]] = {}

    def get(self, key: Key, execute: Callable[[], Result]) -> Result:
        with self._lock:
            first = key not in self._results
            future = self._results.setdefault(key, Future())
        if first:
            try:
                future.set_result(execute())
            except BaseException as error:  # raised in all waiting threads, and not cached
                with self._lock:
                    del self._results[key]
                future.set_exception(error)
        return future.result()


def blame_gold(execute: Callable[[], Result], gold: str) -> Result:
    """Return the result of `execute`. Raises `DataError` if the gold itself killed its sandbox, or
    left a path there that cannot be used."""
    try:
        return execute()
    except SandboxDied as death:
        if death.by_agent:
            raise DataError(f"the gold {gold[:200]!r} ends its sandbox: {death}") from death
        raise
    except OSError as error:
        if is_inside(error):
            raise DataError(f"the gold {gold[:200]!r} blocks a path: {error}") from error
        raise
