"""What golds came to, each executed once for all environments that share a `Golds`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from intercode.errors import DataError, SandboxDied
from intercode.types import ExecResult

Result = TypeVar("Result")
Key = tuple[str, ...]
"""A task's id, and what the gold was executed on, and how if that is to be told."""


class Golds(Generic[Result]):
    """Whoever asks first executes, others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Key, Future[Result]] = {}

    def get(self, key: Key, execute: Callable[[], Result]) -> Result:
        with self._lock:
            mine = key not in self._results
            future = self._results.setdefault(key, Future())
        if mine:
            self._fulfil(future, key, execute)
        return future.result()

    def _fulfil(self, future: Future[Result], key: Key, execute: Callable[[], Result]) -> None:
        """A fault is passed on to all who wait, and not kept."""
        try:
            future.set_result(execute())
        except BaseException as error:
            with self._lock:
                del self._results[key]
            future.set_exception(error)


def unkilled(execute: Callable[[], Sequence[ExecResult]]) -> Sequence[ExecResult]:
    """What `execute` came to; once more if an action was killed: the machine does not do that twice, an action does."""
    done = execute()
    return execute() if any(result.killed for result in done) else done


def outlived(execute: Callable[[], Result], gold: str) -> Result:
    """What `execute` makes of a gold. Raises `DataError` if a second sandbox dies of it too: one death may be the machine's."""
    with contextlib.suppress(SandboxDied):
        return execute()
    try:
        return execute()
    except SandboxDied as death:
        raise DataError(f"two sandboxes died of the gold {gold[:200]!r}: {death}") from death
