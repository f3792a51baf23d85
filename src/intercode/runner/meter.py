"""What a run may use, and what it has used: shared by all its workers.

The limits on tokens, cost and time are those of the whole run. An episode is cut off between two moves, so that each
worker stops within one turn; what one call to the model costs is known only afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from intercode.types import Usage


@dataclass(frozen=True, slots=True)
class Limits:
    """`turns` are per episode; tokens (in and out), `cost` in US dollars and wall `seconds` per run. None: no limit."""

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


class Meter:
    """The account of one run against its limits. Thread-safe."""

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or Limits()
        self.used = Usage()
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._stopped: str | None = None

    def spend(self, usage: Usage) -> None:
        with self._lock:
            self.used += usage

    def stop(self, why: str) -> None:
        """End the run from outside; the first reason is kept."""
        self._stopped = self._stopped or why

    def over(self) -> str | None:
        """Why the run must stop now, or None."""
        used, limits = self.used, self.limits
        tokens = used.prompt_tokens + used.completion_tokens
        if self._stopped:
            return self._stopped
        if limits.tokens is not None and tokens >= limits.tokens:
            return f"the limit of {limits.tokens} tokens is reached; raise --max-tokens to go on"
        if limits.cost is not None and used.cost >= limits.cost:
            return f"the limit of ${limits.cost:g} is reached; raise --max-cost to go on"
        if limits.seconds is not None and self._clock() - self._started >= limits.seconds:
            return f"the limit of {limits.seconds:g} seconds is reached; raise --max-seconds to go on"
        return None
