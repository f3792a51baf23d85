"""What the tests of grading say to each other."""

from __future__ import annotations

from collections.abc import Callable

from intercode.envs.python.grading import Result

Grade = Callable[..., list[Result]]


def passed(results: list[Result]) -> list[bool]:
    return [result.passed for result in results]
