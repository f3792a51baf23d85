"""APPS records as they are published: a call-based answer is a function, or a method of a class `Solution`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.agents import gold, noop
from intercode.env import Setting
from intercode.runner.check import check
from intercode.runner.run import evaluate

CLASS = """class Solution:
    def biggest(self, found: List[int], least: int = 0) -> int:
        return max([*found, least])
"""
FUNCTION = "def biggest(found, least=0):\n    return max([*found, least])"
CASES = {"fn_name": "biggest", "inputs": [[[1, 5, 2]], [[], 3], [[-4], -9]], "outputs": [5, 3, [-4]]}
ASKED = {"question": "Return the biggest of a list, or `least` if that is bigger.", "input_output": json.dumps(CASES)}
PROGRAM = {"inputs": ["3 4\n"], "outputs": ["12\n"]}
RECORDS: list[dict[str, Any]] = [
    {**ASKED, "problem_id": 1, "solutions": json.dumps([CLASS]), "starter_code": "class Solution:\n    def biggest("},
    {**ASKED, "problem_id": 2, "solutions": json.dumps([FUNCTION]), "starter_code": ""},
    {
        "problem_id": 3, "question": "Multiply.", "input_output": json.dumps(PROGRAM), "starter_code": "",
        "solutions": json.dumps(["from __future__ import annotations\na, b = map(int, input().split())\nprint(a * b)"]),
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory, module_cache: Path) -> Setting:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    file = tmp_path_factory.mktemp("apps") / "apps.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return intercode.prepare("python", data=str(file), max_turns=None)


@pytest.fixture
def env(setting: Setting) -> Iterator[Any]:
    with closing(setting()) as made:
        yield made


def test_golds_reach_every_task_and_doing_nothing_none(setting: Setting) -> None:
    assert [episode.reward for episode in evaluate(setting, gold, tasks=setting.tasks)] == [1.0, 1.0, 1.0]
    assert [episode.reward for episode in evaluate(setting, noop, tasks=setting.tasks)] == [0.0, 0.0, 0.0]
    assert check(setting, setting.tasks)["gold_ok"] == 3


@pytest.mark.parametrize("task", ["1", "2"])
@pytest.mark.parametrize("answer", [f"from typing import List\n{CLASS}\ndef after(): pass", FUNCTION])
@pytest.mark.parametrize("how", ["submit", "by name"])
def test_a_class_or_a_function_is_right_whichever_the_gold_is(env: Any, task: str, answer: str, how: str) -> None:
    env.reset(options={"task": task})
    env.step(answer)
    word = "" if how == "submit" else " Solution" if "class" in answer else " biggest"
    assert env.step(f"submit{word}")[1] == 1.0


def test_a_class_without_the_method_is_told_by_its_first_test(env: Any) -> None:
    env.reset(options={"task": "1"})
    env.step("class Solution:\n    def smallest(self, found): return min(found)")
    observation, reward, *_ = env.step("submit Solution")
    assert (observation, reward) == ("Wrong: test 1 of 3 failed.", 0.0)


def test_a_class_that_cannot_be_made_fails_its_tests(env: Any) -> None:
    env.reset(options={"task": "1"})
    env.step("class Solution:\n    def __init__(self, needed): pass\n    def biggest(self, found, least=0): return 5")
    assert env.step("submit Solution")[4]["score"].parts["public"] == 0.0
