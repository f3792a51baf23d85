"""What an answer does, draw by draw: executed in its interpreter, with nothing at hand but the
standard library."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from random import Random
from typing import Any

CPU_SECONDS = 2.0


def trial(
    answer: Any, drawn: Callable[[Random], Any] | None, use: Callable[..., Any] | None, draws: int
) -> Iterator[str]:
    """One line for each draw. `answer` is what was submitted, or the text of a program.

    Its interpreter ends when that takes too long, by its own time, so that a busy machine changes
    no label.
    """
    signal.signal(signal.SIGPROF, lambda *_: os._exit(1))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    answer = compile(answer, "answer", "exec") if isinstance(answer, str) else answer
    for number in range(draws):
        draw = Random(number)
        given = drawn(draw) if drawn else None
        work = (
            _used(use, draw, answer)
            if use
            else _printed(answer, given)
            if isinstance(given, str)
            else _called(answer, given)
        )
        yield repr(list(_until_error(work)))


def _until_error(seen: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from seen
    except BaseException as error:
        yield f"ends with {type(error).__name__}"


def _used(use: Callable[..., Any], draw: Random, answer: Any) -> Iterator[str]:
    return map(repr, use(draw, answer))


def _called(answer: Any, given: Any) -> Iterator[Any]:
    yield answer(*given)


def _printed(program: Any, given: str) -> Iterator[str]:
    printed, before = io.StringIO(), sys.stdin
    try:
        sys.stdin = io.StringIO(given)
        with redirect_stdout(printed):
            exec(program, {"__name__": "__main__"})
    finally:
        sys.stdin = before
        yield printed.getvalue()
