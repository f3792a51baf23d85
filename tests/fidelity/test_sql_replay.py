"""The recorded GPT-3.5 runs in SQL, executed again on MariaDB: rewards and success as recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from intercode.envs.sql.engines.mariadb import MariadbEngine

pytestmark = pytest.mark.fidelity

RUNS = {
    "try again, 1 turn": (0.995, 10.5),
    "try again, 10 turns": (0.993, 47.3),
    "react": (0.995, 58.7),
    "plan & solve": (0.992, 49.1),
}
"""The least share of turns that agree, and the recorded success in percent."""


@pytest.fixture(scope="module")
def measured(measure: Callable[..., tuple[Any, Any]], part: int) -> dict[str, Any]:
    """One run of the script, by name of the recorded run."""
    if why := MariadbEngine.missing():
        pytest.skip(why)
    _, details = measure("replay", "--set", "spider", may_miss=True, part=part)
    return {run["run"]: run for run in details}


@pytest.mark.parametrize("run", RUNS)
def test_rewards_agree_with_the_recorded_and_success_is_within_a_point(
    measured: dict[str, Any], run: str, part: int
) -> None:
    agreement, success = RUNS[run]
    figures = measured[run]
    if part > 1:
        agreement, success = agreement - 0.01, 100 * figures["recorded_success_rate"]
    assert figures["agreement"] >= agreement
    assert 100 * figures["replayed_success_rate"] == pytest.approx(success, abs=1)
