"""The starter set for Python keeps what its README promises, in the sandbox in which it is
played."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from kept import needs_bwrap
from starter_python_answers import MISSES, SECOND

import intercode
from intercode.envs.python.suite import read_suite
from intercode.tasks import open_data
from intercode.tasks.dataset import STARTER
from intercode.types import Task

pytestmark = pytest.mark.slow

TASKS = {task.id: task for task in open_data(None, env="python").tasks}
TREE = STARTER / "python" / "tree"


def test_records_hold_what_the_readme_counts() -> None:
    """Enough tests a task, one of a function's calls it again, and a `looks` task names a file that
    is there."""
    for task in TASKS.values():
        files = [
            TREE / path.rstrip(".")
            for path in re.findall(r"/((?:ropeway|press)/[\w./-]+)", task.query)
        ]
        assert bool(files) == task.extra["looks"], task.id
        assert all(path.is_file() for path in files), task.id
        tests = read_suite(task).tests
        for hidden, least in ((False, 3), (True, 5)):
            chosen = [test for test in tests if test.hidden is hidden]
            lines = sum(test.expected.count("\n") for test in chosen)
            assert (lines if chosen[0].kind == "script" else len(chosen)) >= least, task.id
        if task.extra["kind"] in ("function", "calls"):
            assert (
                max(test.text.count(f"{task.extra['name']}(") for test in tests if test.hidden) == 3
            ), task.id


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    needs_bwrap()
    made = intercode.make("python", max_turns=None, seconds=6.0)
    yield made
    made.close()


def solves(env: Any, task: Task, code: str) -> bool:
    env.reset(options={"task": task.id})
    env.step(code)
    return bool(env.step("submit")[4]["score"].success)


def test_a_second_solution_built_differently_is_right(env: Any) -> None:
    assert [name for name, code in SECOND.items() if not solves(env, TASKS[name], code)] == []


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_near_miss_is_wrong(env: Any, every: int) -> None:
    assert set(MISSES) == set(TASKS)
    for name, (right, wrong) in list(MISSES.items())[::every]:
        assert right in TASKS[name].gold, name
        assert not solves(env, TASKS[name], TASKS[name].gold.replace(right, wrong)), name


@pytest.mark.soak
def test_a_table_of_the_public_tests_is_wrong(env: Any) -> None:
    """What passes every test that the agent may see is not paid: the hidden ones decide."""
    for task in TASKS.values():
        if task.extra["kind"] != "function":
            continue
        public = [test.text for test in read_suite(task).tests if not test.hidden]
        known = [re.fullmatch(r"assert \w+\((.*)\) == (.*)", text, re.DOTALL) for text in public]
        lines = [f"KNOWN[repr([{found[1]}])] = {found[2]}" for found in known if found]
        answer = f"def {task.extra['name']}(*args):\n    return KNOWN.get(repr([*args]))"
        table = "\n".join(["KNOWN = {}", *lines, answer])
        env.reset(options={"task": task.id})
        env.step(table)
        score = env.step("submit")[4]["score"]
        assert not score.success, task.id
        assert score.parts["public"] == 1.0, task.id
