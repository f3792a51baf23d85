"""Whole runs of agents that break their sandboxes on every task: 0 % with 0 errors, and an honest run afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from families import alive, family, wait_until

pytestmark = pytest.mark.slow

HERE = f"{Path(__file__).parent}:{Path(__file__).parents[1]}"
AGENTS = ["kill_all", "leave", "replace", "kill_shell", "break_init", "break_init_later"]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_that_breaks_its_sandbox_on_every_task_scores_0_with_0_errors(cli: Any, agent: str) -> None:
    before = alive(family(os.getpid()))
    done = cli("eval", "bash", "--agent", f"hostile_agents:{agent}", "--out", "run", "--json", PYTHONPATH=HERE, timeout=300)
    found = done.json
    assert (done.status, done.err) == (0, "run: run\n")
    assert (found["episodes"], found["errors"], found["success_rate"], found["mean_reward"]) == (50, 0, 0.0, 0.0)
    assert wait_until(lambda: alive(family(os.getpid())) <= before)


@pytest.mark.parametrize("agent", ["kill_all", "break_init"])
def test_nor_does_it_earn_a_success_under_the_papers_protocol(cli: Any, agent: str) -> None:
    words = ("--agent", f"hostile_agents:{agent}", "--protocol", "paper", "--limit", 10, "--out", "run", "--json")
    done = cli("eval", "bash", *words, PYTHONPATH=HERE, timeout=300)
    assert (done.status, done.json["errors"], done.json["success_rate"]) == (0, 0, 0.0)


def test_an_honest_run_follows(cli: Any) -> None:
    done = cli("eval", "bash", "--agent", "gold", "--limit", 10, "--out", "run", "--json")
    assert (done.status, done.json["success_rate"]) == (0, 1.0)
