"""The labels of changed Python golds: every task has draws, golds show something on them, and what differs there is wrong."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv, View
from intercode.tasks import open_data
from intercode.types import Task

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from truth import python
    from truth.python_inputs import INPUTS
    from truth.python_mutants import mutants
    from truth.python_rewritings import local_names, renamed, rewritings
    from truth.python_uses import USES

TASKS = open_data(None, env="python").tasks
COUNTER = """
def count(words, least):
    found = {}
    for word in words:
        if len(word) >= least:
            found[word] = found.get(word, 0) + 1
    return [(word, number) for word, number in found.items() if number > 1]
"""


def test_each_task_has_draws_or_a_use() -> None:
    of_a_kind = {task.id: task.extra["kind"] in ("function", "calls", "program") for task in TASKS}
    assert {task for task, drawn in of_a_kind.items() if drawn or task == "span-of-time"} >= set(INPUTS)
    assert set(INPUTS) | set(USES) == set(of_a_kind)
    assert not set(INPUTS) & set(USES)


def test_mutants_of_a_function_are_of_many_kinds() -> None:
    found = Counter(what for what, _ in mutants(COUNTER))
    assert {"an edge the other way", "a number off by one", "another operator", "kept from one call to the next"} <= set(found)
    kept = next(code for what, code in mutants(COUNTER) if what == "kept from one call to the next")
    assert "def count(words, least, *, kept={}):\n    found = kept\n" in kept


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_mutants_are_other_programs_and_none_is_in_both_sets(task: Task) -> None:
    tuned, held_out = ([code for _, code in mutants(task.gold, held_out=which)] for which in (False, True))
    codes = {ast.unparse(ast.parse(code)) for code in (*tuned, *held_out)}
    assert len(tuned) >= 5
    assert ast.unparse(ast.parse(task.gold)) not in codes
    by_kind = [set(mutants(task.gold, held_out=which)) for which in (False, True)]
    assert not by_kind[0] & by_kind[1]


def test_what_is_rewritten_reads_otherwise() -> None:
    found = dict(rewritings(COUNTER))
    assert "if least <= len(word):" in found["sides of comparisons exchanged"]
    assert "gathered.append((word, number))" in found["a loop for a comprehension"]
    other = renamed(COUNTER, local_names(COUNTER, "count"))
    assert not {"words", "least", "found", "word", "number"} & set(other.replace("(", " ").replace(",", " ").split())
    assert "def count(" in other


@pytest.fixture(scope="module")
def env() -> Iterator[InterCodeEnv]:
    needs_bwrap()
    with closing(intercode.make("python", max_turns=None, view=View(head=None))) as env:
        yield env


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_golds_show_something_on_each_draw(env: InterCodeEnv, task: Task) -> None:
    seen = python._seen(env, task, (task.gold,), "" if task.extra["kind"] == "program" else task.extra["name"])
    assert seen is not None
    assert not [line for line in seen if "ends with" in line]
    assert len(set(seen)) >= 10


@pytest.mark.slow
def test_what_differs_on_a_draw_is_wrong_and_what_differs_on_none_is_right(env: InterCodeEnv) -> None:
    task = next(task for task in env.tasks if task.id == "free-slots")
    pairs = list(python._pairs(env, task, held_out=False))
    wrong = [pair for pair in pairs if not pair.right]
    assert "kept from one call to the next: def free_slots(busy, first, last, need, *, kept=[]):" in {
        pair.why for pair in wrong
    }
    assert {"local names exchanged", "under another name", "a loop for a comprehension"} & {
        pair.why for pair in pairs if pair.right
    }
    same = {code for _, code in mutants(task.gold)} - {pair.actions[0] for pair in wrong}
    golds = python._seen(env, task, (task.gold,), "free_slots")
    assert all(python._seen(env, task, (code,), "free_slots") in (golds, None) for code in same)


@pytest.mark.slow
def test_an_answer_that_does_not_end_has_no_label(env: InterCodeEnv) -> None:
    task = next(task for task in env.tasks if task.id == "free-slots")
    assert python._seen(env, task, ("def mine(*given):\n    while True: pass",), "mine") is None
    assert python._seen(env, task, ("import os\ndef mine(*given): os._exit(0)",), "mine") is None
    assert python._seen(env, task, ("def mine(*given): return given",), "mine") is not None


@pytest.mark.parametrize(
    ("mine", "gold", "apart"),
    [
        (["[1]", "[2]"], ["[1]", "[2]"], False),
        (["[1]", "[True]"], ["[1]", "[1.0]"], False),
        (["[1]", "[(2,)]"], ["[1]", "[[2]]"], True),
        (["[<a>]"], ["[<b>]"], True),
    ],
)
def test_results_are_compared_as_values(mine: list[str], gold: list[str], apart: bool) -> None:
    assert python._apart(mine, gold) is apart
