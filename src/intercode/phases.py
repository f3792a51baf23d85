"""Tasks of two phases: the query of a record's `follow_up` is asked once the first one is solved.

    submit ──► wrong: the end, 0 ──or──► solved: .7, the follow-up ──► submit ──► solved: 1

The world goes on, so the gold of the second phase is that of the first one, then the follow-up's.
Success is both. The shares are BIRD-Interact's (arXiv 2510.05318).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from intercode.errors import DataError
from intercode.language import Language
from intercode.types import Score, Task

SHARES = (0.7, 0.3)
FOLLOW_UP = "follow_up"
"""The field of a record: an object with `query`, `gold` (text, or a list of statements), and what
else differs from the record."""


def follow_up_of(task: Task, language: Language) -> Task | None:
    """Return the task of the second phase; None if there is one phase only. Raises `DataError` for
    a field that is not as described above."""
    record = task.extra.get(FOLLOW_UP)
    if not record:
        return None
    if not isinstance(record, Mapping):
        raise DataError(f"the field {FOLLOW_UP!r} is not an object")
    query, gold = record.get("query"), record.get("gold")
    parts: list[Any] = gold if isinstance(gold, list) else [gold]
    if not all(isinstance(text, str) and text for text in (query, *parts)):
        raise DataError(f"the field {FOLLOW_UP!r} needs texts in 'query' and 'gold'")
    more = {key: value for key, value in record.items() if key not in ("query", "gold")}
    extra = {key: value for key, value in task.extra.items() if key != FOLLOW_UP}
    whole = language.after(task.gold, language.between.join(parts))
    return replace(task, query=str(query), gold=whole, golds=(), extra={**extra, **more})


def first_phase(score: Score) -> Score:
    """Return the score of an episode whose first phase has this score, and that goes no further."""
    first, _ = SHARES
    return Score(first * score.reward, False, {**score.parts, "first": score.reward})


def second_phase(score: Score) -> Score:
    """Return the score of an episode that solved its first phase, and whose second has this
    score."""
    first, second = SHARES
    parts: dict[str, Any] = {**score.parts, "first": 1.0, "second": score.reward}
    return Score(first + second * score.reward, score.success, parts, rule=score.rule)
