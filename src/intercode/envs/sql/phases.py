"""The second phase of an SQL task, in the field `follow_up` of its record: `query`, `gold` (text or
a list of statements) or `golds`, and what else differs.

The content of the database goes on, so each gold of the second phase is one of the first phase,
then one of the follow-up; the rows are those of its last statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from intercode.envs.sql.language import LANGUAGE
from intercode.errors import DataError
from intercode.types import Task

FOLLOW_UP, FIRST_GOLD = "follow_up", "first_gold"
_OF_FIRST = (FOLLOW_UP, "test_cases", "order_counts", "unclarified", "general")
"""Fields that hold for the first phase alone."""


def follow_up_of(task: Task) -> Task | None:
    """Return the task of the second phase; None if there is one phase only. Raises `DataError` for
    a field that is not as described above."""
    record = task.extra.get(FOLLOW_UP)
    if not record:
        return None
    if not isinstance(record, Mapping):
        raise DataError(f"task {task.id}: the field {FOLLOW_UP!r} is not an object")
    fields = {**record}
    query = fields.pop("query", None)
    gold = fields.pop("gold", None)
    golds = fields.pop("golds", None) or ()
    if not isinstance(gold, list):
        gold = [gold]
    texts = [query, *gold, *golds]
    if not gold or not all(isinstance(text, str) and text for text in texts):
        raise DataError(f"task {task.id}: {FOLLOW_UP!r} needs texts in 'query' and 'gold'")
    inherited = {name: value for name, value in task.extra.items() if name not in _OF_FIRST}
    between = LANGUAGE.between
    whole = []
    for second in (between.join(gold), *golds):
        whole += [f"{first}{between}{second}" for first in task.golds]
    extra = {**inherited, FIRST_GOLD: task.gold, **fields}
    return replace(task, query=query, gold=whole[0], golds=tuple(whole), extra=extra)
