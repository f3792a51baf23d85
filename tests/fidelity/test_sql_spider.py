"""Spider's golds, the floor of the rewards, WikiSQL's broken golds, and BIRD without its databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from intercode.engines import mariadbd

pytestmark = pytest.mark.fidelity

REFUSED = ["164", "178", "225", "531", "638", "802"]
"""Tasks whose gold is not MySQL, as the data's own description has it."""
MODES = ("paper", "exact")


@pytest.fixture(scope="module")
def measured(measure: Callable[..., tuple[Any, Any]]) -> dict[str, Any]:
    """One run of the script."""
    if why := mariadbd.missing():
        pytest.skip(why)
    _, details = measure("spider", may_miss=True)
    return dict(details)


def test_at_least_1028_golds_solve_their_tasks_under_the_papers_protocol(measured: dict[str, Any]) -> None:
    assert measured["played"]["paper"]["solved"]["gold"] >= 1028


@pytest.mark.parametrize("mode", MODES)
def test_the_golds_that_miss_on_mariadb_are_those_it_refuses(measured: dict[str, Any], mode: str) -> None:
    assert measured["played"][mode]["missed"] == REFUSED


@pytest.mark.parametrize("mode", MODES)
def test_a_gold_that_runs_solves_its_task(measured: dict[str, Any], mode: str) -> None:
    assert measured["played"][mode]["faulty"] == []


@pytest.mark.parametrize("mode", MODES)
def test_all_golds_are_evaluated_in_a_minute(measured: dict[str, Any], mode: str) -> None:
    assert measured["played"][mode]["seconds"] < 60


@pytest.mark.parametrize("mode", MODES)
def test_no_answer_earns_nothing_and_a_constant_little(measured: dict[str, Any], mode: str) -> None:
    played = measured["played"][mode]
    assert played["mean"]["noop"] == 0
    assert played["solved"]["noop"] == 0
    assert played["mean"]["SELECT 1"] < 0.02


def test_check_names_each_gold_of_wikisql_that_does_not_run(measured: dict[str, Any]) -> None:
    wikisql = measured["wikisql"]
    assert wikisql["tasks"] == 196
    assert 0 < wikisql["run"] < 50
    assert wikisql["failing"] == wikisql["tasks"] - wikisql["run"]


def test_bird_loads_and_says_that_its_databases_are_missing(measured: dict[str, Any]) -> None:
    assert measured["bird"]["tasks"] == 338
    assert "--databases" in measured["bird"]["error"]
