"""The golds, with processes around them that a careless end would leave behind."""

from __future__ import annotations

from intercode.agents import Act, StrategySteps
from intercode.types import Task


def agent(task: Task, protocol: str) -> StrategySteps:
    yield Act("sleep 60 & setsid sleep 61 & (trap '' TERM HUP INT; exec sleep 62) & disown -a")
    yield Act(task.gold)
    yield Act("submit")


agent.needs_model = False  # type: ignore[attr-defined]
