"""From a task's record to its tests: texts in, texts out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from intercode.envs.python.grading import same_text
from intercode.envs.python.layouts import LAYOUTS
from intercode.envs.python.suite import Suite, find_empty_tests, read_suite
from intercode.errors import DataError
from intercode.tasks import load_tasks
from intercode.types import Task

TESTS = ["assert f(1) == 2"]
UNUSABLE = [
    ({}, "has no tests"),
    ({"tests": ["assert f("]}, "no Python"),
    ({"tests": ["assert f(" + "-" * 200_000 + "1)"]}, "nested too deep"),
    ({"cases": {"inputs": [1], "outputs": []}}, "pairs"),
    ({"cases": {"inputs": {"1": 1}, "outputs": ["2"]}}, "pairs.*`inputs` is"),
    ({"cases": {"inputs": ["1"], "outputs": "2"}}, "pairs.*`outputs` is"),
    ({"input_output": "{"}, "pairs"),
    ({"input_output": "[" * 100_000}, "no form that is known"),
    *(
        (record, "task t: its tests are")
        for record in (
            {"tests": 5},
            {"tests": TESTS[0]},
            {"tests": [""]},
            {"tests": [*TESTS, None]},
            {"tests": TESTS, "hidden": True},
            {"tests": TESTS, "test_setup_code": ["import math"]},
            {"tests": TESTS, "name": ["f"]},
            {"script": ["print(f(1))"], "expected": "2"},
            {"script": "print(f(1))", "expected": ["2"]},
            {"tests": TESTS, "hidden_script": 5},
            {"cases": {"fn_name": ["f"], "inputs": [[1]], "outputs": [2]}},
        )
    ),
]


def suite(gold: str, **record: Any) -> Suite:
    return read_suite(Task("t", "q", gold, record))


def test_names_arguments_and_hidden_tests_are_read_off_gold_and_tests() -> None:
    gold = "def part(x): return x\ndef whole(x, y=1): return part(x)"
    found = suite(
        gold, tests=["assert sorted(whole([2, 1])) == [1, 2]"], hidden=["assert not whole([])"]
    )
    assert (found.name, found.arity, [test.hidden for test in found.tests]) == (
        "whole",
        (1, 2),
        [False, True],
    )
    assert suite(gold, tests=["assert whole(1) == 1"], name="part").name == "part"
    assert suite("def f(a, *b): pass", tests=["assert f(1)"]).arity == (1, -1)
    found = suite(
        "import sys\nclass Pair: pass\ndef f(p): pass",
        tests=["import math\nassert f(Pair(math.pi, sys.maxsize))"],
    )
    assert (found.names, found.setup) == (("Pair", "f"), ("import sys",))


def test_cases_with_a_function_are_calls_and_others_are_programs() -> None:
    calls = suite(
        "def f(a): pass", cases={"fn_name": "f", "inputs": [[1], [True]], "outputs": [2, [3]]}
    )
    assert (calls.program, calls.name) == (False, "f")
    program = suite("print(1)", cases={"inputs": ["1\n", ["2", "3"]], "outputs": ["1", ["4"]]})
    assert program.program
    assert [(test.stdin, test.expected) for test in program.tests] == [("1\n", "1"), ("2\n3", "4")]


def published(record: dict[str, Any]) -> Task:
    (task,) = load_tasks(__file__, records=lambda _: [record], layouts=LAYOUTS)
    return task


def test_apps_and_mbpp_records_are_read_as_they_are_published() -> None:
    cases = json.dumps({"inputs": ["1\n"], "outputs": ["1\n"]})
    record = {
        "question": "Echo.",
        "solutions": json.dumps(["print(input())", "…"]),
        "input_output": cases,
        "problem_id": 7,
    }
    task = published({**record, "starter_code": "def f():"})
    assert (task.query, task.id) == ("Echo.\n\nStart from this:\ndef f():", "7")
    assert task.gold == "print(input())"
    assert read_suite(task).preamble.startswith("import sys, ")
    assert read_suite(task).program
    task = published(
        {"text": "q", "code": "def f(): pass", "test_list": ["assert f() is None"], "task_id": 2}
    )
    assert (task.query, task.gold, task.extra["tests"]) == (
        "q",
        "def f(): pass",
        ["assert f() is None"],
    )


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("assert f(1)", True),
        ("assert True", False),
        ("x = [f]\nassert x[0](1)", True),
        ("assert all(map(f, [1]))", True),
        ("assert len([1]) == 1", False),
        ("def f(x): return x\nassert f(1)", False),
        ("assert g(1)", True),
    ],
)
def test_a_test_uses_the_answer_or_any_answer_passes_it(text: str, does: bool) -> None:
    gold = "def f(x): return g(x)\ndef g(x): return x"
    assert list(find_empty_tests(suite(gold, tests=[text, "assert f(1)"]))) == ([] if does else [1])
    assert list(find_empty_tests(suite(gold, script=text, expected="1"))) == ([] if does else [1])


def test_an_answer_is_used_under_a_builtins_name_and_by_a_setup() -> None:
    assert list(
        find_empty_tests(
            suite("def sum(a): return a", tests=["assert sum(1) == 1", "assert max(1, 2) == 2"])
        )
    ) == [2]
    assert not list(
        find_empty_tests(
            suite("def f(): pass", tests=["assert x is None"], test_setup_code="x = f()")
        )
    )
    assert not list(find_empty_tests(suite("print(1)", cases={"inputs": [""], "outputs": ["1"]})))


@pytest.mark.parametrize(("record", "complaint"), UNUSABLE)
def test_a_record_without_usable_tests_is_the_datas_fault(
    record: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DataError, match=complaint):
        suite("def f(x): return x + 1", **record)


def test_solutions_in_no_known_form_are_the_datas_fault() -> None:
    for solutions in ("[bad", {"a": 1}, 5):
        with pytest.raises(DataError, match="the field `solutions` is"):
            published({"question": "Echo.", "solutions": solutions, "input_output": ""})


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("1 2 \n\n", "1 2\n", True),
        ("1\r\n2", "1\n2", True),
        ("\n \n1\n", "1", True),
        ("\n\n", "", True),
        ("1.0", "1", False),
        ("2\n1", "1\n2", False),
        (" 1", "1", False),
        ("1\n\n2", "1\n2", False),
    ],
)
def test_blanks_at_the_ends_of_lines_and_empty_lines_around_do_not_count(
    printed: str, expected: str, same: bool
) -> None:
    assert same_text(printed, expected) is same
