"""The threads of a pool. Each keeps a warm environment, and is the only one that uses it.

submit ──► an idle worker whose environment is in the call's setting
           ├── else a new worker, up to `most`
           ├── else an idle worker, which makes another environment
           └── else the backlog, from which a worker takes first what its environment can play
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from intercode.errors import UsageError
from intercode.runner.warm_env import WarmEnv
from intercode.train.settings import Setting

CLOSED = "the pool is closed; make a new one"


class Call(NamedTuple):
    """A function for a worker to call with its environment, the lowest number first."""

    number: int
    setting: Setting
    play: Callable[[WarmEnv], None]


class _Worker:
    """`inbox` gets a call when the worker is idle; None ends it."""

    def __init__(self, number: int, work: Callable[[_Worker], None]) -> None:
        self.setting: Setting | None = None
        self.inbox = queue.SimpleQueue[Call | None]()
        name = f"rollout-{number}"
        self.thread = threading.Thread(target=work, args=(self,), name=name, daemon=True)
        self.thread.start()


class Workers:
    """Up to `most` threads, started when they are needed."""

    def __init__(self, most: int) -> None:
        self._most, self._numbers = most, itertools.count(1)
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._backlog: dict[Setting, list[Call]] = {}
        self._closed, self._lock = False, threading.Lock()

    def submit(
        self, setting: Setting, play: Callable[[WarmEnv], None], *, newest_first: bool = False
    ) -> None:
        """Let a worker call `play` with a warm environment of a setting. `newest_first`: before all
        other calls, and the last one of these first."""
        number = next(self._numbers)
        call = Call(-number if newest_first else number, setting, play)
        with self._lock:
            if self._closed:
                raise UsageError(CLOSED)
            same = [worker for worker in self._idle if worker.setting is setting]
            if same or (self._idle and len(self._workers) == self._most):
                worker = (same or self._idle)[-1]
                self._idle.remove(worker)
            elif len(self._workers) < self._most:
                worker = _Worker(len(self._workers), self._work)
                self._workers.append(worker)
            else:
                heapq.heappush(self._backlog.setdefault(setting, []), call)
                return
        worker.inbox.put(call)

    def close(self, seconds: float) -> None:
        """End the workers when they have no more calls, and wait for that long. May be called
        twice."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.inbox.put(None)
        deadline = time.monotonic() + seconds
        for worker in self._workers:
            worker.thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self, worker: _Worker) -> None:
        env: WarmEnv | None = None
        while call := worker.inbox.get():
            if env is None or worker.setting is not call.setting:
                _close(env)
                worker.setting, env = call.setting, WarmEnv(call.setting.factory)
            call.play(env)
            with self._lock:
                following = self._take(worker.setting)
                if following or self._closed:
                    worker.inbox.put(following)
                else:
                    self._idle.append(worker)
        _close(env)

    def _take(self, setting: Setting) -> Call | None:
        """Take the next call from the backlog: the first one, but one of this setting if it has any
        that is not behind one of `newest_first`."""
        if not self._backlog:
            return None
        best = min(self._backlog, key=lambda other: self._backlog[other][0])
        calls = self._backlog.get(setting)
        if calls and (calls[0].number < 0 or self._backlog[best][0].number > 0):
            best = setting
        calls = self._backlog[best]
        call = heapq.heappop(calls)
        if not calls:
            del self._backlog[best]
        return call


def _close(env: WarmEnv | None) -> None:
    """Close an environment; the worker goes on, even if code of the caller's raises."""
    try:
        if env:
            env.close()
    except Exception:
        logging.getLogger(__name__).warning("an environment does not close", exc_info=True)
