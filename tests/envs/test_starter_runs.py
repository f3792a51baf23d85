"""The starter tasks in SQL and Python, played: golds earn 1 under every option, and doing nothing earns 0.

Bash's and CTF's are in `test_starter_bash.py` and `test_starter_ctf.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from kept import needs_bwrap
from orchard import skip_unless_there

import intercode
from intercode.agents import gold, noop
from intercode.runner.check import check
from intercode.runner.run import evaluate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("sql", {"engine": "sqlite"}),
        ("sql", {"engine": "mariadb", "robust": True}),
        ("sql", {"engine": "sqlite", "protocol": "paper"}),
        ("python", {}),
        ("python", {"protocol": "paper"}),
    ],
    ids=str,
)
def test_every_gold_is_right_and_doing_nothing_is_not(env: str, options: dict[str, Any]) -> None:
    needs_bwrap()
    skip_unless_there(options.get("engine", "sqlite"))
    setting = intercode.prepare(env, max_turns=None, **options)
    golds, nothings = (evaluate(setting, agent, tasks=setting.tasks, workers=2) for agent in (gold, noop))
    assert len(golds) >= 40
    assert [e.task for e in golds if not e.success or e.reward != 1 or e.parts.get("robust", 1) != 1] == []
    assert [e.task for e in nothings if e.success or e.reward != 0 or e.error] == []


@pytest.mark.soak
@pytest.mark.parametrize("env", ["sql", "python"])
def test_the_data_check_finds_nothing(env: str) -> None:
    needs_bwrap()
    setting = intercode.prepare(env, max_turns=None)
    assert check(setting, setting.tasks, workers=2)["broken"] == []
