"""Look at runs closely: turn by turn, errors and recovery, causes of failure; and two runs compared
on the same tasks.

Each figure's rule is in docs/report.md. Only scored episodes count, except in tokens, cost and
time. Two runs are compared so:

    task   A        B        difference d
    t1     1 0 1    1 1 1    +1/3            mean share of successes over epochs, B minus A
    t2     1        0        −1
    …
    difference = mean d
    interval: d with two tasks of +½ … −½ added
    p: signs of d flipped in all ways

Tasks are independent, so epochs of a task are averaged first. With one epoch p is McNemar's exact
test, and the interval is Agresti's and Min's. Tasks of two runs are the same if their ids are, and
one query contains the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, sqrt
from typing import Any

import numpy as np

from intercode.envs import language_of
from intercode.language import Language
from intercode.report.summary import Z95, groups, hardness_order, mean, summary
from intercode.report.text import shortened
from intercode.report.transcript import FAILED, state_of
from intercode.report.turns import (
    KINDS,
    code_turns,
    count_exploring_first,
    counted_turns,
    find_recoveries,
    find_repeats,
    is_cut_off,
    is_error,
    is_refused,
    is_submission,
    limits_hit,
    solving_turn,
    task_order,
)
from intercode.types import Episode, Turn

EXAMPLES = 3
"""Examples of each cause of failure, of different tasks."""
FINEST = 420
"""Differences are counted in shares of a task no smaller than 1/FINEST; only uneven epochs reach
it."""

ConfigAndEpisodes = tuple[Mapping[str, Any], Sequence[Episode]]


def side_by_side(runs: Sequence[ConfigAndEpisodes]) -> dict[str, Any]:
    """Return the whole report: `runs`, each a summary with its `analysis`; for two runs their
    `comparison`, and for more the `comparisons` of each other run with the first."""
    reports = [{**summary(*run), "analysis": analysis(*run)} for run in runs]
    compared = [compare(runs[0], run) for run in runs[1:]]
    if len(compared) == 1:
        return {"runs": reports, "comparison": compared[0]}
    return {"runs": reports, **({"comparisons": compared} if compared else {})}


# -- one run ---------------------------------------------------------------------------------------


def analysis(config: Mapping[str, Any], episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what `report --json` adds to the summary. Shares are in [0, 1]; None if there is
    nothing to count."""
    scored = [episode for episode in episodes if episode.reward is not None]
    language = language_of(config)
    return {
        "by_turn": by_turn(scored),
        "by_data": groups(config.get("data_set") or {}, scored),
        "by_distance": groups(config.get("distance") or {}, scored),
        "actions": {
            "all": actions(scored, language),
            "solved": actions([episode for episode in scored if episode.success], language),
            "failed": actions([episode for episode in scored if not episode.success], language),
        },
        "recovery": recovery(scored),
        "per_solved": per_solved(episodes),
        "limits": limits(scored),
        "failures": failures(config, scored),
        **({"judged": judged(config, scored)} if config.get("verdicts") else {}),
    }


def by_turn(scored: Sequence[Episode]) -> list[dict[str, Any]]:
    """Return, for each turn, the episodes that reached it, the share of all solved so far, and the
    share of its code that failed; where turns have values, also their mean."""
    solved = [solving_turn(episode) for episode in scored]
    played = [counted_turns(episode) for episode in scored]
    has_values = any(turn.value is not None for turns in played for turn in turns)
    rows = []
    for at in range(1, max(map(len, played), default=0) + 1):
        now = [turns[at - 1] for turns in played if len(turns) >= at]
        rows.append(
            {
                "turn": at,
                "episodes": len(now),
                "solved": mean([done is not None and done <= at for done in solved]),
                "errors": mean([is_error(turn) for turn in now if not is_submission(turn)]),
                **({"value": mean(_values(now))} if has_values else {}),
            }
        )
    return rows


