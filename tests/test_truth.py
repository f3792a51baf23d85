"""The labelled answers of benchmarks/truth: well formed, on golds that run. Whether a label is true
is not tested here."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.tasks import open_data
from intercode.types import View

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from truth import python
    from truth.bash import SETS, STARTER

pytestmark = pytest.mark.soak


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


def test_each_python_task_has_a_mistake_that_shows_and_right_answers_that_mean_the_same() -> None:
    needs_bwrap()
    pairs = list(python.labelled())
    wrong = [pair.task for pair in pairs if not pair.right]
    assert wrong == [task.id for task in open_data(None, env="python").tasks]
    assert {pair.task for pair in pairs if pair.right} == set(wrong)


def test_a_python_mistake_that_nothing_shows_has_no_label() -> None:
    needs_bwrap()
    with closing(intercode.make("python", max_turns=None, view=View(head=None))) as env:
        task = next(task for task in env.tasks if task.id == "free-slots")
        mistake = {"old": "begin - start", "new": "begin-start", "shows": "", "why": "none"}
        with pytest.raises(ValueError, match="nothing shows the mistake"):
            list(python._pairs(env, task, mistake))
