"""Every failed episode gets one category, by what happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from played import CONFIG, error, fine, no_code, played, submit

from intercode.report.analysis import failures
from intercode.types import Episode, Turn

PAPER = {**CONFIG, "protocol": "paper", "turns": 2}
FORCED = Turn(action="submit", forced=True)
CUT_OFF = Turn(reply="I would", observation="cut off", finish_reason="length")
REFUSED = Turn(reply="No.", observation="a refusal", finish_reason="refusal")
SLOW = Turn(action="sleep 99", observation="timed out", timed_out=True)
CASES: dict[str, tuple[dict[str, Any], Episode]] = {
    "broke its sandbox": (CONFIG, played("a", fine(), ended="agent_fault")),
    "cut off": (CONFIG, played("a", no_code(), CUT_OFF, FORCED, ended="turns")),
    "refused": (CONFIG, played("a", REFUSED, submit())),
    "never ran": (CONFIG, played("a", no_code(), submit())),
    "never ran in all its turns": (CONFIG, played("a", no_code(), FORCED, ended="turns")),
    "out of time": (CONFIG, played("a", fine(), SLOW, submit())),
    "only errors": (CONFIG, played("a", error("x"), error("x"), FORCED, ended="turns")),
    "looped": (CONFIG, played("a", fine("ls"), fine("ls"), fine("ls"), submit())),
    "was closer before": (
        {**PAPER, "turns": 3},
        played("a", fine("ls", score=0.7), fine("rm a", score=0.3), ended="stopped"),
    ),
    "had it and lost it": (
        CONFIG,
        played("a", fine(value=0.5), fine("x", value=1.0), fine("rm a", value=0.2), submit()),
    ),
    "had it and lost it in all its turns": (
        CONFIG,
        played("a", fine(value=1.0), fine(value=0.0), fine(value=0.0), FORCED, ended="turns"),
    ),
    "was closer before in value": (
        CONFIG,
        played("a", fine(value=0.7), fine("rm a", value=0.3), submit()),
    ),
    "reached a limit": (CONFIG, played("a", fine(), FORCED, ended="limit")),
    "wrong answer": (CONFIG, played("a", fine(), error(), submit())),
    **{
        name: (CONFIG, replace(played("a", fine(), submit()), outcomes={"failed": failed}))
        for name, failed in (
            ("failed tests", ["tests"]),
            ("wrong on other data", ["robust"]),
            ("wrong files", ["files"]),
            ("wrong answer and files", ["answer", "files"]),
        )
    },
    "out of turns": (CONFIG, played("a", fine("x"), error("y"), FORCED, ended="turns")),
    "out of turns in the paper's protocol": (
        PAPER,
        played("a", fine("ls", score=0.3), fine("pwd", score=0.7), ended="turns"),
    ),
    "stopped": (PAPER, played("a", fine("ls", score=0.3), ended="turns")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_failed_episode_is_in_the_category_that_fits(name: str) -> None:
    config, episode = CASES[name]
    assert [row["name"] for row in failures(config, [episode])] == [name.split(" in ")[0]]


def test_an_answer_that_another_epoch_solved_the_task_with_was_had() -> None:
    right = played("a", fine(seen="42\n"), submit(), solved=True)
    had = played("a", fine(seen="42\n"), fine("date", "today\n"), submit(), epoch=1)
    other = played("b", fine(seen="42\n"), fine("date", "today\n"), submit())
    found = {
        row["name"]: row["examples"][0]["task"] for row in failures(CONFIG, [right, had, other])
    }
    assert found == {"had the answer": "a", "wrong answer": "b"}


def test_where_values_are_recorded_no_category_guesses() -> None:
    """The same episode without values had the answer, and was closer before."""
    right = played("a", fine(seen="42\n"), submit(), solved=True)
    turns = (fine(seen="42\n", score=0.7), fine("date", "today\n", score=0.3))
    guessed = played("a", *turns, submit(), epoch=1)
    known = played("a", *(replace(turn, value=0.4) for turn in turns), submit(), epoch=2)
    found = {
        row["name"]: row["examples"][0]["epoch"]
        for row in failures(CONFIG, [right, guessed, known])
    }
    assert found == {"had the answer": 1, "wrong answer": 2}


def test_shares_add_up_and_three_examples_of_different_tasks_are_kept() -> None:
    failed = [
        replace(episode, task=task)
        for _, episode in CASES.values()
        for task in ("b", "a", "d", "a", "c")
    ]
    found = failures(CONFIG, [*failed, played("z", solved=True)])
    assert sum(row["episodes"] for row in found) == len(failed)
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert [[example["task"] for example in row["examples"]] for row in found] == [
        ["a", "b", "c"]
    ] * len(found)
