"""What a set's harness puts before answers is there for the agent's as for the gold's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.envs.python.layouts import LAYOUTS
from intercode.envs.python.suite import behind
from intercode.errors import DataError

Make = Callable[[str, dict[str, Any]], intercode.InterCodeEnv]
HELPER = "import math\ndef half(n):\n    return n / 2"
TASK = {
    "id": "t",
    "query": "Write f(n), half of n rounded down.",
    "gold": "def f(n):\n    return math.floor(half(n))",
    "tests": ["assert f(5) == 2", "assert f(4) == 2"],
    "preamble": HELPER,
    "completes": "def f(n):\n    # the answer\n",
}
ANSWER = "def f(n):\n    return math.floor(half(n))"
PROGRAM = {
    "id": "p",
    "query": "Print half of n.",
    "gold": "print(half(int(input())))",
    "cases": {"inputs": ["4\n"], "outputs": ["2.0"]},
    "preamble": HELPER,
}


def make(tmp_path: Path, *records: dict[str, Any], **options: Any) -> intercode.InterCodeEnv:
    needs_bwrap()
    data = tmp_path / "tasks.jsonl"
    data.write_text("\n".join(map(json.dumps, records)))
    return intercode.make("python", data=str(data), **options)


@pytest.fixture(scope="module")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Begins an episode of a task with this preamble and these cases, in one environment each."""
    envs = dict[str, intercode.InterCodeEnv]()
    with ExitStack() as stack:

        def begin(preamble: str, cases: dict[str, Any]) -> intercode.InterCodeEnv:
            if preamble not in envs:
                task = {"id": "t", "query": "Write it.", "preamble": preamble, "cases": cases}
                envs[preamble] = stack.enter_context(
                    closing(make(tmp_path_factory.mktemp("preamble"), task))
                )
            envs[preamble].reset(options={"task": "t"})
            return envs[preamble]

        yield begin


def test_the_preamble_is_there_for_answer_and_gold_and_is_no_answer(tmp_path: Path) -> None:
    with closing(make(tmp_path, TASK, PROGRAM)) as env:
        for id, answer in (
            ("t", ANSWER),
            ("t", "    return math.floor(half(n))"),
            ("t", "return math.floor(half(n))"),
            ("t", "m = half(n)\n    return math.floor(m)"),
            ("t", "m = half(n)\nreturn math.floor(m)"),
            ("t", "if n:\n        return math.floor(half(n))\n    return 0"),
            ("t", f"from __future__ import annotations\n{ANSWER}"),
            ("p", "print(half(int(input())))"),
            ("p", "from __future__ import annotations\nprint(half(int(input())))"),
        ):
            env.reset(options={"task": id})
            env.step(answer)
            assert env.step("submit")[1] == 1, answer
        assert [env.run_gold(task).faults for task in env.tasks] == [(), ()]
        env.reset(options={"task": "t"})
        assert "given with the task" in env.step("submit half")[0]
        assert "nothing was defined" in env.step("submit")[0]
    with closing(make(tmp_path, TASK, protocol="paper")) as env:
        env.reset(options={"task": "t"})
        assert "NameError" in env.step("half(1)")[0]


MEAN = "def mean(xs):\n    return sum(xs) / len(xs)"
METHOD = "class Solution:\n    def mean(self, xs):\n        return sum(xs) / len(xs)"
ASKED = {"fn_name": "mean", "inputs": [[[1, 3]]], "outputs": [2]}


@pytest.mark.parametrize(
    ("actions", "reward"),
    [
        ([], 0),
        (["import statistics"], 0),
        (["def f(xs):\n    mean = len(xs)\n    return -mean"], 0),
        (["from statistics import *"], 0),  # names nothing
        (["from statistics import mean"], 1),
        (["mean = mean"], 1),
        ([MEAN], 1),
        ([f"exec({MEAN!r})"], 1),
        ([METHOD], 1),
        (["from statistics import mean", METHOD.replace("sum(xs)", "0")], 0),  # its own comes first
        (["from statistics import mean\nmean([1])\nraise ValueError"], 1),
        (["global mean\nfrom statistics import mean"], 1),
        (["class Solution:\n    def mean(self, xs):\n        return mean(xs)"], 1),  # the given one
        ([f"from statistics import mean\n{METHOD.replace('sum(xs) / len(xs)', 'mean(xs)')}"], 1),
    ],
)
def test_a_name_of_the_preamble_is_an_answer_only_if_an_action_binds_it(
    make_once: Make, actions: list[str], reward: float
) -> None:
    env = make_once("from statistics import *", ASKED)
    for action in actions:
        env.step(action)
    assert env.step("submit")[1] == reward


