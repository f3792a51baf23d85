"""The recorded GPT-3.5 runs in Bash, executed again: close to InterCode v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.fidelity

TRY_AGAIN = ("multiturn fs_1", "multiturn fs_3", "multiturn fs_4")
OTHERS = tuple(f"{style} fs_{number}" for style in ("react", "plan") for number in (1, 2, 3, 4))


@pytest.fixture(scope="module")
def measured(image: str, measure: Callable[..., tuple[Any, Any]], part: int) -> dict[str, Any]:
    _, details = measure("replay", "--set", "nl2bash", may_miss=True, part=part)
    return {run["run"]: run for run in details}


@pytest.mark.parametrize("run", TRY_AGAIN)
def test_rewards_agree_as_far_as_intercode_v1_own_do(
    measured: dict[str, Any], run: str, part: int
) -> None:
    few = 0 if part == 1 else 0.25  # one task of six
    assert measured[run]["agreement"] >= measured[run]["bound"] - few


@pytest.mark.parametrize("run", TRY_AGAIN)
def test_success_is_within_four_points_of_the_recorded(
    measured: dict[str, Any], run: str, part: int
) -> None:
    figures = measured[run]
    near = 0.04 if part == 1 else 1.5 / figures["episodes"]
    assert figures["lasting_success_rate"] == pytest.approx(
        figures["recorded_success_rate"], abs=near
    )


@pytest.mark.parametrize("run", OTHERS)
def test_runs_of_the_other_strategies_load_and_execute(
    measured: dict[str, Any], run: str, part: int
) -> None:
    assert measured[run]["turns"] > (100 if part == 1 else 7)
    few = 0 if part == 1 else 0.2
    assert measured[run]["agreement"] > (0.5 if run.endswith("fs_2") else 0.85) - few
