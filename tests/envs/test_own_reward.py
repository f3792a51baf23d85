"""A reward function of the caller's is held to its contract, whatever the environment."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy
import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import gold
from intercode.envs.rewards import call_reward
from intercode.errors import UsageError
from intercode.runner.run import evaluate
from intercode.types import Score, Task

TASK = Task("t", "?", "x")
WRONG = [
    *(2, -0.5, float("nan"), None, "1", 10**400),
    *(Score(2.0, True), Score(float("nan"), False), Score("x", 1, 3)),  # type: ignore[arg-type]
    *(Score(0.0, 1), Score(0.0, False, {"n": ("x")}), Score(10**400, True)),  # type: ignore[arg-type, dict-item]
    Score(1.0, True, {"digest": 2**63}),
]


@pytest.mark.parametrize("given", WRONG)
def test_what_is_no_score_is_refused(given: Any) -> None:
    with pytest.raises(
        UsageError,
        match=r"the reward .*<lambda>, called for task t, returned .+; it must return a Score",
    ):
        call_reward(lambda task: given, TASK)


@pytest.mark.parametrize(
    ("given", "score"),
    [
        (numpy.float32(0.5), Score(0.5, False)),
        (numpy.int64(1), Score(1.0, True)),
        (numpy.bool_(True), Score(1.0, True)),
        (numpy.array(0.25), Score(0.25, False)),
        (
            Score(numpy.float32(0.5), numpy.bool_(False), {"n": numpy.int8(3)}),  # type: ignore[arg-type, dict-item]
            Score(0.5, False, {"n": 3}),
        ),
    ],
)
def test_numbers_of_numpy_are_numbers(given: Any, score: Score) -> None:
    taken = call_reward(lambda task: given, TASK)
    assert taken == score
    json.dumps([taken.reward, taken.success, dict(taken.parts)])


@pytest.mark.parametrize(
    ("error", "told"), [(KeyError("of"), "KeyError: 'of'"), (SystemExit(7), "SystemExit: 7")]
)
def test_a_reward_that_raises_is_named_with_the_task(error: BaseException, told: str) -> None:
    def failing(task: Task) -> float:
        raise error

    with pytest.raises(
        UsageError,
        match=rf"the reward .*failing, called for task t, raised {told} \(test_own_reward.py, ",
    ):
        call_reward(failing, TASK)


@pytest.mark.parametrize(
    ("env_name", "actions"),
    [
        ("bash", ["submit"]),
        ("sql", ["SELECT 1", "submit"]),
        ("python", ["def f(x): return x", "submit f"]),
        ("ctf", ["submit flag"]),
    ],
)
def test_every_environment_asks_a_reward_and_refuses_what_is_no_score(
    env_name: str, actions: list[str]
) -> None:
    needs_bwrap()
    given: list[Any] = [0.25, None]
    with intercode.make(env_name, limit=1, reward=lambda *asked: given.pop(0)) as env:
        for _ in range(2):
            env.reset(seed=0)
            for action in actions[:-1]:
                env.step(action)
            if len(given) == 2:
                assert env.step(actions[-1])[1] == 0.25
            else:
                with pytest.raises(
                    UsageError, match=r"called for task .+, returned None; it must return a Score"
                ):
                    env.step(actions[-1])


CLASSES: list[tuple[str, dict[str, Any], list[str], str]] = [
    ("Bash", {"q": "Say x.", "gold": "echo x"}, ["echo x", "submit"], "agent, gold, task"),
    ("Sql", {"q": "One?", "gold": "SELECT 1", "db": "d"}, ["SELECT 1", "submit"], "answer, *more"),
    (
        "Python",
        {"q": "Write f.", "gold": "def f(): return 1", "tests": ["assert f() == 1"]},
        ["def f(): return 1", "submit f"],
        "results, task",
    ),
    ("Ctf", {"q": "Find it.", "gold": "flag{x}"}, ["submit flag{x}"], "submitted, flag, task"),
]


@pytest.mark.parametrize(("base", "record", "actions", "parameters"), CLASSES)
def test_data_preprocess_and_reward_are_attributes_of_every_class(
    tmp_path: Path, base: str, record: dict[str, Any], actions: list[str], parameters: str
) -> None:
    needs_bwrap()
    folder = tmp_path / "set"
    (folder / "databases").mkdir(parents=True)
    (folder / "tasks.json").write_text(json.dumps([{"id": "1", **record}]))
    (folder / "assets" / "1").mkdir(parents=True)
    (folder / "assets" / "1" / "x").write_text("x")
    (folder / "databases" / "d.sql").write_text("CREATE TABLE t (n INTEGER);")
    file = tmp_path / "own.py"
    file.write_text(
        f"from intercode.envs.{base.lower()}.env import {base}Env\n"
        f"class Own({base}Env):\n"
        "    data = 'set'\n"
        "    @staticmethod\n"
        "    def preprocess(record):\n"
        "        return {**record, 'query': record['q']}\n"
        f"    def reward(self, {parameters}):\n"
        "        return 0.5 if self.task.query else 0.0\n"
    )
    factory = intercode.prepare(f"{file}:Own")
    assert factory.facts()["reward"].endswith("Own.reward")
    for options, reward in (({}, 0.5), ({"reward": "exact"}, 1.0)):
        with intercode.make(f"{file}:Own", **options) as env:
            assert env.reset(seed=0)[0] == record["q"]
            for action in actions:
                _, earned, *_ = env.step(action)
            assert earned == reward


def test_a_reward_may_be_named_wherever_one_is(tmp_path: Path) -> None:
    data = tmp_path / "tasks.jsonl"
    data.write_text(json.dumps({"id": "t", "query": "Print 1.", "gold": "echo 1"}))
    code = tmp_path / "half.py"
    code.write_text("def half(*_): return 0.5\n")
    name = f"{code}:half"
    with closing(intercode.make("bash", data=str(data), reward=name)) as env:
        env.reset(seed=0)
        env.step("echo 1")
        assert env.step("submit")[1] == 0.5
    factory = intercode.prepare("bash", data=str(data), reward=name)
    (episode,) = evaluate(factory, gold, tasks=factory.tasks)
    assert (episode.reward, episode.success) == (0.5, False)


CHOOSING = """
from intercode import BashEnv, Score

