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

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import lcm, sqrt
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from intercode.envs import language_of
from intercode.language import Language
from intercode.report.summary import (
    Z95,
    Config,
    column,
    data_name,
    grouped,
    groups,
    hardness_order,
    mean,
    ratio,
    scored_of,
    success_of,
    summary,
)
from intercode.report.text import LONGEST, shortened
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

Record = dict[str, Any]
ConfigAndEpisodes = tuple[Config, Sequence[Episode]]
_flat = chain.from_iterable


def side_by_side(runs: Sequence[ConfigAndEpisodes]) -> Record:
    """Return the whole report: `runs`, each a summary with its `analysis`; for two runs their
    `comparison`, and for more the `comparisons` of each other run with the first."""
    whole: Record = {"runs": []}
    for config, episodes in runs:
        figures = {**summary(config, episodes), "data": data_name(config)}
        whole["runs"].append({**figures, "analysis": analysis(config, episodes)})
    compared = [compare(runs[0], run) for run in runs[1:]]
    if len(compared) == 1:
        whole["comparison"] = compared[0]
    elif compared:
        whole["comparisons"] = compared
    return whole


# -- one run ---------------------------------------------------------------------------------------


def analysis(config: Config, episodes: Sequence[Episode]) -> Record:
    """Return what `report --json` adds to the summary. Shares are in [0, 1]; None if there is
    nothing to count."""
    scored = scored_of(episodes)
    solved = [episode for episode in scored if episode.success]
    failed = [episode for episode in scored if not episode.success]
    language = language_of(config)
    report = {
        "by_turn": by_turn(scored),
        "by_round": by_round(scored),
        "by_data": groups(config.get("data_set") or {}, scored),
        "by_distance": groups(config.get("distance") or {}, scored),
        "by_length": groups(config.get("task_rounds") or {}, scored),
        "actions": {
            "all": actions(scored, language),
            "solved": actions(solved, language),
            "failed": actions(failed, language),
        },
        "recovery": recovery(scored),
        "per_solved": per_solved(episodes),
        "limits": limits(scored),
        "failures": failures(config, scored),
    }
    if config.get("verdicts"):
        report["judged"] = judged(config, scored)
    return report


def by_turn(scored: Sequence[Episode]) -> list[Record]:
    """Return, for each turn, the episodes that reached it, the share of all solved so far, and the
    share of its code that failed; where turns have values, also their mean."""
    solved = [number for number in map(solving_turn, scored) if number is not None]
    played = list(map(counted_turns, scored))
    has_values = any(map(values_of, played))
    rows = []
    for at in range(1, max(map(len, played), default=0) + 1):
        now = [turns[at - 1] for turns in played if len(turns) >= at]
        row: Record = {
            "turn": at,
            "episodes": len(now),
            "solved": sum(number <= at for number in solved) / len(scored),
            "errors": mean(is_error(turn) for turn in now if not is_submission(turn)),
        }
        if has_values:
            row["value"] = mean(values_of(now))
        rows.append(row)
    return rows


def by_round(scored: Sequence[Episode]) -> dict[str, Record]:
    """Return for each round of tasks with several: the figures of the episodes whose round ended,
    and the regressions: of the demands that held when the round before ended and are still alive
    (`held`), the number of those that no longer hold (`broken`)."""
    ended: dict[str, list[Episode]] = {}
    demands = defaultdict[str, list[float]](list)
    for episode in scored:
        before: Mapping[str, float] = {}
        for row in episode.outcomes.get("rounds", ()):
            label, now = str(row["round"]), row["demands"]
            ended.setdefault(label, []).append(replace(episode, success=row["success"]))
            demands[label] += [now[name] for name in now if before.get(name)]
            before = now
    rows = {}
    for label, episodes in ended.items():
        held = demands[label]
        rows[label] = {**success_of(episodes), "held": len(held), "broken": held.count(0)}
    return rows


