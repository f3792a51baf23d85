"""Whose fault it is when a sandbox of the Python environment dies: the grader's death is the machine's, a test's the data's."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.errors import DataError, SandboxDied
from intercode.sandbox.local import LocalSandbox
from intercode.types import Task

TASKS = [
    {"id": "double", "query": "Write double.", "gold": "def double(n):\n    return n + n", "tests": ["assert double(2) == 4"]},
    {"id": "exits", "query": "Write f.", "gold": "def f(x): return x", "tests": ["import os; os._exit(0)", "assert f(1) == 1"]},
    {"id": "kills", "query": "Write f.", "gold": "def f(x): return x", "tests": ["import os; os.kill(os.getpid(), 9)"]},
    {
        "id": "unseen",
        "query": "Write f.",
        "gold": "def f(x): return x",
        "tests": ["assert f(1)"],
        "hidden": ["import os; os._exit(0)"],
    },
]


@pytest.fixture
def env(tmp_path: Path, module_cache: Path) -> Iterator[Any]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    made: Any = intercode.make("python", data=str(tmp_path))
    yield made
    made.close()


def reward(env: Any) -> float:
    """Of an honest episode."""
    env.reset(options={"task": "double"})
    env.step("def double(n): return 2 * n")
    return float(env.step("submit double")[1])


def fell(sandbox: LocalSandbox) -> None:
    """End a cell from outside; returns when it is gone."""
    sandbox._wall.wall.end(sandbox._number)
    assert sandbox._ready.poll(10_000)


def named(env: Any, task: str) -> Task:
    return next(each for each in env.tasks if each.id == task)


def test_a_lost_grader_is_the_machines_fault_once_and_nobodys_after(env: Any) -> None:
    assert reward(env) == 1.0
    fell(env._shop._referee.sandbox)
    with pytest.raises(SandboxDied, match="did not happen again"):
        reward(env)
    assert [reward(env), reward(env)] == [1.0, 1.0]


def test_an_agent_that_submits_at_once_is_not_blamed_for_a_wall_that_fell_before(env: Any) -> None:
    assert reward(env) == 1.0
    env.reset(options={"task": "double"})
    os.kill(env._shop.agent._wall.wall._process.pid, signal.SIGKILL)
    assert env._shop.agent._ready.poll(10_000)
    with pytest.raises(SandboxDied, match="did not happen again"):
        env.step("submit")
    assert reward(env) == 1.0


@pytest.mark.parametrize("task", ["exits", "kills", "unseen"])
def test_a_test_that_ends_its_grader_whoever_answers_is_the_datas_fault(env: Any, task: str) -> None:
    env.reset(options={"task": task})
    env.step("def f(x): return x")
    with pytest.raises(DataError, match="ends its own process"):
        env.step("submit f")
    assert reward(env) == 1.0


def test_a_sandbox_that_is_lost_while_a_gold_is_tried_is_the_machines_fault(env: Any) -> None:
    task = named(env, "double")
    assert env.try_gold(task).faults == ()
    fell(env._shop._referee.sandbox)
    with pytest.raises(SandboxDied):
        env.try_gold(task)
    assert env.try_gold(task).faults == ()
