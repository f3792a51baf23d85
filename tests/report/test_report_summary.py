"""Figures from episodes: the fixed keys, honest intervals, and no comparison across userlands."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rich.console import Console

from intercode.errors import UsageError
from intercode.report import interval, reasons, require_comparable, summary, wilson
from intercode.report.tables import overview
from intercode.types import Episode, Turn, Usage

CONFIG = {"run": "runs/a", "env": "bash", "agent": "try_again", "model": "m", "reward": "exact", "userland": "debian"}
KEYS = [
    *("run", "env", "agent", "model", "reward", "episodes", "success_rate", "ci95"),
    *("mean_reward", "mean_turns", "errors", "seconds", "tokens", "cost"),
]


def episode(task: str, reward: float | None, *, error: str | None = None, epoch: int = 0, turns: int = 2) -> Episode:
    turn = Turn(action="ls", usage=Usage(10, 5, 0.01), seconds=0.5)
    played = (Turn(reply="a plan"), *[turn] * (turns - 1), Turn(observation="no code"))
    return Episode(task, "q", played, reward, reward == 1, "submit", epoch=epoch, error=error)


EPISODES = [
    episode("a", 1.0),
    episode("b", 0.5, turns=4),
    episode("c", None, error="model: down"),
    episode("d", None),
]


def test_a_summary_has_exactly_the_fixed_keys_in_order() -> None:
    assert list(summary(CONFIG, EPISODES)) == KEYS
    assert list(summary({}, [])) == KEYS


def test_rates_are_over_scored_episodes_and_costs_over_all() -> None:
    made = summary(CONFIG, EPISODES)
    assert (made["run"], made["agent"], made["reward"]) == ("runs/a", "try_again", "exact")
    assert (made["episodes"], made["errors"]) == (3, 1)
    assert (made["success_rate"], made["mean_reward"], made["mean_turns"]) == (0.5, 0.75, 3.0)
    assert (made["tokens"], made["cost"], made["seconds"]) == (90, 0.06, 3.0)


def test_each_distinct_error_is_told_once_with_its_count_and_at_most_five() -> None:
    assert reasons(EPISODES) == ["1 × model: down"]
    assert reasons(EPISODES[:2]) == []
    many = [episode(str(number), None, error=f"data: {number % 7}") for number in range(15)]
    assert reasons(many) == ["3 × data: 0", *(f"2 × data: {number}" for number in range(1, 5)), "and 2 more"]


def test_a_run_with_nothing_scored_claims_nothing() -> None:
    made = summary(CONFIG, [episode("a", None, error="sandbox: gone")])
    assert (made["success_rate"], made["mean_reward"], made["mean_turns"]) == (None, None, None)
    assert (made["ci95"], made["episodes"], made["errors"]) == ([0.0, 1.0], 1, 1)


@pytest.mark.parametrize(
    ("rate", "count", "low", "high"),
    [(0.5, 10, 0.2366, 0.7634), (0.0, 10, 0.0, 0.2775), (1.0, 10, 0.7225, 1.0), (0.45, 60, 0.3309, 0.5750)],
)
def test_wilson_gives_the_known_figures(rate: float, count: int, low: float, high: float) -> None:
    assert wilson(rate, count) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("count", range(1, 300, 7))
def test_an_interval_at_either_end_reaches_it_exactly(count: int) -> None:
    assert wilson(0.0, count)[0] == 0.0
    assert wilson(1.0, count)[1] == 1.0


def test_with_one_epoch_the_interval_is_plain_wilson() -> None:
    scored = [episode(str(i), float(i < 27)) for i in range(60)]
    assert interval(scored) == wilson(27 / 60, 60)


def test_repeating_the_same_outcomes_adds_no_certainty() -> None:
    once = [episode(str(i), float(i % 3 == 0)) for i in range(30)]
    again = [episode(str(i), float(i % 3 == 0), epoch=epoch) for i in range(30) for epoch in range(5)]
    assert interval(again) == pytest.approx(interval(once), abs=0.01)


def test_epochs_that_do_not_hang_together_count_in_full() -> None:
    scored = [episode(str(i), float(epoch % 2), epoch=epoch) for i in range(30) for epoch in range(4)]
    assert interval(scored) == wilson(0.5, 120)


def test_order_of_the_episodes_does_not_matter() -> None:
    scored = [episode(str(i), float(i % 3 == 0), epoch=epoch) for epoch in range(3) for i in range(20)]
    assert interval(scored) == interval(sorted(scored, key=lambda e: e.task)) == interval(scored[::-1])


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("tasks", [40, 200])
def test_the_interval_holds_the_truth_about_95_times_in_100(tasks: int, epochs: int) -> None:
    dice, hits, worlds = random.Random(tasks + epochs), 0, 400
    for _ in range(worlds):
        scored: list[Episode] = []
        for i in range(tasks):
            chance = dice.betavariate(0.6, 0.9)
            scored += [episode(str(i), float(dice.random() < chance), epoch=e, turns=1) for e in range(epochs)]
        low, high = interval(scored)
        hits += low <= 0.4 <= high
    assert 0.92 <= hits / worlds <= 0.98


@pytest.mark.parametrize("successes", [[0], [1], [1, 0], [0, 0, 1]])
def test_an_interval_lies_within_0_and_1_and_around_the_rate(successes: Sequence[int]) -> None:
    low, high = interval([episode(str(i), float(s)) for i, s in enumerate(successes)])
    assert 0 <= low <= sum(successes) / len(successes) <= high <= 1


def test_runs_on_different_userlands_are_not_compared() -> None:
    other = {**CONFIG, "run": "runs/b", "userland": "ubuntu"}
    require_comparable([CONFIG, CONFIG])
    with pytest.raises(UsageError, match=r"runs/b.*--force"):
        require_comparable([CONFIG, other])
    require_comparable([CONFIG, other], force=True)


def test_brackets_in_a_name_are_shown_as_they_are() -> None:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(*overview([summary({**CONFIG, "agent": "a[bold]b", "model": "m[/red]", "env": "e[x]"}, EPISODES)]))
    assert all(name in capture.get() for name in ("a[bold]b", "m[/red]", "e[x]"))


def test_the_table_shows_every_run_best_first() -> None:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(*overview([summary({**CONFIG, "agent": "noop"}, []), summary(CONFIG, EPISODES)]))
    text = capture.get()
    assert text.index("try_again") < text.index("noop")
    assert "50.0" in text
    assert "9.5–90.5" in text
