"""Whole runs of agents that break their sandboxes on every task: 0 % with 0 errors, and an honest run afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from families import OVERWRITE_INIT, alive, family, wait_until

from intercode.agents import Act, Moves
from intercode.types import Task

pytestmark = pytest.mark.slow


def _always(action: str) -> Callable[[Task, str], Moves]:
    """An agent that does this on every task, and submits if it still can."""

    def strategy(task: Task, protocol: str) -> Moves:
        yield Act(action)
        if protocol == "submit":
            yield Act("submit")

    strategy.needs_model = False  # type: ignore[attr-defined]
    return strategy


kill_all = _always("kill -9 -1")
leave = _always("exit")
replace = _always("exec true")
kill_shell = _always("kill -9 $$")
break_init = _always(OVERWRITE_INIT)
break_init_later = _always(f"( {OVERWRITE_INIT} ) >/dev/null 2>&1 & sleep 0.02")


@pytest.mark.parametrize("agent", ["kill_all", "leave", "replace", "kill_shell", "break_init", "break_init_later"])
def test_an_agent_that_breaks_its_sandbox_on_every_task_scores_0_with_0_errors(cli: Any, box: Path, agent: str) -> None:
    before = alive(family(os.getpid()))
    words = ("eval", "bash", "--data", box, "--json", "--agent")
    done = cli(*words, f"{__file__}:{agent}", "--out", "run")
    assert (done.status, done.err) == (0, "run: run\n")
    found = done.json
    assert (found["episodes"], found["errors"], found["success_rate"], found["mean_reward"]) == (5, 0, 0.0, 0.0)
    paper = cli(*words, f"{__file__}:{agent}", "--protocol", "paper").json
    assert (paper["errors"], paper["success_rate"]) == (0, 0.0)
    assert cli(*words, "gold").json["success_rate"] == 1.0
    assert wait_until(lambda: alive(family(os.getpid())) <= before)
