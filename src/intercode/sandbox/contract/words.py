"""What the clauses are written with: each names what it looked at, what it got and what it wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from intercode.sandbox.base import Sandbox

Clause = Callable[[Sandbox], None]
"""One sentence of the contract (its docstring), tried on a sandbox fresh from `reset`; it raises AssertionError."""


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{what}: {got!r} instead of {wanted!r}")


def says(sandbox: Sandbox, action: str, wanted: str) -> None:
    same(f"`{action}` prints", sandbox.exec(action).output, wanted)


@contextmanager
def raises(what: str, *kinds: type[BaseException]) -> Iterator[list[str]]:
    words: list[str] = []
    try:
        yield words
    except kinds as error:
        words.append(str(error))
    else:
        raise AssertionError(f"{what} raises nothing instead of {' or '.join(kind.__name__ for kind in kinds)}")
