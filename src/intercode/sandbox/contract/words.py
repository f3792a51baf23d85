"""What the clauses are written with: each names what it looked at, what it got and what it wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from intercode.sandbox.base import Sandbox

Clause = Callable[[Sandbox], None]
"""One sentence of the contract (its docstring), tried on a sandbox fresh from `reset`; it raises AssertionError."""


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        where, one, other = _first_difference(got, wanted)
        raise AssertionError(f"{what}{where and f', at {where}'}: {one!r} instead of {other!r}")


def _first_difference(one: Any, other: Any, where: str = "") -> tuple[str, object, object]:
    """Where in long or nested values, and what differs there; of others, the values themselves."""
    keys: Iterable[Any] = ()
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        keys = range(min(len(one), len(other)))
    elif isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() & other.keys()
    for key in keys:
        if one[key] != other[key]:
            return _first_difference(one[key], other[key], f"{where}[{key!r}]")
    return where, one, other


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
