"""MBPP: its golds solve it, and the recorded GPT-3.5 run ends as it did."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

pytestmark = pytest.mark.fidelity


@pytest.fixture(scope="module")
def scripts(
    public_data: Path, measure: Callable[..., tuple[Any, Any]]
) -> Callable[..., tuple[Any, Any]]:
    needs_bwrap()
    for needed in ("mbpp/ic_mbpp.json", "recorded/ic_python_multiturn_gpt-3.5_7_turns.json"):
        if not (public_data / needed).exists():
            pytest.skip(f"no public data for Python: INTERCODE_DATA has no {needed}")
    return measure


@pytest.fixture(scope="module")
def replayed(scripts: Callable[..., tuple[Any, Any]], part: int) -> Any:
    return scripts("replay", "--set", "mbpp", part=part, may_miss=part > 1)[1][0]


@pytest.fixture(scope="module")
def golds(scripts: Callable[..., tuple[Any, Any]], part: int) -> Any:
    return scripts("golds", "--set", "mbpp", may_miss=True, part=part)[1]["mbpp"]


def test_the_recorded_run_ends_as_it_did_turn_by_turn(replayed: Any, part: int) -> None:
    assert replayed["episodes"] == math.ceil(117 / part)
    assert replayed["episodes_agree"] >= 0.98 * replayed["episodes"]
    recorded = 0.590 if part == 1 else replayed["recorded_success_rate"]
    assert replayed["replayed_success_rate"] == pytest.approx(recorded, abs=0.01)
    assert replayed["turns"] == replayed["agree"]
    assert replayed["turns"] == 430 if part == 1 else replayed["turns"] >= 30


def test_golds_solve_mbpp_under_both_rewards_and_nothing_solves_none(golds: Any, part: int) -> None:
    for mode in ("exact", "paper"):
        assert golds[mode]["tasks"] == math.ceil(974 / part)
        assert golds[mode]["tasks"] - golds[mode]["solved"]["gold"] <= math.ceil(4 / part)
        assert None not in golds[mode]["missed"].values()
        assert golds[mode]["solved"]["noop"] == 0