@pytest.mark.parametrize(
    ("action", "reward"),
    [
        ("pass", 0),
        ("Solution.mean = lambda self, xs: sum(xs) / len(xs)", 1),
        ("setattr(Solution, 'mean', lambda self, xs: sum(xs) / len(xs))", 1),
        ("class Solution(Solution):\n    def mean(self, xs): return sum(xs) / len(xs)", 1),
    ],
)
def test_given_code_that_an_action_changes_is_an_answer(
    make_once: Make, action: str, reward: float
) -> None:
    env = make_once("class Solution:\n    def mean(self, xs):\n        pass", ASKED)
    env.step(action)
    assert env.step("submit")[1] == reward


GOLD = "def encode(s):\n    return s[::-1]\ndef decode(s):\n    return s[::-1]"


def test_tests_may_use_helpers_that_the_preamble_defines_and_the_gold_repeats(
    tmp_path: Path,
) -> None:
    task = {"id": "t", "query": "Write decode(s).", "gold": GOLD}
    task |= {
        "preamble": GOLD.partition("\ndef d")[0],
        "tests": ["assert decode(encode('a')) == 'a'"],
    }
    with closing(make(tmp_path, task)) as env:
        for actions, reward in (([], 0), (["def decode(s):\n    return s[::-1]"], 1)):
            env.reset(options={"task": "t"})
            for action in actions:
                env.step(action)
            assert env.step("submit")[1] == reward


@pytest.mark.parametrize(
    "fields",
    [
        {
            "gold": "mean = lambda xs: sum(xs) / len(xs)",
            "test_setup_code": "from statistics import *",
        },
        {"gold": "if True:\n    def mean(xs): return sum(xs) / len(xs)"},
        {"gold": "from statistics import mean", "test_setup_code": ""},
        {"test_setup_code": "from statistics import mean"},
    ],
)
def test_setup_code_replaces_no_answer_whatever_the_gold_looks_like(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    task = {"id": "t", "query": "Write mean.", "test_setup_code": "from statistics import *"}
    task |= {"tests": ["assert mean([1, 3]) == 2"]} | fields
    with closing(make(tmp_path, task)) as env:
        env.reset(options={"task": "t"})
        env.step("def mean(xs):\n    return 0")
        assert env.step("submit")[1] == 0


def test_setup_code_does_not_replace_the_answer(tmp_path: Path) -> None:
    task = {
        "id": "t",
        "query": "Write gcd(a, b) and lcm(a, b).",
        "gold": "def gcd(a, b):\n    return math.gcd(a, b)\ndef lcm(a, b):\n    return 24",
        "preamble": "import math\nfrom math import *",
        "test_setup_code": "from math import *",
        "tests": [
            "assert gcd(12, 8) == 4",
            "assert floor(gcd(12, 8)) == 4",
            "assert lcm(6, 8) == 24",
        ],
    }
    answers = {
        "def gcd(a, b): return 0\ndef lcm(a, b): return 24": 0,
        "def gcd(a, b): return 4": 0,
        "def gcd(a, b): return 4\ndef lcm(a, b): return 24": 1,
    }
    with closing(make(tmp_path, task)) as env:
        for answer, reward in answers.items():
            env.reset(options={"task": "t"})
            env.step(answer)
            assert env.step("submit gcd")[1] == reward, answer
        (issue,) = env.run_gold(env.tasks[0]).faults
        assert issue.kind == "shadowed"


def test_a_preamble_that_fails_is_an_error_of_the_data(tmp_path: Path) -> None:
    env = make(tmp_path, {**TASK, "preamble": "import nothing_like_this"})
    why = "'preamble': it fails: ModuleNotFoundError"
    with closing(env), pytest.raises(DataError, match=why):
        env.reset(options={"task": "t"})


def test_a_preamble_stands_behind_imports_from_the_future() -> None:
    future = "from __future__ import annotations"
    assert behind("import math", f'"""doc"""\n{future}\nx = 1') == (
        f'"""doc"""\n{future}\nimport math\nx = 1'
    )
    assert behind("import math", "x = 1") == "import math\nx = 1"
    assert behind("", "x = (") == "x = ("


@pytest.mark.parametrize(
    ("setup", "preamble"),
    [
        ("import math\nx = math.pi", "import math\nx = math.pi"),
        ("import math\nroot = Node(1)", "import math"),  # Node is the answer's
        ("root = Node(", ""),
        (None, ""),
    ],
)
def test_the_setup_of_mbpp_is_executed_before_as_far_as_it_can_be(
    setup: str | None, preamble: str
) -> None:
    record = {"text": "q", "code": "c", "test_list": ["assert f()"], "test_setup_code": setup}
    layout = next(layout for columns, layout in LAYOUTS if columns == ("text", "code", "test_list"))
    assert layout(record)["preamble"] == preamble
