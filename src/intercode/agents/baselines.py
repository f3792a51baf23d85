"""Agents without a model server: the reference solution, nothing, a similar task's solution,
records, and a person.

gold        the task's own gold, then `submit`               must reach 100 %
asker       asks for each facet, then as gold               must reach 100 %
guesser     the solution of a record that asks nothing      a lower bound for asking
noop        only `submit`                                    must reach 0 %
retrieval   the golds of the most similar other tasks        costs nothing; a model should do better
nearest     the most similar task's gold, with its names     the same, for generated tasks
            replaced by this task's
replay      a recorded list of actions, in order             repeats a result
static      the task's prediction, then `submit`             the paper's setting without interaction
human       what a person types at `intercode play`
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from intercode.agents.base import SUBMIT, Act, Ask, Step, Strategy, StrategySteps
from intercode.agents.dialogue import format_step, message
from intercode.agents.tfidf import nearest as most_similar
from intercode.errors import DataError
from intercode.types import Task
from intercode.user import TAKES_QUESTIONS, facet_asked, facets_of


class Script(Protocol):
    """A source of recorded actions; an action of None is a reply without code."""

    def actions_for(self, task: Task) -> Sequence[str | None]: ...


def gold(task: Task, protocol: str) -> StrategySteps:
    """Execute the task's gold and submit. Where a submission needs a word (a function's name), the
    field `submit` has it."""
    if not task.gold:
        raise DataError(f"task {task.id} has no gold to play; only its tests decide")
    if task.extra.get("gold_is") == "flag":
        yield Act(f"{SUBMIT} {task.gold}")
        return
    for posed in (task, *task.rounds):
        step: Step = yield Act(posed.gold)
        if "gold_is" in posed.extra:  # the script prints the flag last; both protocols submit it
            *_, flag = step.observation.strip().split("\n")
            yield Act(f"{SUBMIT} {flag}")
        elif protocol == SUBMIT:
            yield Act(f"{SUBMIT} {posed.extra.get('submit', '')}".strip())


def asker(task: Task, protocol: str) -> StrategySteps:
    """Ask for each facet of the task in words of its own, then play the gold."""
    if task.extra.get(TAKES_QUESTIONS):
        facets = facets_of(task.extra)
        for facet in facets:
            asks = [text for text in facet.asks if facet_asked(facets, text) == facet]
            yield Act(f"ask {[*asks, *facet.asks][0]}?")
    yield from gold(task, protocol)


def guesser(task: Task, protocol: str) -> StrategySteps:
    """Play the record's `unclarified` as `gold` plays the gold: the solution of one who does not
    ask."""
    if not (guess := task.extra.get("unclarified")):
        raise DataError(f"task {task.id} has no field 'unclarified' to play")
    yield from gold(replace(task, gold=str(guess), golds=()), protocol)


def noop(task: Task, protocol: str) -> StrategySteps:
    """Submit without doing anything, in each round."""
    for _ in (task, *task.rounds):
        yield Act(SUBMIT if protocol == SUBMIT else "")


def retrieval(tasks: Sequence[Task], k: int = 10) -> Strategy:
    """Return a strategy that answers with the golds of the tasks whose queries are most similar,
    never with the task's own.

    Under `submit` it executes one gold; under `paper`, which shows the score, up to `k`.
    """

    def strategy(task: Task, protocol: str) -> StrategySteps:
        for other in _similar(task, tasks, 1 if protocol == SUBMIT else k):
            yield Act(other.gold)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def nearest(tasks: Sequence[Task]) -> Strategy:
    """Return a strategy that answers with the gold of the task whose query is most similar, never
    with the task's own. Where only words of the two queries differ, those in the gold are replaced
    as well."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        for other in _similar(task, tasks, 1):
            yield Act(_renamed(other, task))
        if protocol == SUBMIT:
            yield Act(f"{SUBMIT} {task.extra.get('submit', '')}".strip())

    return strategy


def _similar(task: Task, tasks: Sequence[Task], count: int) -> list[Task]:
    """Return the other tasks with a gold whose queries are most similar, the most similar first."""
    others = [other for other in tasks if other.id != task.id and other.gold]
    queries = [other.query for other in others]
    return [others[index] for index in most_similar(task.query, queries, count)]


_WORD = re.compile(r"[\w./-]*\w")


def _renamed(other: Task, task: Task) -> str:
    """Return the gold of another task with its names replaced by those at the same places of this
    task's query."""
    old, new = _WORD.findall(other.query), _WORD.findall(task.query)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    names = dict[str, str]()
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        if kind == "replace" and a_end - a == b_end - b:
            names.update(zip(old[a:a_end], new[b:b_end], strict=True))
    if not names:
        return other.gold
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)(?:{words})(?!\w)", lambda match: names[match[0]], other.gold)


def replay(script: Script) -> Strategy:
    """Return a strategy that repeats the recorded actions of a task. A recording without a
    submission is not submitted."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in script.actions_for(task):
            yield Act(action)

    return strategy


def static(script: Script) -> Strategy:
    """Return a strategy that executes the task's prediction and submits."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        yield from replay(script)(task, protocol)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    return strategy


def human(task: Task, protocol: str) -> StrategySteps:
    """Ask for an action, execute it as it was typed, and ask again. The driver's model reads the
    keyboard (`cli/play.py`).

    Under the paper's protocol, which has no submission, `submit` ends the episode with the best
    score so far.
    """
    messages = [message("user", task.query)]
    while True:
        reply = yield Ask(tuple(messages))
        if protocol != SUBMIT and reply.text.strip() == SUBMIT:
            return
        step: Step = yield Act(reply.text)
        text = format_step(step, scored=protocol != SUBMIT)
        messages += [reply.message, message("user", text)]
