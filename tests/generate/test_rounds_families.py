"""Generated reports that change in rounds: golds of all rounds, and what must be refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv
from intercode.generate import generate
from intercode.types import Task
from intercode.validate.check import check_texts


def rounds_solved(env: InterCodeEnv, task: Task, golds: list[str]) -> list[bool]:
    """Play an action in each round, if it is not empty. Return which rounds were solved."""
    env.reset(options={"task": task.id})
    outcomes = {}
    for action in golds:
        if action:
            env.step(action)
        outcomes = env.step("submit")[4]["outcomes"]
    return [row["success"] for row in outcomes["rounds"]]


@pytest.mark.parametrize("env", ["sql", "bash"])
def test_only_who_does_all_that_is_asked_for_solves_a_report(env: str, tmp_path: Path) -> None:
    needs_bwrap()
    if env == "bash" and not all(map(shutil.which, ("jq", "sqlite3", "git"))):
        pytest.skip("needs jq, sqlite3 and git")
    generate(f"{env}-rounds", n=6, seed=1, split="train", hops=2, out=tmp_path / "data")
    assert check_texts(env, data=str(tmp_path / "data"))["suspicious"] == []
    with intercode.make(env, data=str(tmp_path / "data"), max_turns=None) as playing:
        changing = alone = 0
        for task in playing.tasks:
            posed = (task, *task.rounds)
            golds = [asked.gold for asked in posed]
            assert 3 <= len(golds) <= 6
            assert playing.run_gold(task).faults == ()
            assert all(rounds_solved(playing, task, golds))
            assert not any(rounds_solved(playing, task, [""] * len(golds)))
            last = len(golds) - 1
            alone += rounds_solved(playing, task, [*[""] * last, golds[last]])[last]
            for place, asked in enumerate(posed):
                if asked.extra.get("changes"):
                    changing += 1
                    ignoring = [*golds[:place], "", *golds[place + 1 :]]
                    assert not rounds_solved(playing, task, ignoring)[place]
        assert changing
        assert alone <= 1  # the last gold may make the only line that is left
