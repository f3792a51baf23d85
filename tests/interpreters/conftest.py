"""One wall with interpreters for a module's tests; each test starts in a fresh one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from graded import Grade
from kept import needs_bwrap

from intercode.envs.python.grading import Grader, Result
from intercode.envs.python.suite import read_suite
from intercode.types import Task
from intercode_sandbox.local import LocalProvider, LocalSandbox


@pytest.fixture(scope="module")
def wall() -> Iterator[LocalSandbox]:
    needs_bwrap()
    with LocalSandbox(LocalProvider().prepare(), program="python") as sandbox:
        yield sandbox


@pytest.fixture
def python(wall: LocalSandbox) -> LocalSandbox:
    wall.reset()
    return wall


@pytest.fixture(scope="module")
def referee(wall: LocalSandbox) -> Iterator[LocalSandbox]:
    with wall.sibling() as sandbox:
        yield sandbox


@pytest.fixture
def grade(python: LocalSandbox, referee: LocalSandbox) -> Grade:
    """`grade(code, "f", tests=[…])`: execute the code, submit `f` under the name `it`, give the
    results."""

    def graded(
        code: str,
        name: str | None,
        *,
        seconds: float = 2.0,
        patience: int | None = None,
        gold: str = "def it(*args): pass",
        **record: Any,
    ) -> list[Result]:
        python.exec(code)
        suite = read_suite(Task("t", "q", gold, {"name": "it", **record}))
        grader = Grader(referee, seconds=seconds, patience=patience)
        return grader.grade(python, suite, name=name, text=None if name else code)

    return graded
