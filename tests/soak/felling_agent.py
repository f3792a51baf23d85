"""The golds, with changes around them that a careless server would keep, and pauses in which it may
be killed."""

from __future__ import annotations

import time

from intercode.agents import Act, StrategySteps
from intercode.types import Task


def agent(task: Task, protocol: str) -> StrategySteps:
    for action in (
        "CREATE TABLE mine (id INTEGER)",
        "INSERT INTO mine VALUES (1)",
        "DELETE FROM mine",
        task.gold,
    ):
        yield Act(action)
        time.sleep(0.01)
    yield Act("submit")


agent.needs_model = False  # type: ignore[attr-defined]
