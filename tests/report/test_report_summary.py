"""Figures from episodes: the fixed keys, honest intervals, and no comparison across userlands."""

from __future__ import annotations

import random
import re

import pytest

from intercode.errors import UsageError
from intercode.report.summary import interval, reasons, require_comparable, summary, wilson
from intercode.report.tables import figure_cells
from intercode.runs.rows import episode_row, turn_rows
from intercode.types import Episode, Turn, Usage

CONFIG = {
    "run": "runs/a",
    "env": "bash",
    "agent": "try_again",
    "model": "m",
    "reward": "exact",
    "userland": "debian",
}
KEYS = [
    *("run", "env", "agent", "model", "reward", "episodes", "success_rate", "ci95"),
    *("mean_reward", "mean_turns", "errors", "seconds", "tokens", "cost"),
]


def episode(
    task: str, reward: float | None, *, error: str | None = None, epoch: int = 0, turns: int = 2
) -> Episode:
    turn = Turn(action="ls", usage=Usage(10, 5, 0.01), seconds=0.5)
    played = (Turn(reply="a plan"), *[turn] * (turns - 1), Turn(observation="no code"))
    return Episode(task, "q", played, reward, reward == 1, "submit", epoch=epoch, error=error)


def test_rates_are_over_scored_episodes_and_costs_over_all() -> None:
    episodes = [
        episode("a", 1.0),
        episode("b", 0.5, turns=4),
        episode("c", None, error="model: down"),
        episode("d", None),
    ]
    made = summary(CONFIG, episodes)
    assert list(made) == KEYS
    assert (made["run"], made["agent"], made["reward"]) == ("runs/a", "try_again", "exact")
    assert (made["episodes"], made["errors"]) == (3, 1)
    assert (made["success_rate"], made["mean_reward"], made["mean_turns"]) == (0.5, 0.75, 3.0)
    assert (made["tokens"], made["cost"], made["seconds"]) == (90, 0.06, 3.0)


def test_a_run_with_nothing_scored_claims_nothing() -> None:
    made = summary({}, [episode("a", None, error="sandbox: gone")])
    assert (made["success_rate"], made["mean_reward"], made["mean_turns"]) == (None, None, None)
    assert (made["ci95"], made["episodes"], made["errors"]) == ([0.0, 1.0], 1, 1)
    cells = figure_cells(made)
    assert (cells["success %"], cells["95 %"], cells["errors"]) == ("–", "–", "1")


def test_each_distinct_error_is_told_once_with_its_count_and_at_most_five() -> None:
    many = [
        episode("a", 1.0),
        *(episode(str(number), None, error=f"data: {number % 7}") for number in range(15)),
    ]
    assert reasons(many) == [
        "3 × data: 0",
        *(f"2 × data: {number}" for number in range(1, 5)),
        "and 2 more",
    ]


@pytest.mark.parametrize(
    ("rate", "count", "low", "high"),
    [
        (0.5, 10, 0.2366, 0.7634),
        (0.0, 10, 0.0, 0.2775),
        (1.0, 10, 0.7225, 1.0),
        (0.45, 60, 0.3309, 0.5750),
    ],
)
def test_with_one_epoch_the_interval_is_wilsons(
    rate: float, count: int, low: float, high: float
) -> None:
    found = interval([episode(str(i), float(i < rate * count)) for i in range(count)])
    assert found == wilson(rate, count) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("epochs", [1, 4])
def test_the_interval_holds_the_truth_about_95_times_in_100(epochs: int) -> None:
    dice, hits, worlds = random.Random(40 + epochs), 0, 400
    for _ in range(worlds):
        scored: list[Episode] = []
        for i in range(40):
            chance = dice.betavariate(0.6, 0.9)
            scored += [
                episode(str(i), float(dice.random() < chance), epoch=e, turns=1)
                for e in range(epochs)
            ]
        low, high = interval(scored)
        hits += low <= 0.4 <= high
    assert 0.92 <= hits / worlds <= 0.98


def test_runs_on_different_userlands_are_not_compared() -> None:
    other = {**CONFIG, "run": "runs/b", "userland": "ubuntu"}
    with pytest.raises(UsageError, match=r"runs/b.*--force"):
        require_comparable([CONFIG, other])
    require_comparable([CONFIG, other], force=True)
    require_comparable([CONFIG, {**other, "env": "sql"}])


def test_the_error_names_the_tools_that_differ() -> None:
    tools = {"bash": "5.2", "awk": "mawk 1.3", "id": "0"}
    first, second = (
        {**CONFIG, "run": run, "userland": tools | {"bash": bash, "id": bash}}
        for run, bash in (("a", "5.1"), ("b", "5.2"))
    )
    expected = "these runs of bash were made on different userlands (bash 5.1 in a, 5.2 in b); add"
    with pytest.raises(UsageError, match=re.escape(expected)):
        require_comparable([first, second, second])


def test_a_cost_without_a_price_is_unknown() -> None:
    free = Episode("a", "q", (Turn(action="ls", usage=Usage(10, 5)),), 1.0, True, "submit")
    for config, cost in ((CONFIG, None), ({**CONFIG, "price": [0, 0]}, 0.0)):
        assert summary(config, [free])["cost"] == cost
        assert episode_row(config, free)["cost"] == cost
        assert next(turn_rows(config, free))["cost"] == cost


@pytest.mark.parametrize("rewards", [(1, 0, 1, 0), (1, 1, 0, 0), (1, 0, 0, 0), (1, 1, 1, 1)])
def test_pass_at_1_has_the_interval_of_success(rewards: tuple[int, ...]) -> None:
    pairs = [(task, epoch) for task in "ab" for epoch in range(2)]
    scored = [
        episode(task, float(reward), epoch=epoch)
        for (task, epoch), reward in zip(pairs, rewards, strict=True)
    ]
    made = summary(CONFIG, scored)
    first = made["pass_at_k"]["1"]
    assert (first["rate"], list(first["ci95"])) == (made["success_rate"], made["ci95"])


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("cc=exec:claude -p {query}", "cc"),
        ("exec:/opt/bin/claude -p {query} --max-turns 40", "exec:claude"),
        ("exec:python3 /srv/agents/tiny.py {query}", "exec:python3 tiny.py"),
        ("exec:mkdir -p $HOME/x; codex exec --yolo {query}", "codex exec"),
        ("/srv/agents/mine.py:look_first", "mine.py:look_first"),
        ("best_of:4", "best_of:4"),
    ],
)
def test_an_agent_has_a_name_in_place_of_its_command(agent: str, name: str) -> None:
    assert summary({**CONFIG, "agent": agent}, [])["agent"] == name
