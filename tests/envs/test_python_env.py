"""PythonEnv: the contract of an environment, submissions by name, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from kept import kept, lent, needs_bwrap

import intercode
from intercode.agents import gold, make_agent, noop
from intercode.agents.code import split_reply
from intercode.env import Setting
from intercode.envs.python import PythonEnv
from intercode.errors import DataError, ForkError, UsageError
from intercode.runner.check import check
from intercode.runner.run import evaluate

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
Make = Callable[..., PythonEnv]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, module_cache: Path) -> Path:
    needs_bwrap()
    made = tmp_path_factory.mktemp("python")
    (made / "tree" / "box").mkdir(parents=True)
    (made / "tree" / "box" / "a").write_text("apple")
    (made / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return made


@pytest.fixture(scope="module")
def settings(folder: Path) -> Callable[..., Setting]:
    return kept("python", folder)


@pytest.fixture
def make(settings: Callable[..., Setting]) -> Iterator[Make]:
    with lent(lambda **options: settings(**options)()) as made:
        yield made


def start(env: PythonEnv, task: str) -> PythonEnv:
    env.reset(options={"task": task})
    return env


def test_a_function_written_over_several_turns_is_submitted_by_its_name(make: Make) -> None:
    env = start(make(), "double")
    env.step("def twice(n):\n    return n * k")
    assert "NameError" in env.step("twice(2)")[0]
    env.step("k = 2")
    assert env.step("twice(2)")[0] == "4\n"
    _, reward, terminated, _, info = env.step("submit twice")
    assert (reward, terminated, info["ended"]) == (1.0, True, "submit")
    assert info["score"].parts == {"public": 1.0, "hidden": 1.0, **{f"test {n}": 1.0 for n in range(1, 6)}}


def test_public_tests_alone_do_not_suffice(make: Make) -> None:
    env = start(make(), "double")
    env.step("def f(n): return {2: 4, -1: -2, 'a': 'aa'}.get(n)")
    _, reward, _, _, info = env.step("submit f")
    assert reward == 0
    assert (info["score"].parts["public"], info["score"].parts["hidden"]) == (1.0, 0.0)


def test_a_bare_submission_takes_the_golds_name_or_what_was_defined_last(make: Make) -> None:
    env = make()
    for action in ("def double(n): return n * 2\ndef other(): pass", "def x(n): return 0\ndef y(n): return n * 2"):
        start(env, "double").step(action)
        assert env.step("submit")[1] == 1


def test_a_bare_submission_of_nothing_is_worth_nothing(make: Make) -> None:
    observation, reward, terminated, _, info = start(make(), "double").step("submit")
    assert (reward, terminated, info["score"].success) == (0.0, True, False)
    assert "nothing" in observation


def test_a_name_that_is_not_there_is_told_and_costs_a_turn_only(make: Make) -> None:
    env = start(make(max_turns=4), "double")
    assert "nothing is defined" in env.step("submit double")[0]
    env.step("def f(n): return n * 2")
    observation, reward, terminated, _, info = env.step("submit g")
    assert "there are f" in observation
    assert (reward, terminated, "score" in info) == (0.0, False, False)
    assert env.step("submit f")[1] == 1


def test_an_interpreter_that_does_not_answer_is_told_and_costs_a_turn_only(make: Make) -> None:
    env = start(make(), "double")
    env.step("import os\nfork = os.fork\ndef refuse(): raise OSError\nos.fork = refuse\ndef f(n): return n * 2")
    observation, _, terminated, _, info = env.step("submit f")
    assert "did not answer" in observation
    assert (terminated, "score" in info) == (False, False)
    env.step("os.fork = fork")
    assert env.step("submit f")[1] == 1


@pytest.mark.parametrize("name", [r"'\\ud800'", "'a' * 100_000"])
def test_what_is_told_of_the_agents_names_is_an_observation_like_others(make: Make, name: str) -> None:
    env = make()
    env.reset(options={"task": 0})
    env.step(f"globals()[{name}] = lambda: 0")
    observation, *_ = env.step("submit nothing_like_it")
    assert env.observation_space.contains(observation)
    assert len(observation) < 10_000


@pytest.mark.parametrize("code", ["def f(): pass", "def f(a, b): pass", "f = lambda a, b, c=1: 0"])
def test_a_function_that_cannot_be_called_as_the_tests_do_is_told(make: Make, code: str) -> None:
    env = start(make(), "double")
    env.step(code)
    observation, _, terminated, _, _ = env.step("submit f")
    assert "it will be called with 1 argument." in observation
    assert not terminated


@pytest.mark.parametrize(
    ("tell", "told"),
    [
        ("nothing", "Wrong. 1 more may be submitted."),
        ("number", "Wrong: test 2 of 3 failed. 1 more may be submitted."),
        ("case", "Wrong: this failed: assert double(-1) == -2\nAssertionError 1 more may be submitted."),
    ],
)
def test_what_a_wrong_submission_is_told_is_a_setting(make: Make, tell: str, told: str) -> None:
    env = start(make(tell=tell, submits=2), "double")
    env.step("def f(n): return n + 2")
    observation, reward, terminated, _, info = env.step("submit f")
    assert (observation, reward, terminated, "score" in info) == (told, 0.0, False, False)
    env.step("def f(n): return n * 2")
    assert env.step("submit f")[1] == 1


def test_the_last_submission_ends_the_episode(make: Make) -> None:
    env = start(make(submits=2), "double")
    env.step("def f(n): return 0")
    assert not env.step("submit f")[2]
    _, reward, terminated, _, info = env.step("submit f")
    assert (reward, terminated, info["ended"]) == (0.0, True, "submit")


def test_what_was_wrong_before_is_not_told_of_a_submission_of_nothing(make: Make) -> None:
    env = start(make(submits=3), "double")
    env.step("def f(n): return 0")
    assert "test 1" in env.step("submit f")[0]
    env.step("del f")
    assert env.step("submit")[0] == "Wrong: nothing was defined. 1 more may be submitted."


@pytest.mark.parametrize("word", ["f()", "f(3)", "'f'", "f, g", "`f`", "3", "def f(n): return n * 2"])
def test_a_submission_that_is_no_name_is_told_and_costs_a_turn_only(make: Make, word: str) -> None:
    env = start(make(), "double")
    env.step("def f(n): return n * 2")
    observation, reward, terminated, _, info = env.step(f"submit {word}")
    assert observation == f"A submission is a name alone, as in `submit double`; {word!r} is none."
    assert (reward, terminated, "score" in info) == (0.0, False, False)
    assert env.step("submit f")[1] == 1


def test_a_hidden_case_is_never_told(make: Make) -> None:
    env = start(make(tell="case"), "double")
    env.step("def f(n): return {2: 4, -1: -2, 'a': 'aa'}.get(n)")
    assert env.step("submit f")[0] == "Wrong."


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        ("submit = 3", ""), ("submit, x = 1, 2", ""), ("submit = 3\nsubmit\n4", "4"), ("submit in [1]", "False"),
        ("submit if submit else 0", "7"), ("submit is None", "False"), ("submit and 5", "5"), ("submit not in ()", "True"),
        ("submit == 7", "True"), ("submit - 6", "1"), ("submit: int = 8", ""), ("submit or\\\n5", "7"),
    ],
)  # fmt: skip
def test_submit_is_no_submission_where_it_is_python(make: Make, action: str, shown: str) -> None:
    env = start(make(), "double")
    env.step("submit = 7")
    observation, _, terminated, *_ = env.step(action)
    assert (observation.strip(), terminated) == (shown, False)


def test_a_program_is_the_text_of_the_last_action(make: Make) -> None:
    env = start(make(), "echo")
    assert "no standard input" in env.step("print(input().upper())")[0]
    assert env.step("submit")[1] == 1


def test_a_class_is_judged_by_what_a_script_prints(make: Make) -> None:
    env = start(make(), "stack")
    env.step("class S:\n    def __init__(self): self.l = ()\n    def push(self, x): self.l = (x, *self.l)\n"
             "    def pop(self):\n        x, *self.l = self.l\n        return x")  # fmt: skip
    assert env.step("submit S")[1] == 1


def test_files_of_the_data_are_there_to_be_looked_at(make: Make) -> None:
    env = start(make(), "file")
    assert env.step("open('/box/a').read()")[0] == "'apple'\n"


def test_a_lost_session_and_a_time_out_are_said(make: Make) -> None:
    from intercode.sandbox.base import Limits

    env = start(make(limits=Limits(seconds=0.3)), "double")
    observation, _, _, _, info = env.step("x = 1\nwhile True: pass")
    assert "[timed out" in observation
    assert (info["timed_out"], info["session_lost"]) == (True, False)
    observation, _, _, _, info = env.step("exit()")
    assert observation == "[the interpreter ended; a new one starts in /]"
    assert info["session_lost"]


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("```python\nsubmit double\n```", "submit double"),
        ("submit double", "submit double"),
        ("```python\ndef f(): pass\n\nsubmit f\n```", "def f(): pass"),
        ("```python\ndef f(): pass\n\nsubmit f()\n```", "def f(): pass"),
        ("```python\nsubmit = 1\nsubmit in(1,)\n```", "submit = 1\nsubmit in(1,)"),
        ("```python\nsubmit = 1\nsubmit = 2\n```", "submit = 1\nsubmit = 2"),
        ("```python\nsubmit = print\nsubmit (1)\n```", "submit = print\nsubmit (1)"),
        ("Done.\n\n`submit f`", "submit f"),
    ],
)
def test_a_models_submission_is_found_in_its_reply(reply: str, action: str) -> None:
    assert split_reply(reply, "python")[0] == action


def test_models_have_a_prompt_for_python(settings: Callable[..., Setting]) -> None:
    setting = settings()
    agent = make_agent("try_again", tasks=setting.tasks, language="python")
    asked = next(agent.strategy(setting.tasks[0], "submit"))
    assert "submit NAME" in asked.messages[0]["content"]


def test_infos_of_equal_episodes_are_equal(make: Make) -> None:
    env, seen = make(), []
    for _ in range(2):
        start(env, "double")
        seen.append([env.step(action) for action in ("def f(n): return n * 2", "set('hello')", "1/0", "submit f")])
    assert seen[0] == seen[1]


def test_golds_reach_one_and_doing_nothing_reaches_zero(settings: Callable[..., Setting]) -> None:
    for reward in ("exact", "paper"):
        setting = settings(reward=reward)
        for agent, success in ((gold, True), (noop, False)):
            episodes = evaluate(setting, agent, tasks=setting.tasks)
            assert [(e.success, e.error) for e in episodes] == [(success, None)] * len(TASKS), (reward, agent)


def test_the_data_check_finds_nothing_in_sound_tasks(settings: Callable[..., Setting]) -> None:
    setting = settings(max_turns=None)
    assert check(setting, setting.tasks)["broken"] == []


def test_the_data_check_finds_golds_that_fail(folder: Path, tmp_path: Path) -> None:
    broken = [
        {"id": "wrong", "query": "a", "gold": "def f(): return 1", "tests": ["assert f() == 2"]},
        {"id": "no python", "query": "b", "gold": "def f(: pass", "tests": ["assert f() == 2"], "name": "f"},
        {"id": "no tests", "query": "c", "gold": "def f(): pass"},
        {"id": "clock", "query": "d", "gold": "import time\ndef f(): return time.time()", "tests": ["assert f() == 2"]},
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(broken))
    setting = intercode.prepare("python", data=str(tmp_path / "tasks.json"), max_turns=None)
    found = check(setting, setting.tasks)
    assert found["gold_ok"] == 0
    assert [(each["task"], each["kind"]) for each in found["broken"]] == [
        (each, "gold_fails") for each in ("wrong", "no python", "no tests", "clock")
    ], "one cause gives one finding"
    assert any("fails test 1" in each["why"] for each in found["broken"])
    with closing(setting()) as env, pytest.raises(DataError, match="has no tests"):
        env.reset(options={"task": "no tests"})


def test_the_data_check_finds_tests_that_any_answer_passes(folder: Path, tmp_path: Path) -> None:
    sound = {"query": "a", "gold": "def f(): return 1", "tests": ["assert f() == 1"]}
    idle = {"query": "b", "gold": "def f(): return 1", "tests": ["assert f() == 1", "assert True"]}
    (tmp_path / "tasks.json").write_text(json.dumps([sound, idle]))
    setting = intercode.prepare("python", data=str(tmp_path / "tasks.json"), max_turns=None)
    found = check(setting, setting.tasks)
    why = "test 2 uses nothing of the answer, so any passes it: assert True"
    assert (found["gold_ok"], found["broken"]) == (2, [{"task": "1", "kind": "empty_test", "why": why}])


def test_the_papers_protocol_scores_the_first_function_of_each_action(make: Make) -> None:
    env = start(make(protocol="paper"), "file")
    assert env.step("x = 1")[1] == 0
    assert env.step("def f(): return x")[1] == 0
    observation, reward, terminated, _, info = env.step("def f(): return 'apple'")
    assert (observation, reward, terminated, info["ended"]) == ("", 1.0, True, "solved")


def test_the_papers_protocol_pays_an_action_that_fails_after_a_scored_one(make: Make) -> None:
    """As its recordings show: the gold of the scoring before was still there."""
    env = start(make(protocol="paper"), "file")
    assert env.step("def f(: pass")[1] == 0
    assert env.step("def f(: pass")[1] == 1


def test_the_papers_reward_is_the_share_of_equal_outcomes(make: Make) -> None:
    env = start(make(reward="paper"), "double")
    env.step("def f(n): return 4")
    _, reward, _, _, info = env.step("submit f")
    assert reward == pytest.approx(1 / 3)
    assert not info["score"].success


def test_a_reward_of_ones_own_sees_every_result(make: Make) -> None:
    from intercode.types import Score

    env = start(make(reward=lambda results, task: Score(sum(r.passed for r in results) / 10, False)), "double")
    env.step("def f(n): return n * 2")
    assert env.step("submit f")[1] == 0.5


def test_a_fork_goes_its_own_way_and_counts_its_turns(make: Make) -> None:
    env = start(make(max_turns=3), "double")
    env.step("def f(n): return 0")
    twin = env.fork()
    try:
        twin.step("def f(n): return n * 2")
        assert twin.turn == 2
        assert twin.step("submit f")[1] == 1
        assert env.step("submit f")[1] == 0
    finally:
        twin.close()


def test_a_fork_executes_the_episode_again_and_must_observe_the_same(make: Make) -> None:
    env = start(make(), "double")
    env.step("g = (i for i in range(3))")
    env.step("next(g)")
    twin = env.fork()
    assert twin.step("next(g)")[0] == env.step("next(g)")[0] == "1\n"
    twin.close()
    env.step("import time; time.time()")
    with pytest.raises(ForkError, match="another observation at turn 4"):
        env.fork()
    assert env.step("next(g)")[0] == "2\n"


def test_it_passes_gymnasiums_checker(make: Make) -> None:
    check_env(make(), skip_render_check=True)


def test_it_is_made_by_gymnasium(folder: Path) -> None:
    env = gymnasium.make("intercode:intercode/Python-v0", data=str(folder))
    env.reset(seed=0)
    assert env.step("1 + 1")[0] == "2\n"
    env.close()


@pytest.mark.parametrize("options", [{"reward": "best"}, {"tell": "all"}, {"submits": 0}, {"seconds": 0}, {"seconds": -1}])
def test_wrong_options_are_the_callers_fault(settings: Callable[..., Setting], options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        settings(**options)()


def test_a_submission_that_passes_the_public_tests_is_final(tmp_path: Path) -> None:
    """What hidden tests call with cannot be noted down for another submission, nor for another turn."""
    record = {
        "query": "Square n.",
        "gold": "def it(n): return n * n",
        "tests": ["assert it(2) == 4"],
        "hidden": ["assert it(7) == 49"],
    }
    (tmp_path / "tasks.json").write_text(json.dumps([record]))
    for options, submission in (({"submits": 3}, "submit f"), ({"protocol": "paper", "reward": "exact"}, "1")):
        with closing(intercode.make("python", data=str(tmp_path / "tasks.json"), **options)) as env:
            env.reset(seed=0)
            observation, reward, terminated, *_ = [env.step("def f(n): return 5"), env.step(submission)][-1]
            assert (reward, terminated) == (0, False), "it fails a public test, and may be repeated"
            assert "2 more" in observation or "submits" not in options
            action = "def it(n): return 4" if submission == "1" else "def f(n): return 4"
            steps = [env.step(action)] if submission == "1" else [env.step(action), env.step(submission)]
            _, reward, terminated, _, info = steps[-1]
            assert (reward, terminated, info["ended"]) == (0, True, "submit")
