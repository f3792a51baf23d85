"""MBPP: its golds solve it, and the recorded GPT-3.5 run ends as it did."""

from __future__ import annotations

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
def replayed(scripts: Callable[..., tuple[Any, Any]]) -> Any:
    return scripts("replay", "--set", "mbpp")[1][0]


@pytest.fixture(scope="module")
def golds(scripts: Callable[..., tuple[Any, Any]]) -> Any:
    return scripts("golds", "--set", "mbpp", may_miss=True)[1]["mbpp"]


def test_the_recorded_run_ends_as_it_did_turn_by_turn(replayed: Any) -> None:
    assert replayed["episodes"] == 117
    assert replayed["episodes_agree"] >= 0.98 * replayed["episodes"]
    assert replayed["replayed_success_rate"] == pytest.approx(0.590, abs=0.01)
    assert replayed["turns"] == replayed["agree"] == 430


def test_golds_solve_mbpp_under_both_rewards_and_nothing_solves_none(golds: Any) -> None:
    for mode in ("exact", "paper"):
        assert golds[mode]["tasks"] == 974
        assert golds[mode]["solved"]["gold"] >= 970
        assert None not in golds[mode]["missed"].values()
        assert golds[mode]["solved"]["noop"] == 0
