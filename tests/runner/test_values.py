"""What a submission would earn after each turn: in a run's folder, in a pool's rollouts and trees,
and where an environment has no such value."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
from calculator import Calculator, make_tasks

import intercode
from intercode.agents import Act, Ask, Fork, StrategySteps
from intercode.env import InterCodeEnv
from intercode.errors import SandboxDied, UsageError
from intercode.hooks import NO_VALUE
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.episode import play
from intercode.train import Job, RolloutLimits, RolloutPool
from intercode.types import Episode, ExecResult, Message, Reply, Score, Task, Usage

TASKS = [Task("ten", "Reach 10.", "10"), Task("dark", "Guess.", "20", {"dark": True})]


class Adder(InterCodeEnv):
    """Adds numbers; a submission earns the part of the goal that is reached."""

    def start_episode(self, task: Task) -> None:
        self.number = 0

    def execute(self, action: str) -> ExecResult:
        self.number += int(action)
        return ExecResult(f"{self.number}\n", exit_code=0)

    def score(self) -> Score:
        part = self.number / int(self.task.gold)
        return Score(part, part == 1)

    def value(self) -> float | None:
        if self.number == 13:
            raise SandboxDied("thirteen")
        if self.number == 12:
            return "much"  # type: ignore[return-value]
        return self.score().reward

    @property
    def no_value(self) -> str:
        return "a look at the answer would change it" if self.task.extra.get("dark") else ""

    def copy_world(self, fork: Self, live: bool) -> None:
        fork.number = self.number

    def close_world(self) -> None:
        pass


class Dice:
    """A model that says another number at each question, and notes the questions."""

    name = "dice"

    def __init__(self) -> None:
        self.numbers: Iterator[int] = itertools.cycle([1, 2, 3])
        self.asked: list[Message] = []

    def complete(self, messages: Sequence[Message], **_: object) -> Reply:
        self.asked += messages
        return Reply(str(next(self.numbers)), Usage(10, 1))


def two_lines(task: Task, protocol: str) -> StrategySteps:
    """Add on two branches; no step tells the value."""
    yield Act("3")
    branch = yield Fork()
    steps = [(yield Act("4")), (yield Act("2", env=branch)), (yield Act(None, env=branch))]
    assert all("value" not in (step.info or {}) for step in steps)
    yield Act("5", env=branch)
    yield Act("submit", env=branch)


two_lines.needs_model = False  # type: ignore[attr-defined]


def asking(task: Task, protocol: str) -> StrategySteps:
    messages = [{"role": "user", "content": task.query}]
    for _ in range(3):
        reply = yield Ask(list(messages))
        step = yield Act(reply.text)
        messages += [reply.message, {"role": "user", "content": step.observation}]
    yield Act("submit")


def values_of(episode: Episode) -> list[float | None]:
    return [turn.value for turn in episode.turns]


def test_a_run_with_values_records_them_and_is_otherwise_as_without(tmp_path: Path) -> None:
    data = tmp_path / "tasks.jsonl"
    records = [
        {"id": task.id, "query": task.query, "gold": task.gold, **task.extra} for task in TASKS
    ]
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    options: dict[str, Any] = {"agent": f"{__file__}:two_lines", "data": str(data), "workers": 1}
    run = intercode.evaluate(f"{__file__}:Adder", out=tmp_path / "run", values=True, **options)
    ten, dark = run.episodes
    assert run.config["values"]
    assert (values_of(ten), ten.no_value) == ([0.3, 0.7, 0.5, 0.5, 1.0, None], "")
    assert (values_of(dark), dark.no_value) == ([None] * 6, "a look at the answer would change it")
    assert [row["value"] for row in run.rows("turns")][:6] == values_of(ten)
    again = intercode.evaluate(f"{__file__}:Adder", out=tmp_path / "run", resume=True, **options)
    assert list(again.episodes) == [ten, dark]
    bare = intercode.evaluate(f"{__file__}:Adder", out=tmp_path / "bare", **options)
    for without, recorded in zip(bare.episodes, run.episodes, strict=True):
        assert without == timeless(recorded, without)


def timeless(episode: Episode, clock: Episode) -> Episode:
    """Return the episode without its values, and with the times of another one."""
    pairs = zip(episode.turns, clock.turns, strict=True)
    turns = tuple(replace(turn, value=None, seconds=other.seconds) for turn, other in pairs)
    return replace(episode, turns=turns, no_value="")


def test_rollouts_and_the_branches_of_a_tree_have_values() -> None:
    model, limits = Dice(), RolloutLimits(turns=3)
    with RolloutPool(lambda: Adder(TASKS), asking, tasks=TASKS, limits=limits, values=True) as pool:
        rollouts = {rollout.task: rollout for rollout in pool.run(map(Job, ("ten", "dark")), model)}
        stats = pool.stats()
        tree = pool.tree(Job("ten"), model, widths=(2, 2))
    leaves = [rollout.episode for rollout in tree.rollouts]
    assert len({tuple(turn.action for turn in leaf.turns) for leaf in leaves}) > 1
    for episode in (rollouts["ten"].episode, *leaves):
        *numbers, submission = (turn.action for turn in episode.turns)
        sums = itertools.accumulate(int(number or 0) for number in numbers)
        assert (values_of(episode), submission) == ([*(part / 10 for part in sums), None], "submit")
    assert rollouts["ten"].values == tuple(values_of(rollouts["ten"].episode))
    assert set(rollouts["dark"].values) == {None}
    assert stats.no_value == {"a look at the answer would change it": 1}
    assert {message["content"] for message in model.asked if message["role"] == "user"} <= {
        *(task.query for task in TASKS),
        *(f"{number}\n" for number in range(10)),
    }


def played(*actions: str | None, env: Any = None, limits: RunLimits | None = None) -> Episode:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in actions:
            yield Ask([{"role": "user", "content": "On?"}])
            yield Act(action)

    world = env or Adder(TASKS)
    return play(world, world.tasks[0], strategy, Dice(), BudgetTracker(limits), values=True)


def test_a_submission_that_nobody_chose_and_the_end_of_an_episode_have_no_value() -> None:
    limited = played("2", "3", "4", limits=RunLimits(episode=Budget(tokens=22)))
    assert [(turn.action, turn.value) for turn in limited.turns] == [
        ("2", 0.2),
        ("3", 0.5),
        ("submit", None),
    ]
    truncated = played("2", "3", env=Adder(TASKS, max_turns=2))
    assert (values_of(truncated), truncated.ended) == ([0.2, None], "turns")
    wrong = played("2", "submit", "8", "submit", env=Adder(TASKS, submits=2))
    assert (values_of(wrong), wrong.success) == ([0.2, 0.2, 1.0, None], True)


def test_an_environment_without_values_says_so() -> None:
    class Silent(Adder):
        value, no_value = InterCodeEnv.value, InterCodeEnv.no_value

    for env in (Calculator(make_tasks(1)), Silent(TASKS)):
        episode = played("1", "2", env=env)
        assert (values_of(episode), episode.no_value) == ([None, None], NO_VALUE)


def test_an_environment_that_defines_only_the_value_has_values() -> None:
    class Plain(Adder):
        no_value = InterCodeEnv.no_value

    assert values_of(played("2", env=Plain(TASKS))) == [0.2]


def test_a_value_that_fails_is_a_fault_of_the_machine_and_one_that_is_no_number_of_the_caller() -> (
    None
):
    with pytest.raises(SandboxDied, match="thirteen"):
        played("13")
    with pytest.raises(UsageError, match="value returned 'much' instead of a number or None"):
        played("12")
