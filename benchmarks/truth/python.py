"""Python: for each starter task a wrong answer, the gold with one mistake, and a right one, the
gold in other words.

python.jsonl has the mistakes: `new` in place of `old`, and `shows`, code that prints something else
after the gold than after the wrong answer; for a program, what it reads. So a label is shown by
execution, without the reward's code. The mistakes are hard to see: of eight mutations of a gold,
drawn by chance, the one that the fewest of 150 random calls told from the gold; or that which
`exact` accepted, four of 703. `paper` knows the public tests alone.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import intercode
from intercode.env import InterCodeEnv
from intercode.types import Task, View
from truth.pairs import Pair, Truth, play

MISTAKES = Path(__file__).with_suffix(".jsonl")


def truths() -> Iterator[Truth]:
    pairs = list(labelled())
    for reward in ("exact", "paper"):
        with closing(
            intercode.make("python", reward=reward, max_turns=None, view=View(head=0, tail=0))
        ) as env:
            yield Truth("python", reward, list(play(env, pairs)))


def labelled() -> Iterator[Pair]:
    mistakes = [json.loads(line) for line in MISTAKES.read_text("utf-8").splitlines()]
    with closing(intercode.make("python", max_turns=None, view=View(head=None))) as env:
        tasks = {task.id: task for task in env.tasks}
        for mistake in mistakes:
            yield from _pairs(env, tasks[mistake["task"]], mistake)


def _pairs(env: InterCodeEnv, task: Task, mistake: dict[str, Any]) -> Iterator[Pair]:
    """A wrong answer and a right one. Raises `ValueError` if a label does not show."""
    if task.gold.count(mistake["old"]) != 1:
        raise ValueError(f"{task.id}: {mistake['old']!r} must stand in the gold once")
    name = task.extra.get("submit", "")  # a program has none
    wrong = task.gold.replace(mistake["old"], mistake["new"])
    right, renamed = _in_other_words(task.gold, name), [f"{name} = mine"] if name else []

    def printed(actions: Sequence[str]) -> str:
        shows = mistake["shows"]
        if not name:
            actions, shows = [], _PROGRAM.format(read=shows, program=actions[-1])
        env.reset(options={"task": task.id})
        return [env.step(action)[0] for action in [*actions, shows]][-1]

    expected = printed([task.gold])
    if printed([wrong]) == expected:
        raise ValueError(f"{task.id}: nothing shows the mistake: {mistake['why']}")
    if printed([*right, *renamed]) != expected:
        raise ValueError(f"{task.id}: in other words it is another answer")
    yield Pair(task.id, (wrong, f"submit {name}".strip()), False, mistake["why"])
    yield Pair(task.id, (*right, "submit mine" if name else "submit"), True, "in other words")


_PROGRAM = """
import io, sys
sys.stdin = io.StringIO({read!r})
exec({program!r}, {{"__name__": "__main__"}})
"""


def _in_other_words(gold: str, name: str) -> list[str]:
    """Actions that mean the same: one for each statement; a program is one action."""
    module = ast.parse(gold)
    _Reworded(name).visit(module)
    return [ast.unparse(statement) for statement in module.body] if name else [ast.unparse(module)]


class _Reworded(ast.NodeTransformer):
    """The same code with branches exchanged, documented, annotated, and with another name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit(self, node: ast.AST) -> Any:
        for field in ("id", "name"):
            if self._name and getattr(node, field, None) == self._name:
                setattr(node, field, "mine")
        return super().visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse or [ast.Pass()], node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Constant("Written with care.")))
        for arg in node.args.args:
            arg.annotation = ast.Name("object", ast.Load())
        return node
