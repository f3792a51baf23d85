"""Why episodes failed: each gets the first category whose rule holds, so that the counts add up.

The rules look at what happened, not at what was meant; they are printed beside the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from intercode.report.turns import acted, failed, in_order, is_submission, repeats, tried
from intercode.types import Episode, Turn

EXAMPLES = 3
"""Episodes shown of each category, of different tasks."""


@dataclass(frozen=True)
class Case:
    """A failed episode with what rules ask: `ran` were executed; `answers`: what solved epochs of its task printed last."""

    episode: Episode
    ran: Sequence[Turn]
    answers: frozenset[str]
    turns: int | None

    @property
    def submitted(self) -> bool:
        turns = acted(self.episode)
        return bool(turns) and is_submission(turns[-1])

    @property
    def scores(self) -> list[float]:
        return [turn.score for turn in self.episode.turns if turn.score is not None]


@dataclass(frozen=True)
class Category:
    name: str
    rule: str
    holds: Callable[[Case], bool]


CATEGORIES = (
    Category("broke its sandbox", "the sandbox died of an action, twice", lambda case: case.episode.ended == "agent_fault"),
    Category("never ran", "no code was executed", lambda case: not case.ran),
    Category(
        "out of time",
        "half of the actions or more reached the time limit",
        lambda case: 2 * sum(turn.timed_out for turn in case.ran) >= len(case.ran),
    ),
    Category("only errors", "every action failed", lambda case: all(map(failed, case.ran))),
    Category(
        "looped",
        "half of the actions or more, and at least two, repeat an earlier one",
        lambda case: sum(repeats(case.ran)) >= max(2, len(case.ran) / 2),
    ),
    Category(
        "had the answer",
        "an action printed what a solved epoch of the task answered with",
        lambda case: any(turn.observation in case.answers for turn in case.ran),
    ),
    Category(
        "was closer before",
        "the last score is below the best one",
        lambda case: bool(case.scores) and case.scores[-1] < max(case.scores),
    ),
    Category("wrong answer", "submitted, and wrong", lambda case: case.submitted),
    Category(
        "out of turns",
        "all turns were used up, without a right answer",
        lambda case: case.turns is not None and len(acted(case.episode)) >= case.turns,
    ),
    Category("stopped", "stopped by itself with turns left, or under no limit that is known", lambda case: True),
)


def failures(config: Mapping[str, Any], scored: Sequence[Episode]) -> list[dict[str, Any]]:
    """The categories that occur, in their order: name, rule, episodes, share of the failed ones, and examples."""
    answers = _answers(scored)
    cases = [
        Case(
            episode,
            [turn for turn in tried(episode) if turn.action is not None],
            frozenset(answers.get(episode.task, ())),
            config.get("turns"),
        )
        for episode in sorted(scored, key=lambda episode: (in_order(episode.task), episode.epoch))
        if not episode.success
    ]
    found: dict[str, list[Case]] = {category.name: [] for category in CATEGORIES}
    for case in cases:
        found[next(category.name for category in CATEGORIES if category.holds(case))].append(case)
    return [
        {
            "name": category.name,
            "rule": category.rule,
            "episodes": len(found[category.name]),
            "share": len(found[category.name]) / len(cases),
            "examples": [_example(next(of_task)) for _, of_task in islice(groupby(found[category.name], _task), EXAMPLES)],
        }
        for category in CATEGORIES
        if found[category.name]
    ]


def _answers(scored: Sequence[Episode]) -> dict[str, set[str]]:
    """What the last action of each solved episode printed, by task; empty outputs say nothing."""
    found: dict[str, set[str]] = {}
    for episode in scored:
        last = tried(episode)[-1:]
        if episode.success and last and last[0].observation.strip():
            found.setdefault(episode.task, set()).add(last[0].observation)
    return found


def _task(case: Case) -> str:
    return case.episode.task


def _example(case: Case) -> dict[str, Any]:
    last = (case.ran or [Turn()])[-1]
    seen = last if case.ran else (acted(case.episode) or [Turn()])[-1]
    return {
        "task": case.episode.task,
        "epoch": case.episode.epoch,
        "parts": dict(case.episode.parts),
        "query": _short(case.episode.query),
        "action": None if last.action is None else _short(last.action),
        "observation": _short(seen.observation),
    }


def _short(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text)} characters)"
