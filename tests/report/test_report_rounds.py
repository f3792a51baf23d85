"""What a report says of rounds: success by round and by length, regressions, and an episode in
chapters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from kept import needs_bwrap, write_box

import intercode
from intercode.agents import Act, StrategySteps
from intercode.factory import EnvFactory
from intercode.generate import generate
from intercode.report.analysis import by_round, side_by_side
from intercode.report.summary import lean
from intercode.report.transcript import steps
from intercode.runner.run import evaluate
from intercode.runs.evaluation import Evaluation
from intercode.runs.store import read_run
from intercode.types import Task

ROUNDS, TASKS = 4, 30


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    rounds = [
        {"query": f"Write {number} into /box/{number}.", "gold": f"echo {number} >/box/{number}"}
        for number in range(ROUNDS)
    ]
    records = [{"id": f"t{task}", "rounds": rounds} for task in range(TASKS)]
    return intercode.prepare("bash", data=str(write_box(tmp_path_factory.mktemp("b"), records)))


def nine_of_ten(task: Task, protocol: str) -> StrategySteps:
    """Solve each round with probability .9, and never go back."""
    chance = random.Random(task.id)
    for posed in (task, *task.rounds):
        yield Act(posed.gold if chance.random() < 0.9 else "true")
        yield Act("submit")


def rewriting(task: Task, protocol: str) -> StrategySteps:
    """Begin each round by removing what the earlier ones made."""
    for posed in (task, *task.rounds):
        yield Act(f"rm -f /box/[0-9]; {posed.gold}")
        yield Act("submit")


def stopping(task: Task, protocol: str) -> StrategySteps:
    """Solve the first round, and stop in the second."""
    yield Act(task.gold)
    yield Act("submit")
    yield Act("true")


def test_success_decays_by_round_and_broken_demands_are_counted(factory: EnvFactory) -> None:
    episodes = evaluate(factory, nine_of_ten, tasks=factory.tasks, workers=2)
    done = []
    for task in factory.tasks:
        chance = random.Random(task.id)
        done.append([chance.random() < 0.9 for _ in range(ROUNDS)])
    rows = by_round(lean(episodes))
    for number, row in enumerate(rows.values(), start=1):
        solved = sum(all(rounds[:number]) for rounds in done)
        held = sum(sum(rounds[: number - 1]) for rounds in done)
        assert (row["episodes"], row["success_rate"]) == (TASKS, solved / TASKS)
        assert row["ci95"][0] < row["success_rate"] < row["ci95"][1]
        assert (row["broken"], row["held"]) == (0, held)
    rows = by_round(evaluate(factory, rewriting, tasks=factory.tasks, workers=2))
    assert [row["success_rate"] for row in rows.values()] == [1, 0, 0, 0]
    assert [(row["broken"], row["held"]) for row in rows.values()] == [
        (0, 0),
        *[(TASKS, TASKS)] * 3,
    ]


def test_a_transcript_has_a_chapter_for_each_round(factory: EnvFactory) -> None:
    (episode,) = evaluate(factory, rewriting, tasks=factory.tasks[:1])
    titles = {step.number: step.title for step in steps(episode)}
    assert {number: text for number, text in titles.items() if "Round" in text} == {
        1: "Round 1, reward 1: turn 1",
        3: "Round 2, reward 0: turn 3",
        5: "Round 3, reward 0: turn 5",
        7: "Round 4, reward 0: turn 7",
    }
    assert not Path("/box/0").exists()
    (episode,) = evaluate(factory, stopping, tasks=factory.tasks[:1])
    assert [step.title for step in steps(episode)] == [
        "Round 1, reward 1: turn 1",
        "turn 2",
        "Round 2, not ended: turn 3",
    ]


def test_success_is_told_by_hops_and_by_the_number_of_rounds(tmp_path: Path) -> None:
    needs_bwrap()
    data = tmp_path / "data"
    generate("sql-rounds", n=8, seed=1, split="train", out=data)
    planned = Evaluation.plan("sql", data=str(data), agent="gold", turns=30)
    with planned.open(tmp_path / "run", resume=False) as store:
        planned.run(store)
    config, episodes = read_run(tmp_path / "run")
    (run,) = side_by_side([(config, lean(episodes))])["runs"]
    hops, rounds = run["by_hardness"], run["analysis"]["by_length"]
    assert list(hops) == ["2 hops", "3 hops", "4 hops", "5 hops"]
    assert {*rounds} <= {"3 rounds", "4 rounds", "5 rounds", "6 rounds"}
    for rows in (hops, rounds):
        assert sum(row["episodes"] for row in rows.values()) == 8
        assert all(row["success_rate"] == 1 for row in rows.values())
