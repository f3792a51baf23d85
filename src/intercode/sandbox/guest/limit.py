"""A time limit that runs only while somebody looks: not while who looks is stopped, or frozen with its container."""

from __future__ import annotations

import time

_LOOK = 0.25
"""Seconds: no wait between two looks is longer."""
_MOST = 1.0
"""Seconds that count of what passed between two looks. More is nobody's use of time: who looks stood still, and what it
looks at perhaps as well."""


class Limit:
    """`seconds` from now."""

    __slots__ = ("_left", "_seen")

    def __init__(self, seconds: float) -> None:
        self._left, self._seen = seconds, time.monotonic()

    def left(self) -> float:
        """Seconds; none are where it is 0 or less."""
        now = time.monotonic()
        self._left -= min(now - self._seen, _MOST)
        self._seen = now
        return self._left

    def wait(self) -> float:
        """Seconds until the next look; none are left where it is 0 or less."""
        return min(self.left(), _LOOK)
