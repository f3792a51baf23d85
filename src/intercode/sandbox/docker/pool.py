"""Fresh containers, started before they are wanted: one for each sandbox that lives, and the one being taken.

join ──► one is started      take ──► the oldest that is ready; another is started      leave ──► one fewer
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, Self, TypeVar

from intercode.errors import SandboxDied, SandboxUnavailable
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.container import Spec

_PATIENCE = 180.0


class Box(Protocol):
    """A container, with or without rooms in it."""

    @property
    def alive(self) -> bool: ...

    def ready(self) -> Self: ...

    def close(self) -> None: ...


Kind = TypeVar("Kind", bound=Box)

_pools: dict[tuple[Any, ...], Pool[Any]] = {}
_lock = threading.Lock()


class Pool(Generic[Kind]):
    """Thread-safe. There is one for each `Spec` and process, for as long as anyone uses it."""

    def __init__(self, kind: Callable[[Spec], Kind], spec: Spec) -> None:
        self.spec, self.users, self._kind = spec, 0, kind
        self._fresh: queue.SimpleQueue[Kind | Exception] = queue.SimpleQueue()

    def take(self) -> Kind:
        """A container that nobody has used. Raises why none can be started."""
        self._order()
        return self._living()

    @contextmanager
    def borrowed(self) -> Iterator[Kind]:
        """One that is only looked at, and goes back."""
        found = self._living()
        try:
            yield found
        except SandboxDied:
            bury(found)
            self._order()
            raise
        self._fresh.put(found)

    def leave(self) -> None:
        with _lock:
            self.users -= 1
            if self.users == 0:
                _pools.pop((os.getpid(), self._kind, self.spec), None)
        self._drop()

    def _living(self) -> Kind:
        while not (found := self._next()).alive:
            bury(found)
            self._order()
        return found

    def _next(self) -> Kind:
        try:
            found = self._fresh.get(timeout=_PATIENCE)
        except queue.Empty:
            raise SandboxUnavailable(f"no container of {self.spec.image.name!r} was ready in {_PATIENCE:.0f} s") from None
        if isinstance(found, Exception):
            raise found
        return found

    def _order(self) -> None:
        threading.Thread(target=self._start, name="intercode-container", daemon=True).start()

    def _start(self) -> None:
        try:
            self._fresh.put(self._kind(self.spec).ready())
        except Exception as error:
            self._fresh.put(error)

    def _drop(self) -> None:
        threading.Thread(target=self._drop_one, name="intercode-container", daemon=True).start()

    def _drop_one(self) -> None:
        found = self._fresh.get()
        if not isinstance(found, Exception):
            found.close()


def bury(box: Kind) -> None:
    """Close it without waiting for its end."""
    threading.Thread(target=box.close, name="intercode-undertaker", daemon=True).start()


def join(kind: Callable[[Spec], Kind], spec: Spec) -> Pool[Kind]:
    """The pool for this kind of container and `spec`; `leave` it in the end."""
    leftovers.clear_once()
    with _lock:
        pool = _pools.setdefault((os.getpid(), kind, spec), Pool(kind, spec))
        pool.users += 1
    pool._order()
    return pool
