"""A time limit that runs only while it is checked: not while the checking process is stopped or
frozen."""

from __future__ import annotations

import time

_LOOK_EVERY = 0.25  # the longest wait between two checks, in seconds
_MOST_COUNTED = 1.0
"""The most seconds that count between two checks. If more have passed, the checking process was
stopped (its container was frozen, for example), and perhaps the watched process as well."""


class Limit:
    """`seconds` from now."""

    __slots__ = ("_left", "_seen")

    def __init__(self, seconds: float) -> None:
        self._left, self._seen = seconds, time.monotonic()

    def left(self) -> float:
        """Return the seconds left; 0 or less when time is up."""
        now = time.monotonic()
        self._left -= min(now - self._seen, _MOST_COUNTED)
        self._seen = now
        return self._left

    def wait(self) -> float:
        """Return the seconds until the next check; 0 or less when time is up."""
        return min(self.left(), _LOOK_EVERY)
