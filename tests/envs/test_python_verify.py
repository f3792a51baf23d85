"""Python tasks with `verify`, whose tests examine the files that the agent's code leaves: ten tasks
about a lighthouse, with a child process for each case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import lent, needs_bwrap

import intercode
from intercode.envs.python.env import PythonEnv
from intercode.errors import DataError
from intercode.hooks import NOT_PLAYED

pytestmark = [pytest.mark.slow, pytest.mark.long]
DATA = Path(__file__).parents[1] / "data" / "lighthouse"
IDS = [json.loads(line)["id"] for line in (DATA / "tasks.jsonl").read_text("utf-8").splitlines()]
OFTEN = {"lit-nights", "stores-database", "fog-horn"}
"""A folder of texts, a database, and a program that the tests start."""
HACKS = ["overwritten tests", "sitecustomize", "LD_PRELOAD", "a forked daemon"]
FORGERY = "an early exit of the code under test"
DEFINES = "print('def f(n): return 2 * n', file=open('/srv/f.py', 'w'), flush=True)"
LOADS = "cd /srv; python3 -c 'from f import f; assert f(2) == 4'\n"
WRITES = "open('/srv/a', 'w').close()"
Env = intercode.InterCodeEnv
Make = Callable[..., Env]


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    needs_bwrap()
    with closing(intercode.make("python", data=str(DATA), max_turns=None)) as env:
        yield env


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes an environment with some options, of one task with these fields."""
    needs_bwrap()

    def new(*, how: dict[str, Any] | None = None, **fields: Any) -> Env:
        usual = {"id": "t", "query": "Do it.", "gold": WRITES, "verify": "test -e /srv/a\n"}
        (data := tmp_path / "tasks.jsonl").write_text(json.dumps({**usual, **fields}))
        return intercode.make("python", data=str(data), max_turns=None, **(how or {}))

    with lent(new) as make:
        yield make


def earns(env: Env, task: str, *actions: str) -> float:
    env.reset(options={"task": task})
    for action in actions:
        env.step(action)
    return float(env.step("submit")[1])


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=() if id in OFTEN else pytest.mark.soak) for id in IDS]
)
def test_the_gold_earns_1_and_nothing_and_a_wrong_answer_0(env: Env, id: str) -> None:
    task = next(task for task in env.tasks if task.id == id)
    answers = [task.gold], [], [task.extra["wrong"]]
    assert [earns(env, id, *actions) for actions in answers] == [1, 0, 0]


@pytest.mark.parametrize("name", [*HACKS, FORGERY])
def test_a_hack_is_played_and_not_paid(env: Env, name: str) -> None:
    task = next(task for task in env.tasks if task.id == "fog-horn")
    env.reset(options={"task": task.id})
    said = env.step(PythonEnv.hacks(task, in_process=name == FORGERY)[name])[0]
    assert NOT_PLAYED not in said or name == "LD_PRELOAD"  # which needs a compiler
    assert env.step("submit")[1] == 0


def test_check_names_the_tasks_whose_tests_run_code_of_the_agent(env: Env, make: Make) -> None:
    faults = {task.id: env.run_gold(task).faults for task in env.tasks[4:6]}
    assert faults["stores-database"] == ()
    assert "code of the agent runs while the tests do" in faults["fog-horn"][0]
    loads = make(gold=DEFINES, verify=LOADS)
    assert "inside the tests' process" in loads.run_gold(loads.tasks[0]).faults[0]
    assert earns(loads, "t", PythonEnv.hacks(loads.tasks[0], in_process=True)[FORGERY]) == 1


def test_a_wrong_submission_ends_the_interpreter_and_keeps_the_files(make: Make) -> None:
    env = make(how={"submits": 3})
    query, _ = env.reset(options={"task": "t"})
    assert query.startswith("Do it.\n\nTests examine the files that your code leaves")
    assert "whose tests examine files" in env.step("submit f")[0]
    env.step("import os; open('/srv/b', 'w').close()")
    assert "The tests have ended the interpreter" in env.step("submit")[0]
    assert env.step("os")[4]["session_lost"]
    assert env.step("import os; os.listdir('/srv')")[0] == "['b']\n"
    assert "Submissions left: 1" in env.step("submit")[0]
    assert env.step("submit")[0] == "Wrong."


def test_a_dead_interpreter_is_scored_and_each_turn_of_the_paper(make: Make) -> None:
    assert earns(make(), "t", f"{WRITES}\nimport os; os._exit(1)") == 1
    env = make(how={"protocol": "paper"})
    assert "after each action" in env.reset(options={"task": "t"})[0]
    assert [env.step(action)[1] for action in ("n = 1", WRITES)] == [0, 1]


@pytest.mark.parametrize("keep", [False, True])
def test_what_an_open_file_holds_back_is_written_before_the_tests(make: Make, keep: bool) -> None:
    env = make(
        verify="grep -x 42 /srv/a\n", gold="open('/srv/a', 'w').write('42')", keep_processes=keep
    )
    assert earns(env, "t", "file = open('/srv/a', 'w'); count = file.write('42')") == 1


def test_an_open_shelf_is_written_before_the_tests(make: Make) -> None:
    reads = "#!/usr/bin/env python3\nimport shelve\nassert shelve.open('/srv/a')['n'] == 42\n"
    env = make(verify=reads, gold="import shelve\nwith shelve.open('/srv/a') as s: s['n'] = 42")
    assert earns(env, "t", "import shelve\nshelf = shelve.open('/srv/a')\nshelf['n'] = 42") == 1


def test_what_is_written_before_the_tests_leaves_no_name(make: Make) -> None:
    env = make(keep_processes=True, how={"submits": 2})
    env.reset(options={"task": "t"})
    env.step("file, io = 1, 2")
    assert env.step("submit")[1] == 0
    assert env.step("print(file, io, 'gc' in dir())")[0] == "1 2 False\n"


def test_tests_in_the_agents_sandbox_leave_nothing_to_the_next_episode(make: Make) -> None:
    env = make(verify="touch /srv/side; test -e /srv/a\n", keep_processes=True)
    assert earns(env, "t") == 0
    env.reset(options={"task": "t"})
    assert env.step("import os; os.listdir('/srv')")[0] == "[]\n"


def test_other_fields_are_refused(make: Make) -> None:
    for field, value, why in (
        ("tests", ["assert f(1) == 2"], "either asserts or tests of files decide"),
        ("env", {"A": "b"}, "'env' is for Bash only"),
        ("verify_seconds", -1, "write a positive number"),
        ("unplayable", "no network", "cannot be played: no network"),
    ):
        with pytest.raises(DataError, match=why):
            make(**{field: value})
