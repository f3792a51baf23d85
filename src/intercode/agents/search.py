"""Strategies that fork: several lines of play from one state, of which one is submitted. Under `submit` none sees a score.

best_of        the task ──► n lines, each on a copy of its own ──► the answer that most of them have is submitted

tree_search    task ──► act on a copy ── it failed, or the model says `undo` ──► back: act in another way from there
                             └────────── else ──► go on from the copy

A line's worth in the tree is minus the number of its actions that failed: an exit status other than 0, a time-out, a lost
session. The best line, of equal ones the deepest, goes on; from one state `WIDTH` actions are tried,
and then the failed ones are lines like others. What was tried is told, so that a model at temperature 0 does not repeat
itself. Every reply counts as one of `turns`, so a search asks the model no more often than a line of play does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from intercode.agents.base import SUBMIT, TRUNK, Act, Branch, Close, Fork, Step, Strategy, StrategySteps
from intercode.agents.dialogue import Dialogue, told
from intercode.agents.prompts import Prompts
from intercode.errors import ForkError
from intercode.submission import ANSWER, answer_in, submitted_word
from intercode.types import Task

WIDTH = 3
UNDO = "undo"


@dataclass(frozen=True)
class Line:
    """One finished line of play: where, how it is submitted, what its last action printed, how many of them failed.

    Where the submission gives the answer, `given` is true and `answer` is that one.
    """

    branch: Branch
    submission: str = SUBMIT
    answer: str = ""
    failures: int = 0
    given: bool = False

    @property
    def vote(self) -> tuple[str, str]:
        """What is submitted: an answer is the same whether it was printed or given."""
        return SUBMIT if self.given else self.submission, self.answer


def best_of(prompts: Prompts, turns: int = 10, n: int = 3) -> Strategy:
    """`n` lines share the `turns`. Of lines with the most frequent answer, the one with the fewest failures is submitted."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        lines = []
        for draw in range(min(n, turns)):
            talk = Dialogue.about(task, protocol, max(1, turns // n), prompts)
            lines.append((yield from _line(talk, draw)))
        chosen = majority(lines)
        if protocol == SUBMIT:
            yield Act(chosen.submission, on=chosen.branch, apart=True)

    return strategy


def _line(talk: Dialogue, draw: int) -> Generator[Any, Any, Line]:
    line = Line((yield Fork()))
    while talk.left:
        act = talk.act((yield talk.ask(draw)), line.branch)
        if talk.protocol == SUBMIT and talk.submits(act):
            line = replace(line, submission=act.action or SUBMIT)
            given = answer_in(submitted_word(ANSWER, line.submission)) if talk.takes_answer else None
            if talk.takes_answer and not given:  # the environment would refuse it
                return replace(line, submission=SUBMIT)
            return replace(line, answer=given.strip(), given=True) if given else line
        step = yield act
        talk.see(step)
        line = replace(line, answer=step.observation.strip(), failures=line.failures + (act.action is None or failed(step)))
    return line


def majority(lines: list[Line]) -> Line:
    """By what would be submitted: the word, and the answer. The earliest of equal ones."""
    votes = Counter(line.vote for line in lines)
    return max(lines, key=lambda line: (votes[line.vote], -line.failures))


@dataclass(eq=False)
class Node:
    """A state that was reached. `tried`: what was taken back from here, with what came of it. `moved`: the state is no more,
    since it could not be copied and was acted on itself."""

    branch: Branch
    talk: Dialogue
    worth: int = 0
    depth: int = 0
    parent: Node | None = None
    action: str = ""
    seen: str = ""
    tried: list[str] = field(default_factory=list)
    moved: bool = False

    def line(self) -> Iterator[Node]:
        """The node and those before it."""
        yield self
        if self.parent:
            yield from self.parent.line()


def tree_search(prompts: Prompts, turns: int = 10) -> Strategy:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        nodes = [Node(TRUNK, Dialogue.about(task, protocol, turns, prompts, more="undo"))]
        for left in range(turns, 0, -1):
            node = best(nodes)
            talk = node.talk.copy()
            talk.left = left
            if node.tried:
                talk.say(prompts.fill("undo.tried", tried="\n\n".join(node.tried)))
            act = talk.act((yield talk.ask()), node.branch)
            if (act.action or "").strip() == UNDO:
                yield from _undo(node, nodes)
            elif protocol == SUBMIT and talk.submits(act):
                talk.see((yield act))
                nodes = [Node(node.branch, talk)]
            elif act.action is None:
                step = yield act
                node.tried.append(f"(no code)\n{step.observation}")
            else:
                nodes.append((yield from _grow(node, act, talk)))
        if protocol == SUBMIT:
            yield Act(SUBMIT, on=best(nodes).branch, apart=True)

    return strategy


def best(nodes: list[Node]) -> Node:
    """Of the nodes where few actions were tried, if there are any, that of the greatest worth; of equal ones the deepest."""
    standing = [node for node in nodes if not node.moved]
    fresh = [node for node in standing if len(node.tried) < WIDTH] or standing
    return max(reversed(fresh), key=lambda node: (node.worth, node.depth))


def _grow(node: Node, act: Act, talk: Dialogue) -> Generator[Any, Any, Node]:
    """Act on a copy of the node; where no copy can be had, on the node itself, which is none any more then."""
    try:
        branch = yield Fork(node.branch)
    except ForkError:
        branch, node.moved = node.branch, True
    step = yield replace(act, on=branch)
    talk.see(step)
    lost = failed(step)
    child = Node(branch, talk, node.worth - lost, node.depth + 1, node, act.action or "", told(step, scored=False))
    if lost:
        node.tried.append(f"{child.action}\n{child.seen}")
    return child


def _undo(node: Node, nodes: list[Node]) -> StrategySteps:
    """Give a node up with all that came of it; not if there is none before, or it stands in that one's own place."""
    if node.parent is None or node.parent.branch == node.branch:
        node.tried.append(f"{UNDO}\nThere is nothing to go back to.")
        return
    node.parent.tried.append(f"{node.action}\n{node.seen}\n[undone]")
    given_up = [other for other in nodes if node in other.line()]
    nodes[:] = [other for other in nodes if other not in given_up]
    for branch in sorted({other.branch for other in given_up}):
        yield Close(branch)


def failed(step: Step) -> bool:
    info = step.info or {}
    return bool(info.get("exit_code") or info.get("timed_out") or info.get("session_lost"))
