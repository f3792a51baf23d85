"""Calls that end in time, whatever the other side sends: an event loop in a thread of its own, where each can be cancelled.

An HTTP client's own time-out bounds each wait for data. A server that sends a blank now and then is never late by that.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

Made = TypeVar("Made")


class Loop:
    """May be shared between threads. It ends with `close`, with its owner, or with the process."""

    def __init__(self) -> None:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = runner.get_loop()
        threading.Thread(target=_turn, args=(runner,), daemon=True).start()
        self.close = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def within(self, seconds: float, call: Coroutine[Any, Any, Made]) -> Made:
        """What the call gives; raises `TimeoutError`, and cancels it, if it has not ended by then."""
        asked = asyncio.run_coroutine_threadsafe(asyncio.wait_for(call, seconds), self._loop)
        try:
            return asked.result()
        finally:
            asked.cancel()  # for one that is interrupted; no other is left to be cancelled


def _turn(runner: asyncio.Runner) -> None:
    with runner:
        runner.get_loop().run_forever()
