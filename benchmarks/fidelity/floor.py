"""Agents that look at nothing: what a reward pays them is its floor."""

from __future__ import annotations

from intercode.agents import SUBMIT, Act, Strategy, StrategySteps
from intercode.types import Task


def constant(action: str) -> Strategy:
    """Answers every task with the same action."""

    def answer(_task: Task, protocol: str) -> StrategySteps:
        yield Act(action)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    answer.needs_model = False  # type: ignore[attr-defined]
    return answer
