"""Strategies that fork: they make several attempts from one state and submit one. Under `submit`
they never see a score.

best_of        the task ──► n attempts, each on its own copy ──► submit the answer that most have

tree_search    task ──► act on a copy ─┬─ the action failed, or the model says `undo`
                                       │         ──► go back and act in another way
                                       └─ else   ──► continue from the copy

An action fails with an exit status other than 0, a time-out, or a lost session. In the tree, the
value of a state is minus the number of failed actions that led to it. The search continues from the
best state, and among equals from the deepest. From one state it tries `WIDTH` actions; after that,
states that a failed action reached count like all others. The prompt lists what was tried, so that
the model does not repeat itself at temperature 0. Every reply counts as one of the `turns`, so a
search asks the model no more often than a strategy without copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from intercode.agents.base import (
    ROOT,
    SUBMIT,
    Act,
    Branch,
    Close,
    Fork,
    Step,
    Strategy,
    StrategySteps,
)
from intercode.agents.dialogue import Dialogue, format_step
from intercode.agents.prompts import Prompts
from intercode.errors import ForkError
from intercode.submission import ANSWER, answer_in, submitted_word
from intercode.types import Task

WIDTH = 3
UNDO = "undo"


@dataclass(frozen=True)
class Attempt:
    """A finished attempt: its copy, its submission, its vote, and how many of its actions failed.

    The vote is the submission and the answer: the output of the last action, or the answer that the
    submission itself gives.
    """

    branch: Branch
    submission: str
    vote: tuple[str, str]
    failures: int = 0


def best_of(prompts: Prompts, turns: int = 10, n: int = 3) -> Strategy:
    """Return a strategy whose `n` attempts share the `turns`."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        attempts = []
        for draw in range(min(n, turns)):
            talk = Dialogue.start(task, protocol, max(1, turns // n), prompts)
            attempts.append((yield from _attempt(talk, draw)))
        chosen = majority(attempts)
        if protocol == SUBMIT:
            yield Act(chosen.submission, env=chosen.branch, own_turn=True)

    return strategy


def _attempt(talk: Dialogue, draw: int) -> Generator[Any, Any, Attempt]:
    branch = yield Fork()
    answer, failures = "", 0
    while talk.left:
        act = talk.act((yield talk.ask(draw)), branch)
        if talk.protocol == SUBMIT and talk.submits(act):
            submission = act.action or SUBMIT
            if not talk.takes_answer:
                return Attempt(branch, submission, (submission, answer), failures)
            if submitted := answer_in(submitted_word(ANSWER, submission)):
                return Attempt(branch, submission, (SUBMIT, submitted.strip()), failures)
            break  # the environment would reject the submission
        step = yield act
        talk.add_step(step)
        # else the observation is a note on the reply, or the user's
        if act.action is not None and "asked" not in (step.info or {}):
            answer = step.observation.strip()
        failures += act.action is None or failed(step)
    return Attempt(branch, SUBMIT, (SUBMIT, answer), failures)


def majority(attempts: list[Attempt]) -> Attempt:
    """Return the attempt with the most frequent vote; among equals the one with the fewest
    failures, then the earliest."""
    votes = Counter(attempt.vote for attempt in attempts)
    return max(attempts, key=lambda attempt: (votes[attempt.vote], -attempt.failures))


@dataclass(eq=False)
class Node:
    """A state of the search. `tried` describes the actions that were undone from here, with their
    results.

    `acted_on`: the state could not be copied, so an action changed it and nothing can start from it
    again.
    """

    branch: Branch
    talk: Dialogue
    value: int = 0
    depth: int = 0
    parent: Node | None = None
    result: str = ""
    """The action that led here, and what it printed."""
    tried: list[str] = field(default_factory=list)
    acted_on: bool = False

    def path(self) -> Iterator[Node]:
        """Yield the node and its ancestors."""
        yield self
        if self.parent:
            yield from self.parent.path()


def tree_search(prompts: Prompts, turns: int = 10) -> Strategy:
    """Return the strategy with `turns` replies before the submission."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        nodes = [Node(ROOT, Dialogue.start(task, protocol, turns, prompts, more="undo"))]
        for left in range(turns, 0, -1):
            node = best(nodes)
            talk = node.talk.copy()
            talk.left = left
            if node.tried:
                talk.add_user(prompts.fill("undo.tried", tried="\n\n".join(node.tried)))
            act = talk.act((yield talk.ask()), node.branch)
            if (act.action or "").strip() == UNDO:
                yield from _undo(node, nodes)
            elif protocol == SUBMIT and talk.submits(act):
                talk.add_step((yield act))
                nodes = [Node(node.branch, talk)]
            elif act.action is None:
                step = yield act
                node.tried.append(f"(no code)\n{step.observation}")
            else:
                nodes.append((yield from _grow(node, act, talk)))
        if protocol == SUBMIT:
            yield Act(SUBMIT, env=best(nodes).branch, own_turn=True, forced=True)

    return strategy


def best(nodes: list[Node]) -> Node:
    """Return the node with the greatest value, and among equals the deepest; nodes with fewer than
    `WIDTH` tries go first."""
    usable = [node for node in nodes if not node.acted_on]
    fresh = [node for node in usable if len(node.tried) < WIDTH] or usable
    return max(reversed(fresh), key=lambda node: (node.value, node.depth))


def _grow(node: Node, act: Act, talk: Dialogue) -> Generator[Any, Any, Node]:
    """Act on a copy of the node and return the new node. If no copy can be made, act on the node's
    own environment."""
    try:
        branch = yield Fork(node.branch)
    except ForkError:
        branch, node.acted_on = node.branch, True
    step = yield replace(act, env=branch)
    talk.add_step(step)
    fails = failed(step)
    result = f"{act.action}\n{format_step(step, scored=False)}"
    if fails:
        node.tried.append(result)
    return Node(branch, talk, node.value - fails, node.depth + 1, node, result)


def _undo(node: Node, nodes: list[Node]) -> StrategySteps:
    """Remove a node and all that grew from it; not if it has no parent, or shares its parent's
    environment."""
    if node.parent is None or node.parent.branch == node.branch:
        node.tried.append(f"{UNDO}\nThere is nothing to undo.")
        return
    node.parent.tried.append(f"{node.result}\n[undone]")
    removed = [other for other in nodes if node in other.path()]
    for other in removed:
        nodes.remove(other)
    for branch in sorted({other.branch for other in removed}):
        yield Close(branch)


def failed(step: Step) -> bool:
    info = step.info or {}
    return bool(info.get("exit_code") or info.get("timed_out") or info.get("session_lost"))
