"""Fresh containers, started before they are wanted: one for each sandbox that lives, and the one being taken.

join ──► one is started      take ──► the oldest that is ready; another is started      leave ──► one fewer
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from intercode.errors import SandboxDied, SandboxUnavailable
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.container import Container, Spec

_PATIENCE = 180.0
_pools: dict[tuple[int, Spec], Pool] = {}
_lock = threading.Lock()


class Pool:
    """Thread-safe. There is one for each `Spec` and process, for as long as anyone uses it."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.users = spec, 0
        self._fresh: queue.SimpleQueue[Container | Exception] = queue.SimpleQueue()

    def take(self) -> Container:
        """A container that nobody has used. Raises why none can be started."""
        self._order()
        return self._living()

    @contextmanager
    def borrowed(self) -> Iterator[Container]:
        """One that is only looked at, and goes back."""
        found = self._living()
        try:
            yield found
        except SandboxDied:
            found.close(wait=False)
            self._order()
            raise
        self._fresh.put(found)

    def leave(self) -> None:
        with _lock:
            self.users -= 1
            if self.users == 0:
                _pools.pop((os.getpid(), self.spec), None)
        self._drop()

    def _living(self) -> Container:
        while not (found := self._next()).alive:
            found.close(wait=False)
            self._order()
        return found

    def _next(self) -> Container:
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
            self._fresh.put(Container(self.spec).ready())
        except Exception as error:
            self._fresh.put(error)

    def _drop(self) -> None:
        threading.Thread(target=self._drop_one, name="intercode-container", daemon=True).start()

    def _drop_one(self) -> None:
        found = self._fresh.get()
        if isinstance(found, Container):
            found.close()


def join(spec: Spec) -> Pool:
    """The pool for `spec`; `leave` it in the end."""
    leftovers.clear_once()
    with _lock:
        pool = _pools.setdefault((os.getpid(), spec), Pool(spec))
        pool.users += 1
    pool._order()
    return pool
