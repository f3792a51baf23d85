"""Agents without a model: what the right answer, no answer, a neighbour's answer and a past answer are worth.

    gold        the task's own gold, then `submit`                   must reach 100 %
    noop        nothing, then `submit`                               must reach 0 %
    retrieval   the golds of the most similar other tasks            a real agent for no money
    replay      a recorded list of actions, in their order           results seen again
    static      what was predicted for the task, then `submit`       sequence to sequence, without interaction

What a model adds is the distance from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from intercode.agents.base import SUBMIT, Act, Step, Strategy, StrategySteps
from intercode.tfidf import nearest
from intercode.types import Task


class Script(Protocol):
    """Where recorded actions come from; None among them is a reply that held no code."""

    def actions_for(self, task: Task) -> Sequence[str | None]: ...


def gold(task: Task, protocol: str) -> StrategySteps:
    """Where a submission needs a word (a function's name), the task carries it in the field `submit`."""
    if task.extra.get("gold_is") == "flag":
        yield Act(f"{SUBMIT} {task.gold}")
        return
    step: Step = yield Act(task.gold)
    if "gold_is" in task.extra:  # a flag is submitted under both protocols; a script prints it last
        *_, flag = step.observation.strip().split("\n")
        yield Act(f"{SUBMIT} {flag}")
    elif protocol == SUBMIT:
        yield Act(f"{SUBMIT} {task.extra.get('submit', '')}".strip())


def noop(task: Task, protocol: str) -> StrategySteps:
    yield Act(SUBMIT if protocol == SUBMIT else "")


def retrieval(tasks: Sequence[Task], k: int = 10) -> Strategy:
    """Answer with the golds of the tasks whose queries are most similar, never with the task's own.

    Under `submit` there is one answer, the nearest one's gold; under `paper`, whose score is seen, up to `k` are tried.
    """

    def strategy(task: Task, protocol: str) -> StrategySteps:
        others = [other for other in tasks if other.id != task.id]
        for index in nearest(task.query, [other.query for other in others], 1 if protocol == SUBMIT else k):
            yield Act(others[index].gold)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def replay(script: Script) -> Strategy:
    """Act what was recorded for the task. Nothing is added: a recording without a submission is not submitted."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in script.actions_for(task):
            yield Act(action)

    return strategy


def static(script: Script) -> Strategy:
    """Act what was predicted for the task, and submit it."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield from replay(script)(task, protocol)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy
