"""The starter set for Bash keeps what its README promises, under every way of scoring."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import Strategy, gold, noop, retrieval
from intercode.env import Setting, View
from intercode.runner.run import evaluate
from intercode.tasks import open_data
from intercode.types import Episode, Outcome, Score, Task

TASKS = open_data(None, env="bash").tasks
GENERAL = [task for task in TASKS if task.general]
WAYS: list[dict[str, Any]] = [{}, {"reward": "paper"}, {"protocol": "paper"}, {"protocol": "paper", "reward": "exact"}]


@pytest.fixture(autouse=True)
def _needs_the_wall() -> None:
    needs_bwrap()


@cache
def prepared(way: int) -> Setting:
    return intercode.prepare("bash", max_turns=None, **WAYS[way])


def played(agent: Strategy, way: int) -> list[Episode]:
    episodes = evaluate(prepared(way), agent, tasks=TASKS, workers=2)
    assert [episode.error for episode in episodes if episode.error] == []
    return episodes


# -- the records --------------------------------------------------------------------------------------------------------


def test_there_are_enough_tasks_with_enough_ideas() -> None:
    assert len(TASKS) >= 40
    assert max(Counter(task.extra["idea"] for task in TASKS).values()) <= 4
    assert len({task.query for task in TASKS}) == len({task.gold for task in TASKS}) == len(TASKS)


def test_at_least_a_third_needs_a_look_and_says_why() -> None:
    looks = [task for task in TASKS if task.extra["looks"]]
    assert 3 * len(looks) >= len(TASKS)
    assert all(len(task.extra["why"].split()) >= 8 for task in looks)
    assert not any(task.general for task in looks)


def test_general_tasks_say_so_to_the_agent() -> None:
    assert len(GENERAL) >= 10
    assert all("must also work on another copy" in task.query for task in GENERAL)
    assert not any("another copy" in task.query for task in TASKS if not task.general)


def test_golds_survive_the_papers_quoting() -> None:
    assert [task.id for task in TASKS if shlex.split(f'bash -c "{task.gold}"') != ["bash", "-c", task.gold]] == []


# -- what agents without a model earn -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_gold_is_right(way: int) -> None:
    wrong = {e.task: e.parts for e in played(gold, way) if not e.success or e.reward != 1}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_doing_nothing_is_never_right(way: int) -> None:
    assert [e.task for e in played(noop, way) if e.success] == []


@pytest.mark.slow
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_the_golds_of_similar_tasks_solve_few(way: int) -> None:
    episodes = played(retrieval(TASKS, 5), way)
    assert sum(e.success for e in episodes) < 0.3 * len(episodes)


# -- second contents ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """What each general gold does to the first contents."""
    seen: dict[str, Outcome] = {}

    def note(agent: Outcome, gold: Outcome, task: Task) -> Score:
        seen[task.id] = gold
        return Score(0.0, False)

    setting = intercode.prepare("bash", reward=note)
    evaluate(setting, noop, tasks=GENERAL, workers=2)
    return seen


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    made = intercode.make("bash", view=View(head=None), max_turns=None)
    yield made
    made.close()


def constant(env: Any, task: Task, outcome: Outcome) -> str:
    """An action that prints and leaves what the gold does on the first contents, whatever it finds."""
    kept = [path for path, change in outcome.changes.items() if change.kind != "removed"]
    removed = [path for path, change in outcome.changes.items() if change.kind == "removed"]
    env.reset(options={"task": task.id})
    env.step(task.gold)
    pack = f"tar --no-recursion -cPf - {shlex.join(kept)} | base64 -w 0" if kept else "true"
    archive = env.step(pack)[0]
    lines = [f"base64 -d <<< {archive} | tar --overwrite -xPf -"] if kept else []
    lines += [f"rm -rf {shlex.join(removed)}"] if removed else []
    return "\n".join([*lines, f"printf %s {shlex.quote(outcome.output)}"])


@pytest.mark.slow
@pytest.mark.parametrize("task", GENERAL, ids=lambda task: task.id)
def test_a_constant_answer_holds_here_and_not_elsewhere(env: Any, outcomes: dict[str, Outcome], task: Task) -> None:
    action = constant(env, task, outcomes[task.id])
    env.reset(options={"task": task.id})
    env.step(action)
    score = env.step("submit")[4]["score"]
    assert score.parts["effects"] == score.parts["answer"] == 1.0, "it is right on the first contents"
    assert (score.success, score.parts["robust"]) == (False, 0.0)


@pytest.mark.slow
def test_general_golds_have_another_outcome_on_the_second_contents() -> None:
    made = prepared(0)()
    try:
        faults = {task.id: made.try_gold(task).faults for task in GENERAL}
    finally:
        made.close()
    assert {name: fault for name, fault in faults.items() if fault} == {}
