"""The limits of a run and of each episode, and what the run has used. All workers of a run share
one `BudgetTracker`.

The limits are checked between two requests, so that each worker stops within one turn; the cost of
a call to the model is known only after the call. When a run reaches a limit, its unfinished
episodes get no reward, and are played again when the run is resumed. When an episode reaches its
own limit, it ends as if it were out of turns, and is scored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from intercode.options import RunOptions
from intercode.types import Turn, Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens (in and out), `cost` in US dollars and wall `seconds`. None: no limit."""

    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def spent(self, used: Usage, elapsed: float) -> str | None:
        """Return the name of the first limit that is reached, or None."""
        if self.tokens is not None and used.tokens >= self.tokens:
            return "tokens"
        if self.cost is not None and used.cost >= self.cost:
            return "cost"
        return "seconds" if self.seconds is not None and elapsed >= self.seconds else None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one episode, `turns` and `episode`, and of the whole `run`. `dialogue` is how many
    messages after the task are sent to the model. From `options` the runner reads what concerns it
    alone."""

    turns: int | None = None
    run: Budget = Budget()
    episode: Budget = Budget()
    dialogue: int | None = None
    options: RunOptions = field(default_factory=RunOptions)

    @classmethod
    def of(cls, options: RunOptions) -> RunLimits:
        return cls(
            options.turns,
            Budget(options.max_tokens, options.max_cost, options.max_seconds),
            Budget(options.episode_tokens, options.episode_cost, options.episode_seconds),
            options.dialogue_limit,
            options,
        )


class BudgetTracker:
    """Count what one run uses, and compare it with the limits. Thread-safe."""

    def __init__(
        self, limits: RunLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or RunLimits()
        self.used = Usage()
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._stopped: str | None = None

    def spend(self, usage: Usage) -> None:
        """Add the usage of a reply."""
        with self._lock:
            self.used += usage

    def take(self) -> Usage:
        """Return what was used since the last call, for another tracker to `spend`."""
        with self._lock:
            used, self.used = self.used, Usage()
        return used

    def stop(self, why: str) -> None:
        """Stop the run for a reason other than a limit; the first reason counts."""
        self._stopped = self._stopped or why

    def start_episode(self, turns: Sequence[Turn]) -> Callable[[], bool]:
        """Start the clock of an episode; return a function that tells whether its `turns` have
        reached its limits."""
        budget, began = self.limits.episode, self._clock()

        def spent() -> bool:
            used = sum((turn.usage for turn in turns), Usage())
            return budget.spent(used, self._clock() - began) is not None

        return spent

    def stop_reason(self) -> str | None:
        """Return why the run must stop now, or None."""
        if self._stopped:
            return self._stopped
        limit = self.limits.run
        if (name := limit.spent(self.used, self._clock() - self._started)) is None:
            return None
        unit = "US dollars" if name == "cost" else name
        return f"the limit of {getattr(limit, name):g} {unit} is reached; raise --max-{name}"
