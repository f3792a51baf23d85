"""How a target is fuzzed: a little in every test run, the same inputs each time; for as long as one
likes by hand.

    Target ── inputs, and what once broke it (`found`) ──► trying()
      ──► a function that takes one input, and raises for what must not come out

Each crash that was found is kept in `found`, which is tried first every time; hypothesis keeps no
files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, seed, settings
from hypothesis.strategies import SearchStrategy

Attempt = Callable[[Any], object]
_PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


@dataclass(frozen=True)
class Target:
    """`quick`: how many inputs are tried in every test run."""

    name: str
    inputs: SearchStrategy[Any]
    trying: Callable[[], AbstractContextManager[Attempt]]
    found: tuple[Any, ...] = ()
    quick: int = 60


def try_inputs(target: Target, attempt: Attempt, examples: int, start: int) -> int:
    """How many inputs were tried; `start` seeds the choice of them."""
    tried = 0

    def one(given: Any) -> None:
        nonlocal tried
        tried += 1
        attempt(given)

    test = given(target.inputs)(one)
    for each in target.found:
        test = example(each)(test)
    every_check = list(HealthCheck)
    test = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=_PHASES,
        suppress_health_check=every_check,
    )(test)
    seed(start)(test)()
    return tried
