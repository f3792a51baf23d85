"""What a set's harness puts before answers is there for the agent's as for the gold's."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.envs.python.layouts import LAYOUTS
from intercode.envs.python.suite import behind
from intercode.errors import DataError

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
