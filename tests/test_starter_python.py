"""The starter set for Python keeps what its README promises. Plain processes stand in for the sandbox: only the data is tested.

A solution passes a side (public or hidden) if every assert holds, every call and program gives its output, or the script prints
what it should. Paths into the set's tree are turned to where it lies in the package.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starter_python_answers import MISSES, SECOND

from intercode.interpreters import suite_of
from intercode.tasks import open_data
from intercode.tasks.dataset import STARTER
from intercode.types import Task

TASKS = open_data(None, env="python").tasks
BY_ID = {task.id: task for task in TASKS}
CALLED = [task for task in TASKS if task.extra["kind"] in ("function", "calls")]
TREE = STARTER / "python" / "tree"
TOPS = sorted(path.name for path in TREE.iterdir())
SIDES = {"public": ("tests", ""), "hidden": ("hidden", "hidden_")}
SECONDS = 10


def ran(code: str, given: str = "") -> subprocess.CompletedProcess[str]:
    for top in TOPS:
        code = code.replace(f'"/{top}/', f'"{TREE}/{top}/')
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS)


def pairs(task: Task, side: str) -> Iterator[tuple[Any, Any]]:
    """Inputs and outputs of cases, as they are in the record."""
    cases = task.extra.get(f"{SIDES[side][1]}cases", {"inputs": [], "outputs": []})
    yield from zip(cases["inputs"], cases["outputs"], strict=True)


def asserts(task: Task, side: str) -> list[str]:
    """Tests by value, those of cases put into the same form."""
    written = list(task.extra.get(SIDES[side][0], ()))
    if task.extra["kind"] != "calls":
        return written
    return [*(f"assert {task.extra['name']}(*{given!r}) == {expected!r}" for given, (expected,) in pairs(task, side)), *written]


def passes(task: Task, code: str, side: str) -> bool:
    try:
        return PASSES.get(task.extra["kind"], passes_script)(task, code, side)
    except subprocess.TimeoutExpired:
        return False


def passes_asserts(task: Task, code: str, side: str) -> bool:
    return ran("\n".join([code, *asserts(task, side)])).returncode == 0


def passes_program(task: Task, code: str, side: str) -> bool:
    done = ((ran(code, given), expected) for given, expected in pairs(task, side))
    return all(run.returncode == 0 and run.stdout == expected for run, expected in done)


def passes_script(task: Task, code: str, side: str) -> bool:
    prefix = SIDES[side][1]
    run = ran(f"{code}\n\n\n{task.extra[prefix + 'script']}")
    return run.returncode == 0 and run.stdout == task.extra[prefix + "expected"]


PASSES: dict[str, Callable[[Task, str, str], bool]] = {
    "function": passes_asserts,
    "calls": passes_asserts,
    "program": passes_program,
}


def table(task: Task) -> str:
    """A solution that knows the public tests and nothing else."""
    if task.extra["kind"] == "program":
        return f"import sys\nprint({dict(pairs(task, 'public'))!r}.get(sys.stdin.read(), ''), end='')"
    known = (re.fullmatch(r"assert \w+\((.*)\) == (.*)", text, re.DOTALL) for text in asserts(task, "public"))
    lines = [f"KNOWN[repr(list(({found[1]},)))] = {found[2]}" for found in known if found]
    return "\n".join(["KNOWN = {}", *lines, f"def {task.extra['name']}(*args):", "    return KNOWN.get(repr(list(args)))"])


def named(task: Task) -> str:
    return task.id


# -- the records --------------------------------------------------------------------------------------------------------


def test_there_are_enough_tasks_with_enough_ideas() -> None:
    assert len(TASKS) >= 48
    assert max(Counter(task.extra["idea"] for task in TASKS).values()) <= 4
    assert len({task.query for task in TASKS}) == len({task.gold for task in TASKS}) == len(BY_ID) == len(TASKS)


def test_there_are_enough_of_each_kind() -> None:
    kinds = Counter(task.extra["kind"] for task in TASKS)
    least = {"function": 6, "calls": 6, "program": 6, "class": 6, "generator": 3, "script": 3}
    assert set(kinds) == set(least)
    assert all(kinds[kind] >= number for kind, number in least.items())


def test_at_least_a_third_of_the_tasks_cannot_be_done_unread() -> None:
    looks = [task for task in TASKS if task.extra["looks"]]
    assert len(looks) * 3 >= len(TASKS)
    for task in TASKS:
        files = [TREE / path.rstrip(".") for path in re.findall(r"/((?:ropeway|press)/[\w./-]+)", task.query)]
        assert bool(files) == task.extra["looks"], task.id
        assert all(path.is_file() for path in files), task.id


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_records_are_whole(task: Task) -> None:
    assert len(task.extra["why"].split()) >= 9
    suite = suite_of(task)
    assert suite.name == task.extra["name"]
    assert suite.program == (task.extra["kind"] == "program")
    for hidden, least in ((False, 3), (True, 5)):
        tests = [test for test in suite.tests if test.hidden is hidden]
        lines = [line for test in tests for line in test.expected.splitlines()]
        assert len(lines if tests[0].kind == "script" else tests) >= least


@pytest.mark.parametrize("task", CALLED, ids=named)
def test_asserts_compare_a_call_with_a_plain_value_and_one_hidden_several(task: Task) -> None:
    *single, several = [*asserts(task, "public"), *asserts(task, "hidden")]
    for text in single:
        call, _ = compared(text)
        assert is_call(call, task)
    found, values = compared(several)
    assert isinstance(found, ast.List)
    assert sum(is_call(node, task) for node in ast.walk(found)) == len(found.elts) == len(values) == 3
    assert ast.dump(found.elts[0]) == ast.dump(found.elts[2]) != ast.dump(found.elts[1])
    assert values[0] == values[2]


def compared(text: str) -> tuple[ast.expr, Any]:
    """What an assert compares, and with which value, in which there is no float."""
    (statement,) = ast.parse(text).body
    assert isinstance(statement, ast.Assert)
    assert isinstance(statement.test, ast.Compare)
    value = ast.literal_eval(statement.test.comparators[0])
    assert not any(isinstance(each, float) for each in scalars(value))
    return statement.test.left, value


def is_call(node: ast.AST, task: Task) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == task.extra["name"]


def scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | dict):
        for each in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from scalars(each)
    else:
        yield value


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_golds_and_tests_need_no_clock_chance_or_network(task: Task) -> None:
    texts = [task.gold, *(task.extra.get(name, "") for name in ("script", "hidden_script"))]
    trees = [ast.walk(ast.parse(text)) for text in texts]
    names = {node.id for tree in trees for node in tree if isinstance(node, ast.Name)}
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", "\n".join(texts), re.MULTILINE))
    assert not imported & {"time", "random", "socket", "urllib", "http", "os", "secrets", "threading", "subprocess"}
    assert not names & {"open", "exec", "eval", "input", "id"}
    assert not re.search(r"\.(today|now|write_text)\(", "\n".join(texts))


# -- solutions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_golds_pass(task: Task) -> None:
    assert passes(task, task.gold, "public")
    assert passes(task, task.gold, "hidden")


@pytest.mark.parametrize("name", SECOND)
def test_a_second_solution_built_differently_passes(name: str) -> None:
    task = BY_ID[name]
    assert passes(task, SECOND[name], "public")
    assert passes(task, SECOND[name], "hidden")


@pytest.mark.parametrize("task", [task for task in TASKS if task.extra["kind"] in PASSES], ids=named)
def test_a_table_of_the_public_tests_passes_these_only(task: Task) -> None:
    assert passes(task, table(task), "public")
    assert not passes(task, table(task), "hidden")


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_near_misses_fail_the_hidden_tests(task: Task) -> None:
    assert len(MISSES[task.id]) >= (1 if task.extra["kind"] in PASSES else 2)
    for right, wrong in MISSES[task.id]:
        assert right in task.gold
        assert not passes(task, task.gold.replace(right, wrong), "hidden"), wrong
