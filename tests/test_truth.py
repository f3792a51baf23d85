"""The labelled answers of benchmarks/truth: well formed, on golds that run. Whether a label is true
is not tested here."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv
from intercode.tasks import open_data
from intercode.types import Task, View

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from truth import python
    from truth.bash import SETS, STARTER
    from truth.python_mutants import mutants

pytestmark = pytest.mark.soak
PYTHON_TASKS = open_data(None, env="python").tasks


@pytest.mark.parametrize("name", SETS)
def test_every_answer_has_its_fields_and_comes_once(name: str) -> None:
    records = [json.loads(line) for line in SETS[name].read_text().splitlines()]
    starter = {task.id for task in open_data(None, env="bash").tasks}
    for record in records:
        task, answers = record["task"], record["answers"]
        assert (
            task in starter
            if isinstance(task, str)
            else set(task) == {"id", "query", "gold", "general"}
        )
        assert all(
            set(answer) == {"action", "right", "why"} and answer["why"] for answer in answers
        )
        assert len({answer["action"] for answer in answers}) == len(answers)


@pytest.mark.parametrize("other", [False, True], ids=["first", "second"])
def test_bash_golds_run(other: bool) -> None:
    needs_bwrap()
    records = [
        json.loads(line)["task"] for file in SETS.values() for line in file.read_text().splitlines()
    ]
    new: list[dict[str, Any]] = [
        task for task in records if isinstance(task, dict) and (task["general"] or not other)
    ]
    where = {"tree": STARTER / "second", "setup": STARTER / "second.sh"} if other else {}
    with closing(intercode.make("bash", view=View(head=None), max_turns=None, **where)) as env:
        for task in new:
            env.reset(options={"task": 0})
            said, _, _, _, info = env.step(task["gold"])
            assert info["exit_code"] == 0, task["id"]
            assert "bash: line" not in said, task["id"]


@pytest.fixture(scope="module")
def env() -> Iterator[InterCodeEnv]:
    needs_bwrap()
    with closing(intercode.make("python", max_turns=None, view=View(head=None))) as env:
        yield env


@pytest.mark.parametrize("task", PYTHON_TASKS, ids=lambda task: task.id)
def test_python_golds_show_something_on_each_draw_and_mutants_are_other_programs(
    env: InterCodeEnv, task: Task
) -> None:
    seen = python._seen(
        env, task, (task.gold,), "" if task.extra["kind"] == "program" else task.extra["name"]
    )
    assert seen is not None
    assert not [line for line in seen if "ends with" in line]
    assert len(set(seen)) >= 10
    by_kind = [set(mutants(task.gold, held_out=which)) for which in (False, True)]
    assert len(by_kind[0]) >= 5
    assert not by_kind[0] & by_kind[1]
    assert ast.unparse(ast.parse(task.gold)) not in {
        ast.unparse(ast.parse(code)) for kind in by_kind for _, code in kind
    }


def test_an_answer_that_does_not_end_has_no_label(env: InterCodeEnv) -> None:
    task = next(task for task in env.tasks if task.id == "free-slots")
    assert python._seen(env, task, ("def mine(*given):\n    while True: pass",), "mine") is None
    assert python._seen(env, task, ("def mine(*given): return given",), "mine") is not None
