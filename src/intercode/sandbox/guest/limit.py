"""A time limit that runs only while somebody looks at it: not while the process that looks is
stopped or frozen."""

from __future__ import annotations

import time

_LOOK_EVERY = 0.25
"""Seconds: no wait between two looks is longer."""
_MOST_COUNTED = 1.0
"""Seconds that count of the time between two looks. If more has passed, the process that looks
stood still (its container was frozen, for example), and the process that it watches perhaps as
well."""


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
        """Return the seconds until the next look; 0 or less when time is up."""
        return min(self.left(), _LOOK_EVERY)