class Nearest:
    @staticmethod
    def compare(judge, world, attempt, agent):
        gold = judge.gold(world, attempt.task)
        return {answer}

class Own(BashEnv):
    data = "tasks.jsonl"
    rewards = {{**BashEnv.rewards, "nearest": "choosing:Nearest"}}
"""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Score(0.25, False), gold", None),
        ("0.25, gold", None),
        ("1.0, None", "must return a score and a GoldOutcome"),
        ("0.25", "must return a score and a GoldOutcome"),
        ("'much', gold", "must return a Score with a reward from 0 to 1"),
        ("attempt.nothing", "raised AttributeError"),
    ],
)
def test_a_reward_with_compare_chooses_a_gold_and_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, told: str | None
) -> None:
    needs_bwrap()
    task = {"id": "t", "query": "Print 1.", "gold": "echo 1"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    (tmp_path / "choosing.py").write_text(CHOOSING.format(answer=answer))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "choosing", raising=False)
    with closing(intercode.make("choosing:Own", reward="nearest")) as env:
        env.reset(seed=0)
        env.step("echo 2")
        if told is None:
            assert env.step("submit")[1] == 0.25
        else:
            with pytest.raises(UsageError, match=told):
                env.step("submit")


def test_a_reward_with_compare_does_not_end_the_run_when_the_agent_removes_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_bwrap()
    task = {"id": "t", "query": "Print 1.", "gold": "echo 1", "setup": "mkdir /desk; touch /desk/x"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    reads = 'world.files().sandbox.read("/desk/x")\n        '
    code = CHOOSING.format(answer="Score(1.0, True), gold").replace("gold = ", f"{reads}gold = ")
    (tmp_path / "choosing.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "choosing", raising=False)
    with closing(intercode.make("choosing:Own", reward="nearest")) as env:
        for action, reward in (("true", 1.0), ("rm -r /desk", 0.0)):
            env.reset(seed=0)
            env.step(action)
            assert env.step("submit")[1] == reward


def test_the_options_that_an_error_lists_are_options() -> None:
    with pytest.raises(UsageError, match="takes no facts; it takes data, ") as error:
        intercode.make("bash", facts=1)
    assert ", facts" not in str(error.value)
