"""How a target is fuzzed: a little in every test run, the same inputs each time; for as long as one likes by hand.

    Target ── inputs, and what once broke it (`found`) ──► trying() ──► a function that takes one input
                                                                         └─ raises for what must not come out

Each crash that was found is kept in `found`, which is tried first every time; hypothesis keeps no files.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import seed as seeded
from hypothesis.strategies import SearchStrategy

_AT_ONCE = 500

Attempt = Callable[[Any], object]


@dataclass(frozen=True)
class Target:
    """`quick`: how many inputs are tried in every test run."""

    name: str
    inputs: SearchStrategy[Any]
    trying: Callable[[], AbstractContextManager[Attempt]]
    found: tuple[Any, ...] = ()
    quick: int = 60

    def briefly(self) -> int:
        """The number of inputs that were tried."""
        with self.trying() as attempt:
            return self._round(attempt, self.quick, seed=0)

    def thoroughly(self, seconds: float) -> int:
        """Rounds of other inputs until the time is over."""
        until, tried = time.monotonic() + seconds, 0
        with self.trying() as attempt:
            for seed in itertools.count(random.randrange(1 << 32)):
                if time.monotonic() > until:
                    return tried
                tried += self._round(attempt, _AT_ONCE, seed)
        return tried

    def _round(self, attempt: Attempt, examples: int, seed: int) -> int:
        tried = 0

        def one(given: Any) -> None:
            nonlocal tried
            tried += 1
            attempt(given)

        test = given(self.inputs)(one)
        for each in self.found:
            test = example(each)(test)
        phases = (Phase.explicit, Phase.generate, Phase.shrink)
        test = settings(
            max_examples=examples, deadline=None, database=None, phases=phases, suppress_health_check=list(HealthCheck)
        )(test)
        seeded(seed)(test)()
        return tried
