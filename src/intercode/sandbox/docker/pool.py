"""Fresh containers, started before they are wanted: one for each sandbox that lives, and the one being taken.

join ──► one is started      take ──► the oldest that is ready; another is started      leave ──► one fewer
"""

from __future__ import annotations

import os
import queue
import threading

from intercode.errors import SandboxUnavailable
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.wall import DockerWall, Spec

_PATIENCE = 180.0

_pools: dict[tuple[int, Spec], Pool] = {}
_lock = threading.Lock()


class Pool:
    """Thread-safe. There is one for each `Spec` and process, for as long as anyone uses it."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.users = spec, 0
        self._fresh: queue.SimpleQueue[DockerWall | Exception] = queue.SimpleQueue()

    def take(self) -> DockerWall:
        """A container that nobody has used. Raises why none can be started."""
        self._order()
        while True:
            try:
                found = self._fresh.get(timeout=_PATIENCE)
            except queue.Empty:
                raise SandboxUnavailable(f"no container of {self.spec.image.name!r} was ready in {_PATIENCE:.0f} s") from None
            if isinstance(found, Exception):
                raise found
            if found.alive:
                return found
            threading.Thread(target=found.close, name="intercode-undertaker", daemon=True).start()
            self._order()

    def leave(self) -> None:
        with _lock:
            self.users -= 1
            if self.users == 0:
                _pools.pop((os.getpid(), self.spec), None)

        def drop_one() -> None:
            if not isinstance(found := self._fresh.get(), Exception):
                found.close()

        threading.Thread(target=drop_one, name="intercode-container", daemon=True).start()

    def _order(self) -> None:
        def start() -> None:
            try:
                self._fresh.put(DockerWall(self.spec).ready())
            except Exception as error:
                self._fresh.put(error)

        threading.Thread(target=start, name="intercode-container", daemon=True).start()


def join(spec: Spec) -> Pool:
    """The pool for `spec`; `leave` it in the end."""
    leftovers.clear_once()
    with _lock:
        pool = _pools.setdefault((os.getpid(), spec), Pool(spec))
        pool.users += 1
    pool._order()
    return pool
