"""The recorded GPT-3.5 runs in Bash, executed again: close to the first system, and every disagreement has a cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.fidelity

TRY_AGAIN = ("multiturn fs_1", "multiturn fs_3", "multiturn fs_4")
OTHERS = tuple(f"{style} fs_{number}" for style in ("react", "plan") for number in (1, 2, 3, 4))


@pytest.fixture(scope="module")
def measured(image: str, measure: Callable[..., tuple[Any, Any]]) -> dict[str, Any]:
    """Causes are assigned in Try Again only: the other runs are held to loading and executing."""
    _, details = measure("replay_bash", *TRY_AGAIN, may_miss=True)
    _, more = measure("replay_bash", "--no-causes", *OTHERS)
    return {run["run"]: run for run in [*details, *more]}


@pytest.mark.parametrize("run", TRY_AGAIN)
def test_rewards_agree_as_far_as_the_first_systems_own_do(measured: dict[str, Any], run: str) -> None:
    assert measured[run]["agreement"] >= measured[run]["bound"]


@pytest.mark.parametrize("run", TRY_AGAIN)
def test_success_is_within_four_points_of_the_recorded(measured: dict[str, Any], run: str) -> None:
    figures = measured[run]
    assert figures["lasting_success_rate"] == pytest.approx(figures["recorded_success_rate"], abs=0.04)


def test_at_most_one_percent_of_turns_has_no_cause(measured: dict[str, Any]) -> None:
    unexplained = [
        (run, cause["task"], cause["turn"])
        for run in TRY_AGAIN
        for cause in measured[run]["causes"]
        if cause["cause"] == "unexplained"
    ]
    assert len(unexplained) <= 0.01 * sum(measured[run]["turns"] for run in TRY_AGAIN), unexplained


def test_the_golds_of_the_may_runs_were_cut_and_no_later_ones(measured: dict[str, Any]) -> None:
    for run, figures in measured.items():
        cut, whole = (figures["golds"].get(kind, 0) for kind in ("cut", "whole"))
        assert not (cut and whole), f"{run}: {cut} cut, {whole} whole"
    assert all(measured[run]["golds"]["cut"] >= 3 for run in ("multiturn fs_1", "multiturn fs_3", "react fs_1"))


@pytest.mark.parametrize("run", OTHERS)
def test_runs_of_the_other_strategies_load_and_execute(measured: dict[str, Any], run: str) -> None:
    assert measured[run]["turns"] > 100
    assert measured[run]["agreement"] > (0.5 if run.endswith("fs_2") else 0.85)