def actions(scored: Sequence[Episode], language: Language) -> Record:
    """Return how many turns ask for code, and shares of them: errors, recovery from errors, without
    code, cut off, refused, out of time, repeated, of each kind; and the exploring at the
    beginning."""
    by_episode = list(map(code_turns, scored))
    turns = list(_flat(by_episode))
    kinds = [language.kind(turn.action) for turn in turns if turn.action is not None]
    figures = {
        "episodes": len(scored),
        "turns": len(turns),
        "errors": mean(map(is_error, turns)),
        "next_turn_fine": mean(_flat(map(find_recoveries, by_episode))),
        "no_code": mean(
            turn.action is None and not (is_cut_off(turn) or is_refused(turn)) for turn in turns
        ),
        "cut_off": mean(map(is_cut_off, turns)),
        "refused": mean(map(is_refused, turns)),
        "timed_out": mean(column(turns, "timed_out")),
        "repeated": mean(_flat(map(find_repeats, by_episode))),
    }
    for name in KINDS:
        if name in kinds:
            figures[name] = kinds.count(name) / len(kinds)
    if any(kinds):
        figures |= exploring_first(by_episode, language)
    return figures


def exploring_first(by_episode: Sequence[Sequence[Turn]], language: Language) -> Record:
    """Return how many episodes have an action of a kind other than exploring, and how many turns
    explore before the first one: the mean per episode, and the share of all turns."""
    episodes = explored = played = 0
    for turns in by_episode:
        exploring = count_exploring_first(turns, language)
        if exploring is not None:
            episodes += 1
            explored += exploring
            played += len(turns)
    return {
        "explored_first_episodes": episodes,
        "explored_first": ratio(explored, episodes),
        "explored_first_share": ratio(explored, played),
    }


def recovery(scored: Sequence[Episode]) -> Record:
    """Return the share of turns right after an error that are fine, and the success of episodes
    with and without errors."""
    with_error, without, fine = list[bool](), list[bool](), list[bool]()
    for episode in scored:
        turns = code_turns(episode)
        successes = with_error if any(map(is_error, turns)) else without
        successes.append(episode.success)
        fine += find_recoveries(turns)
    return {
        "episodes_with_error": len(with_error),
        "solved_with_error": mean(with_error),
        "solved_without_error": mean(without),
        "next_turn_fine": mean(fine),
    }


def limits(scored: Sequence[Episode]) -> dict[str, dict[str, int]]:
    """Return for each limit that was hit, by name, how many turns hit it, and how many episodes
    they belong to."""
    rows: dict[str, dict[str, int]] = {}
    for episode in scored:
        for name, count in Counter(_flat(map(limits_hit, episode.turns))).items():
            row = rows.setdefault(name, {"turns": 0, "episodes": 0})
            row["turns"] += count
            row["episodes"] += 1
    return dict(sorted(rows.items()))


