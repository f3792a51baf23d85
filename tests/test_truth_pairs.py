"""The labelled pairs for the Bash rewards are well formed, and their golds run. Whether a label is true is not tested here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import View
from intercode.tasks import open_data

TRUTH = Path(__file__).parents[1] / "benchmarks" / "truth"
AT_LEAST = {"bash": 100, "bash_chatty": 90, "bash_held_out": 60, "bash_hedges": 10}
SETS: dict[str, list[dict[str, Any]]] = {
    name: [json.loads(line) for line in (TRUTH / f"{name}.jsonl").read_text().splitlines()] for name in AT_LEAST
}
RECORDS = list(chain(*SETS.values()))
HONEST = [*SETS["bash"], *SETS["bash_held_out"]]


def name_of(record: dict[str, Any]) -> str:
    task = record["task"]
    return task if isinstance(task, str) else str(task["id"])


NEW: list[dict[str, Any]] = [
    task for name, task in {name_of(record): record["task"] for record in RECORDS}.items() if isinstance(task, dict)
]
CHATTY = set(map(name_of, SETS["bash_chatty"]))
STRICT = [task for task in NEW if task["id"] not in CHATTY]
"""New tasks whose queries say all that counts; those of the chatty set are put as people put them."""
STARTER = {task.id: task for task in open_data(None, env="bash").tasks}
BORROWED = [record["task"] for record in RECORDS if isinstance(record["task"], str)]
FILES = Path(intercode.__file__).parent / "tasks" / "starter" / "bash"


def test_there_are_enough_tasks_and_no_two_of_both_sets_are_alike() -> None:
    assert all(len(SETS[name]) >= least for name, least in AT_LEAST.items())
    assert set(BORROWED) <= set(STARTER)
    assert len({name_of(record) for record in HONEST}) == len(HONEST)
    assert not {task["id"] for task in NEW} & set(STARTER)
    assert len({task["query"] for task in NEW}) == len(NEW)
    assert len({task["gold"] for task in STRICT}) == len(STRICT)


def test_new_tasks_have_all_their_fields_and_general_ones_say_so() -> None:
    assert all(set(task) == {"id", "query", "gold", "general"} for task in NEW)
    assert all(task["general"] == ("must also work on another copy" in task["query"]) for task in STRICT)


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_answers_have_their_fields_and_come_once(record: dict[str, Any]) -> None:
    answers = record["answers"]
    assert all(set(answer) == {"action", "right", "why"} and answer["why"] for answer in answers)
    assert len({answer["action"] for answer in answers}) == len(answers)


@pytest.mark.parametrize("record", HONEST, ids=name_of)
def test_each_task_has_right_answers_and_near_misses(record: dict[str, Any]) -> None:
    answers = record["answers"]
    assert 2 <= sum(answer["right"] for answer in answers) <= 4
    assert 2 <= sum(not answer["right"] for answer in answers) <= 5


@pytest.fixture(scope="module", params=["first", "second"])
def contents(request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """The starter set's files, and the new tasks whose golds must run on them."""
    needs_bwrap()
    other = request.param == "second"
    where = {"tree": FILES / "second", "setup": FILES / "second.sh"} if other else {}
    env = intercode.make("bash", view=View(head=None), max_turns=None, **where)
    yield env, [task for task in NEW if task["general"] or not other]
    env.close()


@pytest.mark.slow
def test_golds_run(contents: tuple[Any, list[dict[str, Any]]]) -> None:
    env, tasks = contents
    failed = {}
    for task in tasks:
        env.reset(options={"task": BORROWED[0]})
        said, _, _, _, info = env.step(task["gold"])
        if info["exit_code"] != 0 or "bash: line" in said:
            failed[task["id"]] = said
    assert failed == {}
