"""Rounds: what a user asks for changes while an agent works in one world.

    record with `rounds` ──► a record for each ──► the task of the first, which has the others
    submit ──► score of the round ──► `goes_on` ──► the next round
                     └──► `score_of_rounds`: the score of the episode

docs/environments.md describes the fields. Here is what they mean for scores; what a round is judged
by is a matter of judges (`envs/judged.py`, `envs/judges/outcome.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

from intercode.errors import DataError
from intercode.types import Score, Task, is_number

_SOLVED, _LAST, _REACHED = "solved", "last", "reached"
_OF_WORLD = {
    *("id", "split", "setup", "session_start", "image", "cwd", "env", "services", "db", "db_id"),
    *("action_seconds", "memory", "processes", "disk", "preprocess_sql", "assets", "ask_budget"),
    *("rounds", "rounds_rule", "rounds_reward"),
}
"""Fields that hold for all rounds."""


def rounds_in(record: Any) -> list[Any]:
    """Return a record for each round of a record; the record alone if it has no rounds. Raises
    `DataError` for fields that are not as described."""
    if not isinstance(record, dict) or not record.get("rounds"):
        return [record]
    shared = {**record}
    rounds = shared.pop("rounds")
    if not isinstance(rounds, list) or not all(isinstance(entry, dict) for entry in rounds):
        raise DataError("field 'rounds' is not a list of objects")
    reward = shared.get("rounds_reward", "mean")
    if shared.get("rounds_rule", "alive") not in ("alive", "own"):
        raise DataError("field 'rounds_rule' is neither 'alive' nor 'own'")
    if reward not in ("mean", _REACHED, _LAST) and not (
        isinstance(reward, list) and len(reward) == len(rounds) and all(map(is_number, reward))
    ):
        raise DataError("field 'rounds_reward' is none of the words, nor a number for each round")
    records = []
    for number, entry in enumerate(rounds, start=1):
        posed, changes = {**shared, **entry}, entry.get("changes", [])
        least = posed.get("go_on", _SOLVED)
        values = least.values() if isinstance(least, Mapping) else [least]
        if misplaced := _OF_WORLD.intersection(entry):
            raise DataError(f"round {number}: {min(misplaced)!r} must stand next to 'rounds'")
        if not isinstance(changes, list) or not set(changes) <= set(range(1, number)):
            raise DataError(f"round {number}: 'changes' is no list of earlier rounds")
        if least not in ("always", _SOLVED) and not all(map(is_number, values)):
            raise DataError(f"round {number}: 'go_on' is neither a word nor a least reward")
        records.append(posed)
    return records


def join_rounds(tasks: Sequence[Task]) -> Task:
    """Return the task of the first round, with the tasks of the other rounds. Raises `DataError`
    for a later round that is marked general."""
    first, *others = tasks
    earlier = [first]
    for number, task in enumerate(others, start=2):
        if task.general:
            raise DataError(f"round {number}: only a first round can be marked general")
        earlier.append(replace(task, id=f"{first.id}#{number}", earlier=tuple(earlier)))
    return replace(first, rounds=tuple(earlier[1:]))


def golds_of(task: Task) -> list[str]:
    """Return the golds of the rounds up to this one."""
    return [*(earlier.gold for earlier in task.earlier), task.gold]


def is_alone(task: Task) -> bool:
    """Return whether a round is judged without what earlier ones asked for."""
    return task.extra.get("rounds_rule") == "own"


def still_alive(task: Task) -> list[Task]:
    """Return the tasks of the earlier rounds that count in this one: neither it nor one between
    changes them."""
    changed = set[int]()
    for later in (*task.earlier, task):
        changed.update(later.extra.get("changes", ()))
    return [
        earlier
        for number, earlier in enumerate(() if is_alone(task) else task.earlier, start=1)
        if number not in changed
    ]


def part_of(task: Task) -> str:
    """Return the name of the part of a score that says whether a round's demand holds."""
    return f"round {len(task.earlier) + 1}"


def goes_on(task: Task, score: Score) -> bool:
    """Return whether the next round begins after this score."""
    least = task.extra.get("go_on", "always")
    if isinstance(least, Mapping):
        return all(score.parts.get(name, -1) >= value for name, value in least.items())
    if is_number(least):
        return score.reward >= least
    return score.success or least != _SOLVED


def score_of_rounds(task: Task, scores: Sequence[Score], count: int) -> Score:
    """Return the score of an episode that ends after rounds with these scores, of `count` rounds.
    `task` is that of any round."""
    if not scores:
        return Score(0.0, False)
    last, how = scores[-1], task.extra.get("rounds_reward", "mean")
    solved = [last.success] if how == _LAST else [score.success for score in scores]
    success = len(scores) == count and all(solved)
    reward = fsum(score.reward for score in scores)
    if how == _LAST:
        reward = last.reward
    elif isinstance(how, list):
        reward = fsum(share for share, is_solved in zip(how, solved, strict=False) if is_solved)
    else:
        reward /= len(scores) if how == _REACHED else count
    return replace(last, reward=reward, success=success)


def shown_rounds(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return the rounds that have ended, for readers. `demands` say by round whether the demands
    hold that are alive."""
    rows = []
    for number, score in enumerate(scores, start=1):
        own = f"round {number}"
        parts = {own: float(score.success), **score.parts}
        demands = {name: parts[name] == 1 for name in parts if name.startswith("round ")}
        row = {"round": number, "reward": score.reward, "success": score.success}
        rows.append({**row, "rule": score.rule, "demands": demands})
    return rows
