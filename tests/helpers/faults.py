"""Collected inputs of ../shared/cases: the issues that will cure what is wrong today, and a way to
take single definitions from a script there without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from intercode.errors import IntercodeError

REWARDS = "Rewards at the edges: wrong verdicts as kinds"
PROGRAMS = "Programs as agents: right rewards, and the whole truth in the record"
FILES = "Strangers' files: one bad entry, one reader's budget, one true sentence"
ROOMS = "Rooms: the knot in env.py, a typed seam, and a wall that size can't climb"


def rows(names: Iterable[str], wrong: Mapping[str, Iterable[str]] | None = None) -> list[Any]:
    """Return a parameter for each name; `wrong`: by the title of an issue, what it cures."""
    names, titles = list(names), {}
    for title, cured in (wrong or {}).items():
        titles |= dict.fromkeys(cured, title)
    assert titles.keys() <= set(names), f"no such rows: {titles.keys() - set(names)}"
    return [
        pytest.param(name, id=name, marks=wrong_today(titles[name]))
        if name in titles
        else pytest.param(name, id=name)
        for name in names
    ]


def wrong_today(title: str, *errors: type[BaseException]) -> pytest.MarkDecorator:
    """Mark a test that fails until an issue is done: by an assertion, or by one of these errors,
    usually any of ours."""
    raises = (AssertionError, *(errors or (IntercodeError,)))
    return pytest.mark.xfail(strict=True, reason=title, raises=raises)


def definitions(script: Path, *names: str) -> SimpleNamespace:
    """Return these functions, classes and variables of a script. Nothing is executed but their own
    statements and the imports that these use."""
    body = ast.parse(script.read_text()).body
    wanted = [node for node in body if not names_of(node).isdisjoint(names)]
    used = {leaf.id for node in wanted for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}
    imports = [node for node in body if not imported_by(node).isdisjoint(used)]
    space: dict[str, Any] = {"__name__": script.stem}
    exec(compile(ast.Module([*imports, *wanted], []), str(script), "exec"), space)
    return SimpleNamespace(**{name: space[name] for name in names})


def names_of(node: ast.stmt) -> set[str]:
    """Return the names that a definition or an assignment binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            leaves = ast.walk(ast.Tuple(targets))
            return {leaf.id for leaf in leaves if isinstance(leaf, ast.Name)}
        case ast.AugAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def imported_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name.partition(".")[0] for alias in aliases}
    return set()
