"""Ctrl-C and SIGTERM during a run.

first signal ──► the meter is stopped ──► workers end within a turn ──► KeyboardInterrupt
second signal, or GRACE seconds later ──────────────────────────────────────┘
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from intercode.runner.budget import BudgetTracker

GRACE = 5.0
"""Seconds that an interrupted run waits for its workers; whoever is still busy then ends with the process."""


class Interrupts:
    """Within the block, the first SIGINT or SIGTERM stops the meter and a second raises `KeyboardInterrupt`.

    Only Python's main thread may handle signals; elsewhere, and for a signal that is ignored, nothing changes.
    """

    def __init__(self, meter: BudgetTracker) -> None:
        self.at: float | None = None
        self._meter = meter
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def overdue(self) -> bool:
        return self.at is not None and time.monotonic() - self.at > GRACE

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.at is not None:
            raise KeyboardInterrupt
        self.at = time.monotonic()
        self._meter.stop("interrupted")

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
