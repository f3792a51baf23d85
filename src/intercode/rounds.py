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
from typing import Any

from intercode.errors import DataError
from intercode.types import Score, Task, is_number

FIELDS = ("rounds", "rounds_rule", "rounds_reward", "go_on", "changes")
"""The fields of a record that are read here."""
_SOLVED, _LAST, _REACHED = "solved", "last", "reached"
_RULES, _REWARDS = ("alive", "own"), ("mean", _REACHED, _LAST)
_OF_WORLD = {
    *("id", "split", "setup", "session_start", "image", "cwd", "env", "services"),
    *("action_seconds", "memory", "processes", "disk", "db", "db_id", "preprocess_sql", "assets"),
    *("rounds", "rounds_rule", "rounds_reward", "ask_budget"),
}
"""Fields that hold for all rounds."""


def rounds_in(record: Any) -> list[Any]:
    """Return a record for each round of a record; the record alone if it has no rounds. Raises
    `DataError` for fields that are not as described."""
    if not isinstance(record, dict) or record.get("rounds") in (None, "", []):
        return [record]
    shared = {**record}
    rounds = shared.pop("rounds")
    if not isinstance(rounds, list) or not all(isinstance(entry, dict) for entry in rounds):
        raise DataError("field 'rounds' is not a list of objects")
    if shared.get("rounds_rule", "alive") not in _RULES:
        raise DataError(f"field 'rounds_rule' is {shared['rounds_rule']!r:.60}; write alive or own")
    reward = shared.get("rounds_reward", "mean")
    has_shares = isinstance(reward, list) and all(map(is_number, reward))
    if not (has_shares and len(reward) == len(rounds)) and reward not in _REWARDS:
        raise DataError(
            f"field 'rounds_reward' is {reward!r:.60}; write mean, reached, last, or a list with a "
            "number for each round"
        )
    records = []
    for number, entry in enumerate(rounds, start=1):
        if names := sorted(entry.keys() & _OF_WORLD):
            raise DataError(
                f"round {number}: the field {names[0]!r} holds for all rounds; "
                "write it next to 'rounds'"
            )
        changes = entry.get("changes", [])
        if not isinstance(changes, list) or not set(changes) <= set(range(1, number)):
            raise DataError(f"round {number}: 'changes' is not a list of numbers of earlier rounds")
        if not _is_condition(entry.get("go_on", shared.get("go_on", "always"))):
            raise DataError(f"round {number}: 'go_on' is neither always, solved nor a least reward")
        records.append({**shared, **entry})
    return records


def _is_condition(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(is_number, value.values()))
    return value in ("always", _SOLVED) or is_number(value)


def join_rounds(tasks: Sequence[Task]) -> Task:
    """Return the task of the first round, with the tasks of the other rounds. Raises `DataError`
    for a later round that is marked general."""
    first, *later = tasks
    earlier = [first]
    for number, task in enumerate(later, start=2):
        if task.general:
            raise DataError(f"round {number}: only a first round can be marked general")
        named = replace(task, id=f"{first.id}#{number}", earlier=tuple(earlier))
        earlier.append(named)
    return replace(first, rounds=tuple(earlier[1:]))


def number_of(task: Task) -> int:
    """Return the number of a task's round, from 1."""
    return len(task.earlier) + 1


def golds_of(task: Task) -> list[str]:
    """Return the golds of the rounds up to this one."""
    return [*(earlier.gold for earlier in task.earlier), task.gold]


def is_alive_rule(task: Task) -> bool:
    """Return whether earlier rounds count in this one."""
    return bool(task.earlier) and task.extra.get("rounds_rule") != "own"


def still_alive(task: Task) -> list[Task]:
    """Return the tasks of the earlier rounds that neither this round nor one between changes."""
    changed = set[int]()
    for later in (*task.earlier, task):
        changed.update(later.extra.get("changes", ()))
    return [earlier for earlier in task.earlier if number_of(earlier) not in changed]


def part_of(task: Task) -> str:
    """Return the name of the part of a score that says whether a round's demand holds."""
    return f"round {number_of(task)}"


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
    success = len(scores) == count and all(score.success for score in scores)
    total = sum(score.reward for score in scores)
    if how == _LAST:
        success = len(scores) == count and last.success
        total = last.reward
    elif isinstance(how, list):
        total = sum(share for share, score in zip(how, scores, strict=False) if score.success)
    else:
        total /= len(scores) if how == _REACHED else count
    return replace(last, reward=total, success=success)


def shown_rounds(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return the rounds that have ended, for readers: reward, success, the rule that decided, and
    by number whether the demands hold that were alive."""
    rows = []
    for number, score in enumerate(scores, start=1):
        row: dict[str, Any] = {"round": number, "reward": score.reward, "success": score.success}
        if score.rule:
            row["rule"] = score.rule
        demands = {str(number): score.success}
        for name, value in score.parts.items():
            if name.startswith("round "):
                demands[name.removeprefix("round ")] = value == 1
        row["demands"] = demands
        rows.append(row)
    return rows
