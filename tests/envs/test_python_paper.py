"""The paper's protocol in Python: under which name a turn's function is submitted, and tasks that the paper did not have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode

TASKS: list[dict[str, Any]] = [
    {
        "id": "blank",
        "query": "Double a number.",
        "gold": "def half (n):\n    return n / 2\ndef double(n):\n    return n + n",
        "tests": ["assert double(2) == 4", "assert double(0.5) == 1"],
    },
    {
        "id": "helper",
        "query": "Double a number.",
        "gold": "def same(n):\n    return n\ndef double(n):\n    return same(n) + n",
        "tests": ["assert double(2) == 4", "assert double(0.5) == 1"],
    },
    {"id": "alone", "query": "Double.", "gold": "def double (n):\n    return n + n", "tests": ["assert double(2) == 4"]},
    {
        "id": "class",
        "query": "Write a class Bag with put and size.",
        "gold": "class Bag(list):\n    put = list.append\n    size = list.__len__",
        "name": "Bag",
        "script": "b = Bag()\nb.put(3)\nprint(b.size())",
        "expected": "1",
    },
    {"id": "program", "query": "Shout.", "gold": "print(input().upper())", "cases": {"inputs": ["ab"], "outputs": ["AB"]}},
]
DOUBLE = "def f(n):\n    return n * 2"
Rewards = Callable[..., list[float]]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory, module_cache: Path) -> Iterator[Any]:
    needs_bwrap()
    data = tmp_path_factory.mktemp("paper") / "tasks.json"
    data.write_text(json.dumps(TASKS))
    with closing(intercode.make("python", data=str(data), protocol="paper")) as made:
        yield made


@pytest.fixture
def rewards(env: Any) -> Rewards:
    def played(task: str, *actions: str) -> list[float]:
        env.reset(options={"task": task})
        return [env.step(action)[1] for action in actions]

    return played


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["id"])
def test_a_gold_earns_1_in_its_first_turn(rewards: Rewards, task: dict[str, Any]) -> None:
    assert rewards(task["id"], task["gold"]) == [1.0]


def test_a_function_with_a_blank_before_its_parenthesis_is_passed_over(rewards: Rewards) -> None:
    assert rewards("blank", DOUBLE) == [1.0]


def test_where_it_is_the_only_one_it_counts(rewards: Rewards) -> None:
    assert rewards("alone", DOUBLE) == [1.0]


def test_where_the_golds_first_function_is_a_helper_the_answer_cannot_be_named(rewards: Rewards) -> None:
    assert rewards("helper", DOUBLE) == [0.0]


def test_classes_and_programs_may_take_several_turns(rewards: Rewards) -> None:
    assert rewards("class", "x = 1", "class Bag: pass", TASKS[3]["gold"]) == [0.0, 0.0, 1.0]
    assert rewards("program", "print(1)", "print(input().upper())") == [0.0, 1.0]
