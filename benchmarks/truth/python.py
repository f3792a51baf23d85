"""Python: changed golds of the starter set, labelled by what they do.

    gold ──► mutants ──► another result than the gold's on one of many draws: wrong; on none: not
         │               known, left out
         └─► other ways to say the same ──► the gold's results on all of them: right; else left out

What is drawn follows the tasks' queries (`python_inputs.py`, `python_uses.py`), not their tests,
and results are compared without the reward's code: as they print, and by `==` where they are plain.
A mutant that does not end is left out, too: it says nothing of a reward. `paper` knows the public
tests alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import closing
from difflib import ndiff
from pathlib import Path

import intercode
from intercode.env import InterCodeEnv
from intercode.sandbox.base import Limits
from intercode.types import Task, View
from truth.pairs import Pair, Truth, play
from truth.python_mutants import mutants
from truth.python_rewritings import local_names, renamed, rewritings

DRAWS, PATIENCE = 200, 120.0
BESIDE = [
    Path(__file__).with_name(f"python_{name}.py").read_text("utf-8")
    for name in ("inputs", "uses", "trial")
]
Actions = tuple[str, ...]


def truths() -> Iterator[Truth]:
    for held_out in (False, True):
        pairs = list(labelled(held_out=held_out))
        for reward in ("exact", "paper"):
            with closing(
                intercode.make("python", reward=reward, max_turns=None, view=View(head=0, tail=0))
            ) as env:
                yield Truth(
                    "python, held out" if held_out else "python",
                    reward,
                    list(play(env, pairs)),
                    held_out,
                )


def labelled(*, held_out: bool = False) -> Iterator[Pair]:
    limits = Limits(seconds=PATIENCE)
    with closing(
        intercode.make("python", max_turns=None, view=View(head=None), limits=limits)
    ) as env:
        for task in env.tasks:
            yield from _pairs(env, task, held_out)


def _pairs(env: InterCodeEnv, task: Task, held_out: bool) -> Iterator[Pair]:
    name = task.extra.get("submit", "")
    gold = _seen(env, task, (task.gold,), name)
    assert gold is not None, f"the gold of {task.id} does not end"
    for what, code in mutants(task.gold, held_out=held_out):
        seen = _seen(env, task, (code,), name)
        if seen is not None and _apart(seen, gold):
            yield Pair(
                task.id,
                (code, f"submit {name}".strip()),
                False,
                f"{what}: {_change(task.gold, code)}",
            )
    for what, actions, called in _rewritten(task, held_out):
        if _seen(env, task, actions, called) == gold:
            yield Pair(task.id, (*actions, f"submit {called}".strip()), True, what)


def _rewritten(task: Task, held_out: bool) -> Iterator[tuple[str, Actions, str]]:
    """What was done, the actions, and the name that is submitted. What is held out has other local
    names everywhere."""
    name = task.extra.get("submit", "")
    other = renamed(task.gold, local_names(task.gold, name))
    for what, code in rewritings(other if held_out else task.gold):
        yield what, (code,), name
    if held_out:
        return
    yield "local names exchanged", (other,), name
    if name:
        yield "under another name", (renamed(task.gold, {name: "mine"}),), "mine"
        yield "in several actions", tuple(map(ast.unparse, ast.parse(task.gold).body)), name


def _seen(env: InterCodeEnv, task: Task, actions: Actions, name: str) -> list[str] | None:
    """What the answer does on each draw; None if it does not end."""
    env.reset(options={"task": task.id})
    for action in actions if name else ():
        env.step(action)
    text, *_ = env.step(
        _TRIAL.format(beside=BESIDE, answer=name or repr(actions[-1]), task=task.id, draws=DRAWS)
    )
    lines = text.splitlines()
    return lines if len(lines) == DRAWS else None


_TRIAL = """
def _on_all_draws(answer):
    beside = {{}}
    for text in {beside!r}:
        exec(text, beside)
    inputs, uses = beside["INPUTS"].get({task!r}), beside["USES"].get({task!r})
    for line in beside["trial"](answer, inputs, uses, {draws}):
        print(line)


_on_all_draws({answer})
"""
"""Binds nothing that an answer may use."""


def _apart(mine: list[str], gold: list[str]) -> bool:
    return any(
        _value(one) != _value(other) for one, other in zip(mine, gold, strict=True) if one != other
    )


def _value(line: str) -> object:
    try:
        return ast.literal_eval(line)
    except (ValueError, SyntaxError):
        return line


def _change(gold: str, code: str) -> str:
    """The first line that is not the gold's; nothing where lines are only missing."""
    lines = ndiff(ast.unparse(ast.parse(gold)).splitlines(), code.splitlines())
    return next((line[2:].strip() for line in lines if line.startswith("+ ")), "")