def actions(scored: Sequence[Episode], language: Language) -> dict[str, Any]:
    """Return how many turns ask for code, and shares of them: errors, recovery from errors, without
    code, cut off, refused, out of time, repeated, of each kind; and the exploring at the
    beginning."""
    by_episode = [code_turns(episode) for episode in scored]
    turns = [turn for played in by_episode for turn in played]
    kinds = [language.kind(turn.action) for turn in turns if turn.action is not None]
    return {
        "episodes": len(scored),
        "turns": len(turns),
        "errors": mean([is_error(turn) for turn in turns]),
        "next_turn_fine": mean([fine for played in by_episode for fine in find_recoveries(played)]),
        "no_code": mean(
            [turn.action is None and not (is_cut_off(turn) or is_refused(turn)) for turn in turns]
        ),
        "cut_off": mean([is_cut_off(turn) for turn in turns]),
        "refused": mean([is_refused(turn) for turn in turns]),
        "timed_out": mean([turn.timed_out for turn in turns]),
        "repeated": mean([again for played in by_episode for again in find_repeats(played)]),
        **{name: mean([kind == name for kind in kinds]) for name in KINDS if name in kinds},
        **(exploring_first(by_episode, language) if any(kinds) else {}),
    }


def exploring_first(by_episode: Sequence[Sequence[Turn]], language: Language) -> dict[str, Any]:
    """Return how many episodes have an action of a kind other than exploring, and how many turns
    explore before the first one: the mean per episode, and the share of all turns."""
    counts = [(count_exploring_first(turns, language), len(turns)) for turns in by_episode]
    known = [(exploring, total) for exploring, total in counts if exploring is not None]
    explored, played = sum(exploring for exploring, _ in known), sum(total for _, total in known)
    return {
        "explored_first_episodes": len(known),
        "explored_first": explored / len(known) if known else None,
        "explored_first_share": explored / played if known else None,
    }


def recovery(scored: Sequence[Episode]) -> dict[str, Any]:
    """Return the share of turns right after an error that are fine, and the success of episodes
    with and without errors."""
    met = [any(map(is_error, code_turns(episode))) for episode in scored]
    return {
        "episodes_with_error": sum(met),
        "solved_with_error": mean(
            [episode.success for episode, error in zip(scored, met, strict=True) if error]
        ),
        "solved_without_error": mean(
            [episode.success for episode, error in zip(scored, met, strict=True) if not error]
        ),
        "next_turn_fine": mean(
            [fine for episode in scored for fine in find_recoveries(code_turns(episode))]
        ),
    }


def limits(scored: Sequence[Episode]) -> dict[str, dict[str, int]]:
    """Return for each limit that was hit, by name, how many turns hit it, and how many episodes
    they belong to."""
    hits = [[name for turn in episode.turns for name in limits_hit(turn)] for episode in scored]
    return {
        name: {
            "turns": sum(names.count(name) for names in hits),
            "episodes": sum(name in names for names in hits),
        }
        for name in sorted(set().union(*hits))
    }


