"""What the texts of a task say against it, with nothing executed: rules over query, gold and tests, by language.

    bash.py     paths, names, numbers and actions that only one of the two names; network; clock
    sql.py      values, superlatives and aggregates that only one of the two names; parsing
    python.py   tests that a constant, an argument or anything passes; what is no Python; clock and chance

Rules see surface only: a query that means something else than its gold in the same words is not found.
"""

from __future__ import annotations

from collections.abc import Iterator

from intercode.envs.bash import lint as bash
from intercode.envs.python import lint as python
from intercode.envs.sql import lint as sql
from intercode.tasks.issues import TaskIssue
from intercode.types import Task

_RULES = {"bash": bash.doubts, "sql": sql.doubts, "python": python.doubts}


def doubts(task: Task, language: str) -> Iterator[TaskIssue]:
    """None for a language that has no rules."""
    rules = _RULES.get(language)
    yield from rules(task) if rules else ()
