"""The boundary to a strategy, which may be the caller's code: its mistakes become `UsageError`s
with its name."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from intercode.agents.base import (
    Act,
    Ask,
    Branch,
    Close,
    Fork,
    Launch,
    Launched,
    Request,
    Step,
    Strategy,
)
from intercode.errors import ForkError, IntercodeError, UsageError
from intercode.plugins import describe_error, safe_repr
from intercode.types import Reply, Task

Answer = Reply | Step | Branch | Launched | ForkError | None
Advance = Callable[[Answer], Request | None]

IDLE = 1000
"""Requests in a row without an action; a strategy that makes more would never end."""

_FIELDS: dict[type[Request], dict[str, Any]] = {
    Ask: {"messages": Sequence, "tools": Sequence, "draw": int},
    Act: {
        "action": str | None,
        "thought": str | None,
        "note": str | None,
        "env": int,
        "own_turn": bool,
    },
    Fork: {"env": int},
    Close: {"branch": int},
    Launch: {"command": str, "query": str, "turns": int, "env": Mapping},
}


@contextmanager
def drive(strategy: Strategy, task: Task, protocol: str) -> Iterator[Advance]:
    """Yield a function that sends an answer to the strategy and returns the next request, or None
    when the strategy returns.

    The end of the block closes the generator. A failure after a finished episode is only a warning:
    the score is kept. Errors of intercode's own classes, for example from a recorded run, pass
    through.
    """
    name = strategy_name(strategy)
    with _usage_errors(name):
        flow = strategy(task, protocol)
    if not isinstance(flow, Generator):
        raise UsageError(
            f"the agent {name} returned {safe_repr(flow):.100}; "
            "it must be a generator function, which yields Ask or Act"
        )
    idle, finished = 0, False

    def advance(answer: Answer) -> Request | None:
        nonlocal idle
        with _usage_errors(name):
            try:
                request = flow.throw(answer) if isinstance(answer, ForkError) else flow.send(answer)
            except StopIteration:
                return None
        if mistake := _mistake(request):
            raise UsageError(f"the agent {name} yielded {safe_repr(request):.100}; {mistake}")
        idle += 1
        if isinstance(request, Act):
            idle = 0
        if idle > IDLE:
            raise UsageError(
                f"the agent {name} made {IDLE} requests in a row without an action; "
                "let it act, or return"
            )
        return request

    try:
        yield advance
        finished = True
    finally:
        try:
            with _usage_errors(name):
                flow.close()
        except UsageError as fault:
            if not finished:
                raise
            warnings.warn(
                f"{fault}; the episode was over, and is kept", RuntimeWarning, stacklevel=3
            )


def strategy_name(strategy: Strategy) -> str:
    """Return the strategy's module and name, for messages."""
    return f"{getattr(strategy, '__module__', '')}:{getattr(strategy, '__qualname__', strategy)}"


def _mistake(request: object) -> str | None:
    """Return what is wrong with a request or its fields, or None."""
    fields = next((fields for kind, fields in _FIELDS.items() if isinstance(request, kind)), None)
    if fields is None:
        return "it may yield Ask(messages), Act(text), Act(None), Fork() or Close(branch)"
    for field, kind in fields.items():
        if not isinstance(getattr(request, field), kind):
            return f"its {field} is of the wrong type"
    if not isinstance(request, Ask):
        return None
    if not all(
        isinstance(message, dict) and isinstance(message.get("role"), str)
        for message in request.messages
    ):
        return 'each of its messages is a dict such as {"role": "user", "content": text}'
    try:
        json.dumps([*request.messages, *request.tools])
    except (TypeError, ValueError, RecursionError) as error:
        return f"its messages and tools are sent as JSON ({error})"
    return None


@contextmanager
def _usage_errors(name: str) -> Iterator[None]:
    """Raise `UsageError` for an exception from the strategy, `SystemExit` and `GeneratorExit`
    included."""
    try:
        yield
    except IntercodeError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        raise UsageError(f"the agent {name} raised {describe_error(error)}") from error