def per_solved(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Return what all episodes spent, divided by the number of solved ones."""
    solved = sum(episode.success for episode in episodes)
    spent: dict[str, Callable[[Turn], float]] = {
        "tokens": lambda turn: turn.usage.prompt_tokens + turn.usage.completion_tokens,
        "cost": lambda turn: turn.usage.cost,
        "seconds": lambda turn: turn.seconds,
    }
    turns = [turn for episode in episodes for turn in episode.turns]
    return {
        name: sum(map(amount, turns)) / solved if solved else None for name, amount in spent.items()
    }


def judged(config: Mapping[str, Any], scored: Sequence[Episode]) -> list[dict[str, Any]]:
    """Return each judge's verdicts on the answers that `exact` refused as ambiguous; no other
    figure counts them.

    `asked` counts the answers that the judge was asked about (newer ones may lack a verdict);
    `agrees` is the share of its verdicts that agree with `exact`.
    """
    ambiguous, rows = {(episode.task, episode.epoch) for episode in scored if episode.ambiguous}, []
    for judge in dict.fromkeys(verdict.judge for verdict in config["verdicts"]):
        verdicts = [
            verdict.says
            for verdict in config["verdicts"]
            if verdict.judge == judge
            and verdict.reply is not None
            and (verdict.task, verdict.epoch) in ambiguous
        ]
        counts = Counter(says or "none" for says in verdicts)
        rows.append(
            {
                "judge": judge,
                "ambiguous": len(ambiguous),
                "asked": len(verdicts),
                **{name: counts[name] for name in ("same", "different", "none")},
                "agrees": mean([says == "different" for says in verdicts if says]),
            }
        )
    return rows


# -- why episodes failed: the first category that holds, so that the counts add up -----------------


@dataclass(frozen=True)
class Case:
    """A failed episode: its `executed` turns, the last outputs of solved epochs of its task, the
    turns that it was allowed."""

    episode: Episode
    executed: Sequence[Turn]
    answers: frozenset[str]
    turns: int | None

    @classmethod
    def of(cls, episode: Episode, turns: int | None, answers: Iterable[str] = ()) -> Case:
        executed = [turn for turn in code_turns(episode) if turn.action is not None]
        return cls(episode, executed, frozenset(answers), turns)

    def submitted_wrong(self, part: str | None = None) -> bool:
        """Return whether the agent submitted, and `part` of the reward failed, if one is named."""
        submitted = any(map(is_submission, counted_turns(self.episode)[-1:]))
        failed = self.episode.outcomes.get("failed")  # anything, in a run from elsewhere
        return submitted and (part is None or (isinstance(failed, list) and part in failed))

    @property
    def values(self) -> list[float]:
        """The values of the turns; none in a run that did not record them."""
        return _values(self.episode.turns)

    @property
    def category(self) -> str:
        """The first of `CATEGORIES` that holds."""
        return next(name for name, (_, holds) in CATEGORIES.items() if holds(self))


def _values(turns: Iterable[Turn]) -> list[float]:
    return [turn.value for turn in turns if turn.value is not None]


def _ran_out_of_turns(case: Case) -> bool:
    episode = case.episode
    # older versions wrote "turns" for an agent that stopped with turns left as well
    played = len(counted_turns(episode))
    used_up = any(turn.forced for turn in episode.turns) or played >= (case.turns or 0)
    return episode.ended == "turns" and used_up


def _half(facts: Iterable[bool]) -> bool:
    """Return whether half of the facts or more hold; False if there are none."""
    held = list(facts)
    return bool(held) and 2 * sum(held) >= len(held)


def _was_closer(case: Case) -> bool:
    scores = [turn.score for turn in case.episode.turns if turn.score is not None]
    known = case.values or scores
    return bool(known) and known[-1] < max(known)


CATEGORIES: Mapping[str, tuple[str, Callable[[Case], bool]]] = {
    "broke its sandbox": (
        "an action killed the sandbox, twice",
        lambda case: case.episode.ended == "agent_fault",
    ),
    "had it and lost it": (
        "a submission right after one of the turns would have been right",
        lambda case: max(case.values, default=0) >= 1,
    ),
    "cut off": (
        "no code was executed, and half of the replies or more were cut off",
        lambda case: not case.executed and _half(map(is_cut_off, code_turns(case.episode))),
    ),
    "refused": (
        "no code was executed, and half of the replies or more were refusals or filtered",
        lambda case: not case.executed and _half(map(is_refused, code_turns(case.episode))),
    ),
    "never ran": (
        "no code was executed",
        # what a program executed is not recorded
        lambda case: not (case.executed or "program" in case.episode.outcomes),
    ),
    "out of time": (
        "half of the actions or more reached the time limit",
        lambda case: _half(turn.timed_out for turn in case.executed),
    ),
    "only errors": (
        "every action failed",
        lambda case: bool(case.executed) and all(map(is_error, case.executed)),
    ),
    "looped": (
        "half of the actions or more, and at least two, repeat an earlier one",
        lambda case: sum(find_repeats(case.executed)) >= max(2, len(case.executed) / 2),
    ),
    "out of turns": ("all turns were used up", _ran_out_of_turns),
    "had the answer": (
        "an action printed the answer of a solved epoch of the task",
        # a guess, for runs that did not record values
        lambda case: (
            not case.values
            and any(shortened(turn.observation) in case.answers for turn in case.executed)
        ),
    ),
    "was closer before": ("the last score or value is below the best one", _was_closer),
    "failed tests": ("submitted, and tests failed", lambda case: case.submitted_wrong("tests")),
    "wrong on other data": (
        "submitted what is right on the data that the agent saw, and wrong on variant data",
        lambda case: case.submitted_wrong("robust"),
    ),
    "wrong answer and files": (
        "submitted, and both the answer and the file changes are wrong",
        lambda case: case.submitted_wrong("answer") and case.submitted_wrong("files"),
    ),
    "wrong files": (
        "submitted, and the file changes are wrong",
        lambda case: case.submitted_wrong("files"),
    ),
    "wrong answer": ("submitted a wrong answer", lambda case: case.submitted_wrong()),
    "reached a limit": (
        "a limit of the episode was reached: tokens, cost or time",
        lambda case: case.episode.ended == "limit",
    ),
    "stopped": ("stopped with turns left, or without a known limit", lambda case: True),
}
"""Categories by name: the rule in words, and as a test."""


def finding_cases(
    config: Mapping[str, Any], episodes: Iterable[Episode]
) -> Callable[[Episode], Case | None]:
    """Return a function from an episode of the run to its case; None unless it failed. Only the
    answers of solved epochs are held, so the run may be larger than memory."""
    answers: dict[str, set[str]] = {}
    for episode in () if config.get("epochs") == 1 else episodes:
        last = code_turns(episode)[-1:]
        if episode.success and last and last[0].observation.strip():
            answers.setdefault(episode.task, set()).add(shortened(last[0].observation))
    limit = config.get("turns")

    def case_of(episode: Episode) -> Case | None:
        if state_of(episode) not in FAILED:
            return None
        turns = limit if isinstance(limit, int) else None
        return Case.of(episode, turns, answers.get(episode.task, ()))

    return case_of


def explaining(
    config: Mapping[str, Any], episodes: Iterable[Episode]
) -> Callable[[Episode], dict[str, str | None]]:
    """Return a function that gives the column `why` of tables: the category of a failed episode."""
    case_of = finding_cases(config, episodes)

    def why(episode: Episode) -> dict[str, str | None]:
        case = case_of(episode)
        return {"why": case.category if case else None}

    return why


def find_categories(
    config: Mapping[str, Any], episodes: Sequence[Episode]
) -> dict[str, list[Case]]:
    """Return the failed episodes of each category, by task and epoch."""
    case_of = finding_cases(config, episodes)
    categories = {name: list[Case]() for name in CATEGORIES}
    for episode in sorted(episodes, key=lambda episode: (task_order(episode.task), episode.epoch)):
        if case := case_of(episode):
            categories[case.category].append(case)
    return categories


def failures(config: Mapping[str, Any], scored: Sequence[Episode]) -> list[dict[str, Any]]:
    """Return the categories that occur, in order: name, rule, episodes, share of the failed
    episodes, and examples."""
    categories = find_categories(config, scored)
    failed, rows = sum(map(len, categories.values())), []
    for name, cases in categories.items():
        if cases:
            first = {case.episode.task: case for case in reversed(cases)}
            examples = [_example(first[task]) for task in sorted(first, key=task_order)[:EXAMPLES]]
            share = len(cases) / failed
            rows.append(
                {
                    "name": name,
                    "rule": CATEGORIES[name][0],
                    "episodes": len(cases),
                    "share": share,
                    "examples": examples,
                }
            )
    return rows


def _example(case: Case) -> dict[str, Any]:
    last = (case.executed or counted_turns(case.episode) or [Turn()])[-1]
    return {
        "task": case.episode.task,
        "epoch": case.episode.epoch,
        "parts": dict(case.episode.parts),
        "query": shortened(case.episode.query),
        "action": shortened(last.action or "") if case.executed else None,
        "observation": shortened(last.observation),
    }


# -- two runs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A task in both runs, with its share of successes in each."""

    task: str
    query: str
    a: Fraction
    b: Fraction

    @property
    def difference(self) -> Fraction:
        return self.b - self.a

    def row(self) -> dict[str, Any]:
        return {"task": self.task, "query": self.query, "a": float(self.a), "b": float(self.b)}


def compare(a: ConfigAndEpisodes, b: ConfigAndEpisodes) -> dict[str, Any] | None:
    """Return what `report A B --json` prints under `comparison`; None if the runs share no task."""
    first, second = _shares(a[1]), _shares(b[1])
    pairs = [
        Pair(task, query, first[task][1], share)
        for task, (query, share) in second.items()
        if task in first and (query in first[task][0] or first[task][0] in query)
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda pair: (-abs(pair.difference), task_order(pair.task)))
    levels = {**(a[0].get("hardness") or {}), **(b[0].get("hardness") or {})}
    occurring = sorted(
        {levels[pair.task] for pair in pairs if pair.task in levels}, key=hardness_order
    )
    return {
        "a": a[0].get("run"),
        "b": b[0].get("run"),
        # tasks without a scored episode in the other run
        "unpaired": (len(first) + len(second) - 2 * len(pairs)),
        **paired(pairs),
        "by_hardness": {
            level: paired([p for p in pairs if levels.get(p.task) == level]) for level in occurring
        },
        "gained": [pair.row() for pair in pairs if pair.difference > 0],
        "lost": [pair.row() for pair in pairs if pair.difference < 0],
    }


def paired(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return both rates, the difference (second minus first) with its 95 % interval, and the
    p-value of no difference."""
    count, differences = len(pairs), [pair.difference for pair in pairs]
    return {
        "tasks": count,
        "rate_a": float(sum(pair.a for pair in pairs) / count),
        "rate_b": float(sum(pair.b for pair in pairs) / count),
        "difference": float(sum(differences) / count),
        "ci95": interval_of_difference(differences),
        "p_value": sign_flip_test(differences),
    }


def interval_of_difference(differences: Sequence[Fraction]) -> tuple[float, float]:
    """Return Wald's interval of the mean with half a task added to each count of the two-by-two
    table: +1, −1, and two zeros.

    Agresti and Min 2005, "Simple improved confidence intervals for comparing matched proportions".
    With epochs the same amounts are added to the shares.
    """
    count = len(differences) + 2
    middle = float(sum(differences)) / count
    variance = (float(sum(d * d for d in differences)) + 1) / count - middle * middle
    half = Z95 * sqrt(variance / count)
    return max(-1.0, middle - half), min(1.0, middle + half)


def sign_flip_test(differences: Sequence[Fraction]) -> float:
    """Return the two-sided p: the chance of a sum as far from 0 if coin flips chose the sign of
    each difference (Fisher 1935, §21).

    Exact, except that shares finer than 1/FINEST are rounded. If all differences are −1, 0 or 1 it
    is McNemar's exact test.
    """
    grain = min(FINEST, lcm(*(d.denominator for d in differences)))
    steps = [round(d * grain) for d in differences if d]
    chance = np.ones(1)  # of each sum, from −Σ|steps| to Σ|steps|
    for step in map(abs, steps):
        shifted = np.zeros(len(chance) + 2 * step)
        shifted[: len(chance)] += chance / 2
        shifted[2 * step :] += chance / 2
        chance = shifted
    distance = np.abs(np.arange(len(chance)) - len(chance) // 2)
    return min(1.0, float(chance[distance >= abs(sum(steps))].sum()))


def _shares(episodes: Sequence[Episode]) -> dict[str, tuple[str, Fraction]]:
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.reward is not None:
            by_task.setdefault(episode.task, []).append(episode)
    return {
        task: (attempts[0].query, Fraction(sum(e.success for e in attempts), len(attempts)))
        for task, attempts in by_task.items()
    }
