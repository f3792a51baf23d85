"""A task with several golds: any of them may match, the best score counts, and one that fails
accepts nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.errors import DataError
from intercode.types import Outcome, Task
from intercode_sandbox.base import Limits

Make = Callable[..., Any]


def reward(env: Any, task: Task, *actions: str) -> float:
    env.tasks.append(task)
    try:
        env.reset(options={"task": task.id})
        for action in actions:
            env.step(action)
        return float(env.step("submit")[1])
    finally:
        env.tasks.pop()


def test_any_gold_may_match_and_one_that_cannot_run_accepts_nothing(make: Make) -> None:
    broken = ("sleep 99", "nosuch", "cat /box/nosuch", "exit 1")
    either = Task("either", "Print a fruit of /box.", "cat /box/a", golds=(*broken, "cat /box/b"))
    env = make(limits=Limits(seconds=0.3))
    for action, earned in (
        *(("cat /box/a", 1), ("cat /box/b", 1), ("cat /box/c", 0), ("cat /box/a /box/b", 0)),
        *(("nosuch", 0), ("false", 0)),
    ):
        assert reward(env, either, action) == earned, action


def test_on_each_content_any_gold_of_a_general_task_may_match(make: Make) -> None:
    """/box/a holds another word elsewhere: so `cat /box/a` matches one gold here and the other one
    there."""
    here, there = "echo apple", "echo quince"
    general = {"general": True}
    assert (
        reward(make(), Task("crossed", "Print /box/a.", here, general, (there,)), "cat /box/a") == 1
    )
    assert reward(make(), Task("single", "Print /box/a.", here, general), "cat /box/a") == 0


def test_a_reward_of_the_callers_is_asked_about_each_gold_until_one_succeeds(make: Make) -> None:
    asked: list[tuple[str, str]] = []

    def share(agent: Outcome, gold: Outcome, task: Task) -> float:
        asked.append((task.gold, gold.output))
        return {"apple\n": 0.5, "pear\n": 1.0}.get(gold.output, 0.2)

    task = Task(
        "fruit", "Print a fruit.", "cat /box/c", golds=("cat /box/a", "cat /box/b", "echo never")
    )
    assert reward(make(reward=share), task, "true") == 1
    assert asked == [
        ("cat /box/c", "plum ünd €\n"),
        ("cat /box/a", "apple\n"),
        ("cat /box/b", "pear\n"),
    ]
    assert (
        reward(
            make(reward=share), Task("less", "Print.", "cat /box/c", golds=("cat /box/a",)), "true"
        )
        == 0.5
    )


ONLY_FAIL = [
    *(
        "rmdir /box",
        "rmdir /box 2> /dev/null",
        "chmod 600 /box/nosuch",
        "cat /box/nosuch | xargs chmod 600",
        "exit 3",
    ),
    *(
        "cd /nosuch && ls",
        "mkdir --nosuch",
        "test -e /box/nosuch && echo yes",
        'awk "{" /box/a',
        "echo 'a",
    ),
]


@pytest.mark.parametrize("gold", ONLY_FAIL)
def test_a_gold_that_only_fails_is_a_fault_of_the_data(make: Make, gold: str) -> None:
    for action in (gold, "false"):
        with pytest.raises(DataError, match="task bad: the gold only fails"):
            reward(make(), Task("bad", "Change /box.", gold), action)
    assert any(
        "gold ends with status" in fault
        for fault in make().run_gold(Task("bad", "Change /box.", gold)).faults
    )


def test_a_gold_that_only_fails_is_played_under_other_rewards(make: Make) -> None:
    task = Task("bad", "Remove the folder /box.", "rmdir /box")
    assert reward(make(reward=lambda agent, gold, task: float(agent.failed)), task, "false") == 1
    assert reward(make(reward="paper", session="stateless"), task, "rmdir /box") == 1


def test_a_gold_that_fails_and_does_something_is_played(make: Make) -> None:
    for gold, action, earned in (
        ("cat /box/a; rmdir /box", "cat /box/a; rmdir /box", 1),
        ("cat /box/a; rmdir /box", "false", 0),
        ("touch /box/new; rmdir /box", "touch /box/new", 1),
        ("touch /box/new; rmdir /box", "false", 0),
        ("rmdir /box 2>&1", "rmdir /box", 1),
        ("rmdir /box 2>&1", "false", 0),
        ("grep zzz /box/a", "true", 1),
        ("diff /box/a /box/b", "false", 0),
    ):
        assert reward(make(), Task("full", "Do it.", gold), action) == earned, (gold, action)


def test_in_sql_any_gold_may_match(sql: Any) -> None:
    env = sql()
    task = Task(
        "any",
        "Any?",
        "SELECT 1",
        env.tasks[0].extra,
        ("SELECT nosuch FROM nowhere", "SELECT 2 UNION SELECT 3"),
    )
    for action, earned in (
        ("SELECT 1", 1),
        ("SELECT 3 UNION SELECT 2", 1),
        ("SELECT 2", 0),
        ("SELECT nosuch", 0),
    ):
        assert (reward(env, task, action) == 1) is bool(earned), action


def test_in_ctf_any_flag_may_match(tmp_path: Path, box: Path) -> None:
    tasks: list[dict[str, Any]] = [
        {"id": "flags", "query": "What is 0x2A in decimal?", "gold": "tag{42}", "golds": ["42"]},
        {
            "id": "scripts",
            "query": "What is 6 * 7?",
            "golds": ["echo 42", "exit 1", "echo forty"],
            "gold_is": "script",
        },
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    with intercode.make("ctf", data=str(tmp_path), everything=True) as env:
        for task, flag, earned in (
            *(("flags", "tag{42}", 1), ("flags", "42", 1), ("flags", "tag{43}", 0)),
            *(("scripts", "42", 1), ("scripts", "forty", 1), ("scripts", "six", 0)),
        ):
            env.reset(options={"task": task})
            assert env.step(f"submit {flag}")[1] == earned, (task, flag)