def per_solved(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Return what all episodes spent, divided by the number of solved ones."""
    solved = sum(column(episodes, "success"))
    turns = list(_flat(column(episodes, "turns")))
    usages = column(episodes, "usage")
    return {
        "tokens": ratio(sum(column(usages, "tokens")), solved),
        "cost": ratio(sum(column(usages, "cost")), solved),
        "seconds": ratio(sum(column(turns, "seconds")), solved),
    }


def judged(config: Config, scored: Sequence[Episode]) -> list[Record]:
    """Return each judge's verdicts on the answers that `exact` refused as ambiguous; no other
    figure counts them.

    `asked` counts the answers that the judge was asked about (newer ones may lack a verdict);
    `agrees` is the share of its verdicts that agree with `exact`.
    """
    ambiguous = {(episode.task, episode.epoch) for episode in scored if episode.ambiguous}
    by_judge: dict[str, Counter[str]] = {}
    for verdict in config["verdicts"]:
        counts = by_judge.setdefault(verdict.judge, Counter())
        if verdict.reply is not None and (verdict.task, verdict.epoch) in ambiguous:
            counts[verdict.says or "none"] += 1
    return [
        {
            "judge": judge,
            "ambiguous": len(ambiguous),
            "asked": counts.total(),
            "same": counts["same"],
            "different": counts["different"],
            "none": counts["none"],
            "agrees": ratio(counts["different"], counts.total() - counts["none"]),
        }
        for judge, counts in by_judge.items()
    ]


# -- why episodes failed: the first category that holds, so that the counts add up -----------------

CATEGORIES: Mapping[str, str] = {
    "broke its sandbox": "an action killed the sandbox, twice",
    "had it and lost it": "a submission right after one of the turns would have been right",
    "cut off": "no code was executed, and half of the replies or more were cut off",
    "refused": "no code was executed, and half of the replies or more were refusals or filtered",
    "never ran": "no code was executed",
    "out of time": "half of the actions or more reached the time limit",
    "only errors": "every action failed",
    "looped": "half of the actions or more, and at least two, repeat an earlier one",
    "out of turns": "all turns were used up",
    "had the answer": "an action printed the answer of a solved epoch of the task",
    "was closer before": "the last score or value is below the best one",
    "failed tests": "submitted, and tests failed",
    "wrong on other data": (
        "submitted what is right on the data that the agent saw, and wrong on variant data"
    ),
    "wrong answer and files": "submitted, and both the answer and the file changes are wrong",
    "wrong files": "submitted, and the file changes are wrong",
    "wrong answer": "submitted a wrong answer",
    "reached a limit": "a limit of the episode was reached: tokens, cost or time",
    "stopped": "stopped with turns left, or without a known limit",
}
"""Categories by name, in the order of `category_of`, and the rule of each in words."""


def category_of(config: Config, episode: Episode, answers: Set[str] = frozenset()) -> str:
    """Return the first of `CATEGORIES` that holds for a failed episode. `answers` are the last
    outputs of solved epochs of its task, `shortened`."""
    executed, values = executed_turns(episode), values_of(episode.turns)
    if episode.ended == "agent_fault":
        return "broke its sandbox"
    if max(values, default=0) >= 1:
        return "had it and lost it"
    if not executed:
        if _half(map(is_cut_off, code_turns(episode))):
            return "cut off"
        if _half(map(is_refused, code_turns(episode))):
            return "refused"
        if "program" not in episode.outcomes:  # what a program executed is not recorded
            return "never ran"
    if _half(column(executed, "timed_out")):
        return "out of time"
    if executed and all(map(is_error, executed)):
        return "only errors"
    if sum(find_repeats(executed)) >= max(2, len(executed) / 2):
        return "looped"
    if _ran_out_of_turns(config, episode):
        return "out of turns"
    # a guess, for runs that did not record values
    if not values and any(shortened(turn.observation) in answers for turn in executed):
        return "had the answer"
    scores = values or [turn.score for turn in episode.turns if turn.score is not None]
    if scores and scores[-1] < max(scores):
        return "was closer before"
    if any(map(is_submission, counted_turns(episode)[-1:])):
        return _wrong_part(episode.outcomes.get("failed"))
    return "reached a limit" if episode.ended == "limit" else "stopped"


def executed_turns(episode: Episode) -> list[Turn]:
    return [turn for turn in code_turns(episode) if turn.action is not None]


def values_of(turns: Iterable[Turn]) -> list[float]:
    """Return the values of the turns; none in a run that did not record them."""
    return [turn.value for turn in turns if turn.value is not None]


def _half(facts: Iterable[bool]) -> bool:
    """Return whether half of the facts or more hold; False if there are none."""
    return (mean(facts) or 0) >= 0.5


def _ran_out_of_turns(config: Config, episode: Episode) -> bool:
    if episode.ended != "turns":
        return False
    # older versions wrote "turns" for an agent that stopped with turns left as well
    limit = config.get("turns")
    played = len(counted_turns(episode))
    return not isinstance(limit, int) or played >= limit or any(column(episode.turns, "forced"))


def _wrong_part(failed: object) -> str:
    """Return the category of a submission, from the parts of the reward that failed; a run from
    elsewhere may name anything."""
    parts = failed if isinstance(failed, list) else ()
    if "tests" in parts:
        return "failed tests"
    if "robust" in parts:
        return "wrong on other data"
    if "files" not in parts:
        return "wrong answer"
    return "wrong answer and files" if "answer" in parts else "wrong files"


def finding_category(
    config: Config, episodes: Iterable[Episode]
) -> Callable[[Episode], str | None]:
    """Return a function from an episode of the run to its category; None unless it failed. Only the
    answers of solved epochs are held, so the run may be larger than memory."""
    answers: dict[str, set[str]] = {}
    for episode in () if config.get("epochs") == 1 else episodes:
        last = code_turns(episode)[-1:]
        if episode.success and last and last[0].observation.strip():
            answers.setdefault(episode.task, set()).add(shortened(last[0].observation))

    def category(episode: Episode) -> str | None:
        if state_of(episode) not in FAILED:
            return None
        return category_of(config, episode, answers.get(episode.task, set()))

    return category


def explaining(
    config: Config, episodes: Iterable[Episode]
) -> Callable[[Episode], dict[str, str | None]]:
    """Return a function that gives the column `why` of tables: the category of a failed episode."""
    category = finding_category(config, episodes)
    return lambda episode: {"why": category(episode)}


def find_categories(config: Config, episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    """Return the failed episodes of each category, by task and epoch."""
    by_category = grouped(in_order(episodes), finding_category(config, episodes))
    return {name: by_category[name] for name in CATEGORIES if name in by_category}


def in_order(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes by task and epoch."""
    return sorted(episodes, key=lambda episode: (task_order(episode.task), episode.epoch))


def failures(config: Config, scored: Sequence[Episode]) -> list[Record]:
    """Return the categories that occur, in order: name, rule, episodes, share of the failed
    episodes, and examples."""
    categories, rows = find_categories(config, scored), []
    failed = sum(map(len, categories.values()))
    for name, episodes in categories.items():
        first: dict[str, Episode] = {}
        for episode in episodes:
            first.setdefault(episode.task, episode)
        rows.append(
            {
                "name": name,
                "rule": CATEGORIES[name],
                "episodes": len(episodes),
                "share": len(episodes) / failed,
                "examples": list(map(_example, list(first.values())[:EXAMPLES])),
            }
        )
    return rows


def _example(episode: Episode) -> Record:
    executed = executed_turns(episode)
    last = (executed or counted_turns(episode) or [Turn()])[-1]
    return {
        "task": episode.task,
        "epoch": episode.epoch,
        "parts": dict(episode.parts),
        "query": shortened(episode.query),
        "action": shortened(last.action or "") if executed else None,
        "observation": shortened(last.observation),
    }


# -- two runs --------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A task in both runs, with its share of successes in each."""

    task: str
    query: str
    a: Fraction
    b: Fraction

    @property
    def difference(self) -> Fraction:
        return self.b - self.a

    def row(self) -> Record:
        return {"task": self.task, "query": self.query, "a": float(self.a), "b": float(self.b)}


def compare(a: ConfigAndEpisodes, b: ConfigAndEpisodes) -> Record | None:
    """Return what `report A B --json` prints under `comparison`; None if the runs share no task."""
    first, second = _shares(a[1]), _shares(b[1])
    pairs = []
    for task, (query, share) in second.items():
        if task in first and is_same_query(query, first[task][0]):
            pairs.append(Pair(task, query, first[task][1], share))
    if not pairs:
        return None
    pairs.sort(key=lambda pair: (-abs(pair.difference), task_order(pair.task)))
    levels = {**(a[0].get("hardness") or {}), **(b[0].get("hardness") or {})}
    by_level = grouped(pairs, lambda pair: levels.get(pair.task))
    return {
        "a": a[0].get("run"),
        "b": b[0].get("run"),
        # tasks without a scored episode in the other run
        "unpaired": len(first) + len(second) - 2 * len(pairs),
        **paired(pairs),
        "by_hardness": {
            level: paired(by_level[level]) for level in sorted(by_level, key=hardness_order)
        },
        "gained": [pair.row() for pair in pairs if pair.difference > 0],
        "lost": [pair.row() for pair in pairs if pair.difference < 0],
    }


def is_same_query(one: str, other: str) -> bool:
    """Return whether one query contains the other, as far as a reader is shown them."""
    one, other = one[:LONGEST], other[:LONGEST]
    return one in other or other in one


def paired(pairs: Sequence[Pair]) -> Record:
    """Return both rates, the difference (second minus first) with its 95 % interval, and the
    p-value of no difference."""
    count, differences = len(pairs), column(pairs, "difference")
    return {
        "tasks": count,
        "rate_a": float(sum(column(pairs, "a")) / count),
        "rate_b": float(sum(column(pairs, "b")) / count),
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
    grain = min(FINEST, lcm(*column(differences, "denominator")))
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
    """Return the query and the share of successes of each task."""
    shares = {}
    scored = scored_of(episodes)
    for task, attempts in grouped(scored, attrgetter("task")).items():
        solved = sum(column(attempts, "success"))
        shares[task] = attempts[0].query, Fraction(solved, len(attempts))
    return shares
