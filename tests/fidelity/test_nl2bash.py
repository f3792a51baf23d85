"""NL2Bash's 200 golds on the built root: they solve their own tasks, and what does not is not
deterministic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.fidelity


@pytest.fixture(scope="module")
def measured(image: str, measure: Callable[..., tuple[Any, Any]], part: int) -> dict[str, Any]:
    _, details = measure("golds", "--set", "nl2bash", may_miss=True, part=part)
    return dict(details["nl2bash"])


def test_at_least_191_golds_solve_their_tasks_under_the_papers_protocol(
    measured: dict[str, Any], part: int
) -> None:
    tasks, solved = measured["paper"]["tasks"], measured["paper"]["solved"]["gold"]
    assert tasks == 200 if part == 1 else 200 / part <= tasks < 200 / part + 4
    assert tasks - solved <= (9 if part == 1 else 2)


@pytest.mark.parametrize("mode", ["paper", "exact"])
def test_a_gold_that_misses_differs_between_raw_executions(
    measured: dict[str, Any], mode: str
) -> None:
    missed = measured[mode]["missed"]
    assert not [task for task, excuse in missed.items() if excuse is None]
    data_faults = (
        2 if mode == "exact" else 0
    )  # one gold runs out of time, and one only fails, without a network
    assert list(missed.values()).count("no outcome") <= data_faults


@pytest.mark.parametrize("agent", ["noop", "false"])
def test_doing_nothing_solves_few_tasks_but_earns_much_of_the_papers_reward(
    measured: dict[str, Any], agent: str, part: int
) -> None:
    assert measured["paper"]["solved"][agent] <= 0.125 * measured["paper"]["tasks"] + (part > 1)
    mean = pytest.approx(0.69, abs=0.02 if part == 1 else 0.1)
    assert measured["paper"]["mean"][agent] == mean
    assert measured["exact"]["mean"][agent] <= (0.1 if part == 1 else 0.2)
