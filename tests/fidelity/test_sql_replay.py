"""The recorded GPT-3.5 runs in SQL, executed again on MariaDB: rewards and success as recorded, a cause for what differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from intercode.engines import mariadbd

pytestmark = pytest.mark.fidelity

AGREEMENT = {"try again, 1 turn": 0.995, "try again, 10 turns": 0.993, "react": 0.995, "plan & solve": 0.992}
SUCCESS = {"try again, 1 turn": 10.5, "try again, 10 turns": 47.3, "react": 58.7, "plan & solve": 49.1}


@pytest.fixture(scope="module")
def measured(measure: Callable[..., tuple[Any, Any]]) -> dict[str, Any]:
    """One run of the script, by name of the recorded run. It also tries its rules on 40 turns of each with a wrong reward."""
    if why := mariadbd.missing():
        pytest.skip(why)
    _, details = measure("replay_sql", "--control", "40", may_miss=True)
    return {run["run"]: run for run in details}


@pytest.mark.parametrize("run", AGREEMENT)
def test_rewards_agree_with_the_recorded(measured: dict[str, Any], run: str) -> None:
    assert measured[run]["agreement"] >= AGREEMENT[run]


@pytest.mark.parametrize("run", SUCCESS)
def test_success_is_within_a_point_of_the_recorded(measured: dict[str, Any], run: str) -> None:
    assert 100 * measured[run]["replayed_success_rate"] == pytest.approx(SUCCESS[run], abs=1)


@pytest.mark.parametrize("run", AGREEMENT)
def test_at_most_two_turns_in_a_thousand_have_no_cause(measured: dict[str, Any], run: str) -> None:
    unexplained = [(cause["task"], cause["turn"]) for cause in measured[run]["causes"] if cause["cause"] == "unexplained"]
    assert len(unexplained) <= 0.002 * measured[run]["turns"], unexplained


@pytest.mark.parametrize("run", AGREEMENT)
def test_each_disagreement_has_an_entry(measured: dict[str, Any], run: str) -> None:
    assert len(measured[run]["causes"]) == measured[run]["turns"] - measured[run]["agree"]


def test_the_rules_do_not_explain_wrong_rewards(measured: dict[str, Any]) -> None:
    explained, tried = (sum(run["control"][place] for run in measured.values()) for place in (0, 1))
    assert tried == 40 * len(measured)
    assert explained <= 0.05 * tried
