"""The boundary to a strategy, which is anybody's code: whatever it does wrong becomes a `UsageError` that names it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from intercode.agents.base import Act, Ask, Branch, Close, Fork, Move, Step, Strategy
from intercode.errors import ForkError, IntercodeError, UsageError
from intercode.plugins import describe_error, safe_repr
from intercode.types import Reply, Task

Answer = Reply | Step | Branch | ForkError | None
Advance = Callable[[Answer], Move | None]

IDLE = 1000
"""Moves in a row that are no action: a strategy that makes more would never end."""

_FIELDS: dict[type[Move], dict[str, Any]] = {
    Ask: {"messages": Sequence, "tools": Sequence, "draw": int},
    Act: {"action": str | None, "thought": str | None, "note": str | None, "on": int, "apart": bool},
    Fork: {"of": int},
    Close: {"branch": int},
}


@contextmanager
def moves(strategy: Strategy, task: Task, protocol: str) -> Iterator[Advance]:
    """A function from an answer to the strategy's next move, or to None when it has nothing more to do.

    The generator is closed in the end; what goes wrong then is a warning if the episode is over, so that its score is kept.
    Errors of our own that it raises (such as a recording's) pass through.
    """
    name = named(strategy)
    with _blaming(name):
        flow = strategy(task, protocol)
    if not isinstance(flow, Generator):
        raise UsageError(
            f"the agent {name} returned {safe_repr(repr, flow):.100}; it must be a generator function, which yields Ask or Act"
        )
    idle, over = 0, False

    def advance(answer: Answer) -> Move | None:
        nonlocal idle
        with _blaming(name):
            try:
                move: object = flow.throw(answer) if isinstance(answer, ForkError) else flow.send(answer)
            except StopIteration:
                return None
        wrong: str | None = "it may yield Ask(messages), Act(text), Act(None), Fork() or Close(branch)"
        if not isinstance(move, Ask | Act | Fork | Close) or (wrong := _wrong(move)):
            raise UsageError(f"the agent {name} yielded {safe_repr(repr, move):.100}; {wrong}")
        idle = 0 if isinstance(move, Act) else idle + 1
        if idle > IDLE:
            raise UsageError(f"the agent {name} made {IDLE} moves in a row without an action; let it act, or return")
        return move

    try:
        yield advance
        over = True
    finally:
        try:
            with _blaming(name):
                flow.close()
        except UsageError as fault:
            if not over:
                raise
            warnings.warn(f"{fault}; the episode was over, and is kept", RuntimeWarning, stacklevel=3)


def named(strategy: Strategy) -> str:
    return f"{getattr(strategy, '__module__', '')}:{getattr(strategy, '__qualname__', strategy)}"


def _wrong(move: Move) -> str | None:
    """What is wrong with it, if anything is."""
    fields = next(fields for kind, fields in _FIELDS.items() if isinstance(move, kind))
    for field, kind in fields.items():
        if not isinstance(getattr(move, field), kind):
            return f"its {field} is of the wrong type"
    if not isinstance(move, Ask):
        return None
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in move.messages):
        return 'each of its messages is a dict such as {"role": "user", "content": text}'
    try:
        json.dumps([*move.messages, *move.tools])
    except (TypeError, ValueError, RecursionError) as error:
        return f"its messages and tools are sent as JSON ({error})"
    return None


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """`SystemExit` and `GeneratorExit` end no run either."""
    try:
        yield
    except IntercodeError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        raise UsageError(f"the agent {name} raised {describe_error(error)}") from error
