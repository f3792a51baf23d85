"""The recorded GPT-3.5 runs in SQL, executed again on MariaDB: rewards and success as recorded."""

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
    """One run of the script, by name of the recorded run."""
    if why := mariadbd.missing():
        pytest.skip(why)
    _, details = measure("replay_sql", may_miss=True)
    return {run["run"]: run for run in details}


@pytest.mark.parametrize("run", AGREEMENT)
def test_rewards_agree_with_the_recorded(measured: dict[str, Any], run: str) -> None:
    assert measured[run]["agreement"] >= AGREEMENT[run]


@pytest.mark.parametrize("run", SUCCESS)
def test_success_is_within_a_point_of_the_recorded(measured: dict[str, Any], run: str) -> None:
    assert 100 * measured[run]["replayed_success_rate"] == pytest.approx(SUCCESS[run], abs=1)
