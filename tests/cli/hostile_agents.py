"""Agents that do on every task what would end a careless sandbox, and submit if they still can."""

from __future__ import annotations

from collections.abc import Callable

from families import OVERWRITE_INIT

from intercode.agents import Act, Moves
from intercode.types import Task


def _always(action: str) -> Callable[[Task, str], Moves]:
    def strategy(task: Task, protocol: str) -> Moves:
        yield Act(action)
        if protocol == "submit":
            yield Act("submit")

    strategy.needs_model = False  # type: ignore[attr-defined]
    return strategy


kill_all = _always("kill -9 -1")
leave = _always("exit")
replace = _always("exec true")
kill_shell = _always("kill -9 $$")
break_init = _always(OVERWRITE_INIT)
break_init_later = _always(f"( {OVERWRITE_INIT} ) >/dev/null 2>&1 & sleep 0.02")
