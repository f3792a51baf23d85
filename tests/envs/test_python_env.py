"""PythonEnv: the contract of an environment, submissions by name, what is told of them, the paper's
protocol, APPS records."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import kept, needs_bwrap
from orchard import Pool

import intercode
from intercode.agents import gold
from intercode.envs.python.env import PythonEnv
from intercode.errors import ForkError
from intercode.runner.run import evaluate
from intercode.types import Score
from intercode.validate.check import check
from intercode_sandbox.base import Limits

TASKS: list[dict[str, Any]] = [
    {
        "id": "double",
        "query": "Write a function that doubles a number.",
        "gold": "def helper(n):\n    return n + n\ndef double(n):\n    return helper(n)",
        "tests": ["assert double(2) == 4", "assert double(-1) == -2", "assert double('a') == 'aa'"],
        "hidden": ["assert double(0.5) == 1.0", "assert double([1]) == [1, 1]"],
    },
    {
        "id": "echo",
        "query": "Write a program that prints its input in upper case.",
        "gold": "print(input().upper())",
        "cases": {"inputs": ["ab\n"], "outputs": ["AB"]},
        "hidden_cases": {"inputs": ["éx\n"], "outputs": ["ÉX"]},
    },
    {
        "id": "stack",
        "query": "Write a class Stack with push and pop.",
        "gold": "class Stack(list):\n    push = list.append",
        "name": "Stack",
        "script": "s = Stack()\ns.push(1)\ns.push(2)\nprint(s.pop(), s.pop())",
        "expected": "2 1",
    },
    {
        "id": "file",
        "query": "Return what /box/a holds.",
        "gold": "def read():\n    return open('/box/a').read()",
        "tests": ["assert read() == 'apple'"],
    },
]
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_bwrap()
    made = tmp_path_factory.mktemp("python")
    (made / "tree" / "box").mkdir(parents=True)
    (made / "tree" / "box" / "a").write_text("apple")
    (made / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return made


@pytest.fixture(scope="module")
def envs(folder: Path) -> Iterator[Pool]:
    prepare = kept("python", folder)
    with closing(Pool(lambda **options: prepare(**options)())) as made:
        yield made


@pytest.fixture
def make(envs: Pool) -> Make:
    return envs.lent()


def test_an_action_reaches_the_host_s_network_only_if_the_caller_allows_it(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5).close()"
        assert "ConnectionRefusedError" in make("double").step(connect)[0]
        assert make("double", allow_host_network=True).step(connect)[0] == ""


# -- submissions -----------------------------------------------------------------------------------


def test_a_function_written_over_several_turns_is_submitted_by_its_name(make: Make) -> None:
    env = make("double", "def twice(n):\n    return n * k")
    assert "NameError" in env.step("twice(2)")[0]
    env.step("k = 2")
    assert env.step("twice(2)")[0] == "4\n"
    _, reward, terminated, _, info = env.step("submit twice")
    assert (reward, terminated, info["ended"]) == (1.0, True, "submit")
    assert info["score"].parts == {
        "public": 1.0,
        "hidden": 1.0,
        **{f"test {n}": 1.0 for n in range(1, 6)},
    }


def test_public_tests_alone_do_not_suffice_and_end_the_episode(make: Make) -> None:
    """What hidden tests call with is never told, and cannot be noted down for another
    submission."""
    table = "def {}(n): return {{2: 4, -1: -2, 'a': 'aa'}}.get(n)"
    env = make("double", table.format("f"), tell="case", submits=3)
    observation, reward, terminated, _, info = env.step("submit f")
    assert (observation, reward, terminated, info["ended"]) == ("Wrong.", 0, True, "submit")
    assert (info["score"].parts["public"], info["score"].parts["hidden"]) == (1.0, 0.0)
    env = make("double", "def helper(n): return 5", protocol="paper", reward="exact")
    assert env.step(table.format("helper"))[1:3] == (0, True)


def test_a_bare_submission_takes_the_golds_name_or_what_was_defined_last(make: Make) -> None:
    for action in (
        "def double(n): return n * 2\ndef other(): pass",
        "def x(n): return 0\ndef y(n): return n * 2",
    ):
        assert make("double", action).step("submit")[1] == 1
    env = make("double", "def f(n): return 0", submits=3)
    assert "test 1" in env.step("submit f")[0]
    env.step("del f")
    assert env.step("submit")[0] == "Wrong: nothing was defined. Submissions left: 1."
    observation, reward, terminated, _, info = env.step("submit")
    assert (observation, reward, terminated, info["score"].success) == (
        "Wrong: nothing was defined.",
        0.0,
        True,
        False,
    )


def test_a_submission_that_cannot_be_tested_is_told_and_costs_a_turn_only(make: Make) -> None:
    env = make("double", max_turns=None)

    def told(word: str) -> str:
        observation, reward, terminated, _, info = env.step(f"submit {word}")
        assert (reward, terminated, "score" in info) == (0.0, False, False)
        return str(observation)

    assert "nothing is defined" in told("double")
    env.step("def f(n): return n * 2\ndef g(): pass\nh = lambda a, b, c=1: 0")
    assert "there are f" in told("k")
    for word in ("g", "h"):
        assert "it will be called with 1 argument." in told(word)
    for word in ("f()", "f(3)", "'f'", "f, g", "`f`", "3", "def f(n): return n * 2"):
        assert (
            told(word)
            == f"A submission is a name alone, as in `submit double`; {word!r} is not a name."
        )
    assert env.step("submit f")[1] == 1


@pytest.mark.parametrize(
    ("tell", "told"),
    [
        ("nothing", "Wrong. Submissions left: 1."),
        ("number", "Wrong: test 2 of 3 failed. Submissions left: 1."),
        (
            "case",
            "Wrong: this failed: assert double(-1) == -2\nAssertionError Submissions left: 1.",
        ),
    ],
)
def test_what_a_wrong_submission_is_told_is_a_setting_and_the_last_one_ends(
    make: Make, tell: str, told: str
) -> None:
    env = make("double", "def f(n): return n + 2", tell=tell, submits=2)
    observation, reward, terminated, _, info = env.step("submit f")
    assert (observation, reward, terminated, "score" in info) == (told, 0.0, False, False)
    _, reward, terminated, _, info = env.step("submit f")
    assert (reward, terminated, info["ended"]) == (0.0, True, "submit")


def test_programs_classes_and_files_of_the_data(make: Make) -> None:
    env = make("echo")
    assert "no standard input" in env.step("print(input().upper())")[0]
    assert env.step("submit")[1] == 1, "a program is the text of the last action"
    env.reset(options={"task": "stack"})
    env.step(
        "class S:\n    def __init__(self): self.l = ()\n"
        "    def push(self, x): self.l = (x, *self.l)\n    def pop(self):\n"
        "        x, *self.l = self.l\n        return x"
    )
    assert env.step("submit S")[1] == 1, "a class is judged by what a script prints"
    env.reset(options={"task": "file"})
    assert env.step("open('/box/a').read()")[0] == "'apple'\n"


def test_a_lost_session_and_a_time_out_are_said(make: Make) -> None:
    env = make("double", limits=Limits(seconds=0.3))
    observation, _, _, _, info = env.step("x = 1\nwhile True: pass")
    assert "[timed out" in observation
    assert (info["timed_out"], info["session_lost"]) == (True, False)
    observation, _, _, _, info = env.step("import os; os._exit(0)")
    assert observation == "[the interpreter ended; a new one starts in /]"
    assert info["session_lost"]


# -- golds, rewards, the data check ----------------------------------------------------------------


def test_the_papers_reward_is_the_share_of_equal_outcomes_and_ones_own_sees_every_result(
    make: Make,
) -> None:
    _, reward, _, _, info = make("double", "def f(n): return 4", reward="paper").step("submit f")
    assert (reward, info["score"].success) == (pytest.approx(1 / 3), False)
    env = make(
        "double", reward=lambda results, task: Score(sum(r.passed for r in results) / 10, False)
    )
    env.step("def f(n): return n * 2")
    assert env.step("submit f")[1] == 0.5


FIRST = {
    "number": 1,
    "test": "assert double(2) == 4",
    "passed": True,
    "gold": "passed",
    "agent": "passed",
}
HIDDEN = {
    "number": 4,
    "expected": "1.0",
    "got": "None",
    "test": "assert double(0.5) == 1.0",
    "hidden": True,
    "passed": False,
    "gold": "passed",
    "agent": "AssertionError",
}
WRONG = {**FIRST, "passed": False, "agent": "ValueError: \\udc80"}


@pytest.mark.parametrize(
    ("code", "options", "count", "first"),
    [
        ("def f(n): return n * 2", {}, 5, FIRST),
        ("def f(n): return {2: 4, -1: -2, 'a': 'aa'}.get(n)", {}, 5, HIDDEN),
        ("def f(n): raise ValueError('\\udc80' * 9999)", {"reward": "paper"}, 3, WRONG),
        ("", {}, 0, {}),
    ],
)
def test_outcomes_list_results_with_failed_tests_first(
    make: Make, code: str, options: dict[str, Any], count: int, first: dict[str, Any]
) -> None:
    """Hidden tests too, which are in no observation."""
    observation, _, _, _, info = make("double", code, tell="case", **options).step("submit")
    found = info["outcomes"]
    assert found["failed"] == ([] if info["score"].success else ["tests"])
    assert (len(found["tests"]), "0.5" in observation) == (count, False)
    assert count == 0 or found["tests"][0] == {**first, "agent": found["tests"][0]["agent"]}
    assert count == 0 or found["tests"][0]["agent"].startswith(first["agent"])
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 3000


@pytest.mark.parametrize(
    ("record", "code", "row"),
    [
        ({"tests": ["assert f() == [1, 2]"]}, "return [1]", ("[1, 2]", "[1]", "AssertionError")),
        ({"tests": ["assert 3 == f()"]}, "return '3'", ("3", "'3'", "AssertionError")),
        ({"tests": ["assert f() > 2"]}, "return 1", (None, None, "AssertionError")),
        ({"tests": ["assert f() == 1"]}, "1 / 0", (None, None, "ZeroDivisionError: division by")),
        (
            {"tests": ["import math\nassert math.isclose(f(), 0.5)"]},
            "return 0.25",
            ("0.5", "0.25", "AssertionError"),
        ),
        (
            {"cases": {"inputs": [[]], "outputs": [7], "fn_name": "f"}},
            "return 8",
            ("7", "8", "AssertionError"),
        ),
        ({"script": "print(f())", "expected": "1"}, "return 2", ("1", "2\n", "printed '2\\n'")),
        (
            {"script": "print(f())", "expected": "1"},
            "raise KeyError('x')",
            ("1", None, "ended with status 1: KeyError: 'x'"),
        ),
    ],
)
def test_a_failed_test_says_what_it_expected_and_got(
    tmp_path: Path, record: dict[str, Any], code: str, row: tuple[str | None, ...]
) -> None:
    task = {"query": "Write f.", "name": "f", **record}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    with closing(intercode.make("python", data=tmp_path / "tasks.jsonl")) as env:
        env.reset()
        env.step(f"def f():\n    {code}")
        (test,) = env.step("submit f")[4]["outcomes"]["tests"]
    assert (test.get("expected"), test.get("got")) == row[:2]
    assert test["agent"].startswith(row[2])


@pytest.mark.slow
def test_the_data_check_finds_golds_that_fail_and_tests_that_any_answer_passes(
    folder: Path, tmp_path: Path
) -> None:
    broken = [
        {"id": "wrong", "query": "a", "gold": "def f(): return 1", "tests": ["assert f() == 2"]},
        {
            "id": "no python",
            "query": "b",
            "gold": "def f(: pass",
            "tests": ["assert f() == 2"],
            "name": "f",
        },
        {"id": "no tests", "query": "c", "gold": "def f(): pass"},
        {
            "id": "clock",
            "query": "d",
            "gold": "import time\ndef f(): return time.time()",
            "tests": ["assert f() == 2"],
        },
        {"id": "sound", "query": "e", "gold": "def f(): return 1", "tests": ["assert f() == 1"]},
        {
            "id": "idle",
            "query": "f",
            "gold": "def f(): return 1",
            "tests": ["assert f() == 1", "assert True"],
        },
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(broken))
    factory = intercode.prepare("python", data=str(tmp_path / "tasks.json"), max_turns=None)
    found = check(factory, factory.tasks, left_out=factory.left_out)
    assert found["gold_ok"] == 2
    assert sorted((each["task"], each["kind"]) for each in found["broken"]) == sorted(
        [
            *((each, "gold_fails") for each in ("wrong", "no python", "clock")),
            ("idle", "empty_test"),
            ("no tests", "no_tests"),
        ]
    ), "one cause gives one finding"
    whys = " ".join(each["why"] for each in found["broken"])
    assert "fails test 1" in whys
    assert "test 2 does not use the answer, so any passes it: assert True" in whys


# -- forks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        "import os\nos.fork = None",
        "import socket\nsocket.socket = None",
        "import builtins\nbuiltins.len = lambda _: 0",
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    ],
)
def test_an_interpreter_that_cannot_answer_is_not_said_to_define_nothing(
    make: Make, broken: str
) -> None:
    env = make("double")
    env.step(f"{broken}\n{env.task.gold}")
    observation, reward, *_ = env.step("submit")
    assert "did not report what is defined" in observation
    assert reward == 0


def test_a_fork_executes_the_episode_again_and_must_observe_the_same(make: Make) -> None:
    env = make("double", "g = (i for i in range(3))", "next(g)")
    with env.fork() as twin:
        assert twin.step("next(g)")[0] == env.step("next(g)")[0] == "1\n"
    env.step("import time; time.time()")
    with pytest.raises(ForkError, match="another observation at turn 4"):
        env.fork()
    assert env.step("next(g)")[0] == "2\n"


# -- the paper's protocol --------------------------------------------------------------------------


def rewards(env: PythonEnv, task: str, *actions: str) -> list[float]:
    env.reset(options={"task": task})
    return [float(env.step(action)[1]) for action in actions]


def test_the_papers_protocol_scores_the_first_function_of_each_action(make: Make) -> None:
    """Under the name of the gold's first function, which may be a helper; classes and programs may
    take several turns."""
    env = make(protocol="paper")
    for task in TASKS:
        assert rewards(env, task["id"], task["gold"]) == [1.0]
    assert rewards(env, "file", "x = 1", "def f(): return x", "def f(): return 'apple'") == [
        0,
        0,
        1,
    ]
    assert rewards(env, "double", "def f(n):\n    return n * 2") == [0.0]
    assert rewards(env, "stack", "x = 1", "class Stack: pass", TASKS[2]["gold"]) == [0.0, 0.0, 1.0]
    assert rewards(env, "echo", "print(1)", "print(input().upper())") == [0.0, 1.0]
    assert rewards(env, "file", "def f(: pass", "def f(: pass") == [
        0,
        1,
    ], "as recorded: the gold's outcome was still there"


# -- APPS records ----------------------------------------------------------------------------------


CLASS = (
    "class Solution:\n  def biggest(self, found: List[int], least: int = 0) -> int:\n"
    "    return max([*found, least])\n"
)
FUNCTION = "def biggest(found, least=0):\n    return max([*found, least])"
CASES = {
    "fn_name": "biggest",
    "inputs": [[[1, 5, 2]], [[], 3], [[-4], -9]],
    "outputs": [5, 3, [-4]],
}
ASKED = {
    "question": "Return the biggest of a list, or `least` if that is bigger.",
    "input_output": json.dumps(CASES),
}


def test_apps_records_are_answered_by_a_function_or_a_class_whichever_the_gold_is(
    folder: Path, tmp_path: Path
) -> None:
    records = [
        {**ASKED, "problem_id": n, "solutions": json.dumps([text])}
        for n, text in ((1, CLASS), (2, FUNCTION))
    ]
    file = tmp_path / "apps.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    factory = intercode.prepare("python", data=str(file), max_turns=None)
    assert [episode.reward for episode in evaluate(factory, gold, tasks=factory.tasks)] == [
        1.0,
        1.0,
    ]
    answers = {
        " Solution": f"from typing import List\n{CLASS}\ndef after(): pass",
        " biggest": FUNCTION,
    }
    with closing(factory()) as env:
        for task in ("1", "2"):
            for name, answer in answers.items():
                for word in ("", name):
                    assert rewards(env, task, answer, f"submit{word}")[-1] == 1.0, (
                        task,
                        answer,
                        word,
                    )  # type: ignore[arg-type]
        env.reset(options={"task": "1"})
        env.step("class Solution:\n    def smallest(self, found): return min(found)")
        assert env.step("submit Solution")[:2] == ("Wrong: test 1 of 3 failed.", 0.0)
