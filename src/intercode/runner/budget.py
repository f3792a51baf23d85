"""What a run and each of its episodes may use, and what the run has used: shared by all its workers.

Limits are looked at between two moves, so that each worker stops within one turn; what one call to the model costs is
known only afterwards. A run that is out of budget cuts episodes off, unscored, to be played when it is resumed. An
episode that is out of its own is over as if it were out of turns: what there is, is scored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from intercode.types import Turn, Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens (in and out), `cost` in US dollars and wall `seconds`. None: no limit."""

    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def spent(self, used: Usage, elapsed: Callable[[], float]) -> str | None:
        """The name of the one that is used up, or None."""
        if self.tokens is not None and used.prompt_tokens + used.completion_tokens >= self.tokens:
            return "tokens"
        if self.cost is not None and used.cost >= self.cost:
            return "cost"
        return "seconds" if self.seconds is not None and elapsed() >= self.seconds else None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one episode may use, `turns` and more, and what the whole run may."""

    turns: int | None = None
    run: Budget = Budget()
    episode: Budget = Budget()


class BudgetTracker:
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

    def begin(self, turns: Sequence[Turn]) -> Callable[[], bool]:
        """Whether the episode that begins now, and fills `turns`, has used up its own budget."""
        budget = self.limits.episode
        if budget == Budget():
            return lambda: False
        began, used, counted = self._clock(), Usage(), 0

        def spent() -> bool:
            nonlocal used, counted
            used = sum((turn.usage for turn in turns[counted:]), used)
            counted = len(turns)
            return budget.spent(used, lambda: self._clock() - began) is not None

        return spent

    def over(self) -> str | None:
        """Why the run must stop now, or None."""
        if self._stopped:
            return self._stopped
        limit = self.limits.run
        if (name := limit.spent(self.used, lambda: self._clock() - self._started)) is None:
            return None
        unit = "US dollars" if name == "cost" else name
        return f"the limit of {getattr(limit, name):g} {unit} is reached; raise --max-{name}"
