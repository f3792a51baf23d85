"""Health checks of a task: commands that must succeed before the agent starts, by Harbor's rule.

A failure in the first `start_period_sec` seconds does not count. Then `retries` failures in a
row are a fault of the task.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from intercode.errors import DataError
from intercode_sandbox.base import Sandbox


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """A command, and its times; for `retries` see above."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: float = 3

    def require(self, box: Sandbox) -> None:
        """Repeat the command until it succeeds. Raises `DataError` if it does not."""
        began, failures = time.monotonic(), 0
        while True:
            result = box.exec("", argv=["bash", "-c", self.command], timeout=self.timeout_sec)
            if result.exit_code == 0:
                return
            left = began + self.start_period_sec - time.monotonic()
            pause = min(self.start_interval_sec, left)
            if left <= 0:
                pause = self.interval_sec
                failures += 1
            if failures >= self.retries:
                raise DataError(
                    f"the health check {self.command!r:.80} failed {failures} times; "
                    f"it printed:\n{result.output[-1000:] or '(nothing)'}"
                )
            time.sleep(pause)
