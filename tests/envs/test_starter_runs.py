"""The starter tasks of all environments, played: golds earn 1 under every option, and doing nothing
earns no success."""

from __future__ import annotations

from typing import Any

import pytest
from kept import needs_bwrap
from orchard import skip_unless_there

import intercode
from intercode.agents import gold, noop
from intercode.runner.run import evaluate
from intercode.validate.check import check


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("bash", {}),
        pytest.param("bash", {"protocol": "paper"}, marks=pytest.mark.soak),
        pytest.param("bash", {"reward": "paper"}, marks=pytest.mark.soak),
        pytest.param("bash", {"protocol": "paper", "reward": "exact"}, marks=pytest.mark.soak),
        ("sql", {"engine": "sqlite"}),
        ("sql", {"engine": "sqlite", "protocol": "paper"}),
        ("sql", {"engine": "mariadb", "robust": True}),
        pytest.param("sql", {"engine": "mariadb", "protocol": "paper"}, marks=pytest.mark.soak),
        ("python", {}),
        pytest.param("python", {"protocol": "paper"}, marks=pytest.mark.soak),
        ("ctf", {}),
        pytest.param("ctf", {"protocol": "paper"}, marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_every_gold_is_right_and_doing_nothing_is_not(env: str, options: dict[str, Any]) -> None:
    needs_bwrap()
    if env == "sql":
        skip_unless_there(options["engine"])
    factory = intercode.prepare(env, max_turns=None, **options)
    golds, nothings = (
        evaluate(factory, agent, tasks=factory.tasks, workers=2) for agent in (gold, noop)
    )
    assert len(golds) >= 20
    assert {e.task: e.error or e.parts for e in golds if not e.success or e.reward != 1} == {}
    assert [e.task for e in nothings if e.success or e.error] == []


@pytest.mark.soak
@pytest.mark.parametrize("env", ["sql", "python"])
def test_the_data_check_finds_nothing(env: str) -> None:
    needs_bwrap()
    factory = intercode.prepare(env, max_turns=None)
    assert check(factory, factory.tasks, workers=2)["broken"] == []
