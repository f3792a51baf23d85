"""A query, its gold and what the gold prints, beside what an agent prints."""

from __future__ import annotations

from intercode.rewards import bash_exact
from intercode.types import Outcome, Task

Asked = tuple[str, str, str]


def solved(asked: Asked, ours: str) -> bool:
    query, gold, theirs = asked
    return bash_exact(Outcome(ours), Outcome(theirs), Task("1", query, gold)).success
