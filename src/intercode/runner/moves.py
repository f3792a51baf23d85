"""The boundary to a strategy, which is anybody's code: whatever it does wrong becomes a `UsageError` that names it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

from intercode.agents.base import Act, Ask, Branch, Drop, Fork, Move, Moves, Step, Strategy
from intercode.errors import ForkError, IntercodeError, UsageError
from intercode.types import Reply, Task

Answer = Reply | Step | Branch | ForkError | None
Advance = Callable[[Answer], Move | None]


@contextmanager
def moves(strategy: Strategy, task: Task, protocol: str) -> Iterator[Advance]:
    """A function from an answer to the strategy's next move, or to None when it has nothing more to do.

    The generator is closed in the end. Errors of our own that it raises (such as a recording's) pass through.
    """
    name = f"{getattr(strategy, '__module__', '')}:{getattr(strategy, '__qualname__', strategy)}"
    with _blaming(name):
        flow = strategy(task, protocol)
    if not isinstance(flow, Generator):
        raise UsageError(f"the agent {name} returned {flow!r:.100}; it must be a generator function, which yields Ask or Act")
    try:
        yield lambda answer: _advance(name, flow, answer)
    finally:
        with _blaming(name):
            flow.close()


def _advance(name: str, flow: Moves, answer: Answer) -> Move | None:
    with _blaming(name):
        try:
            move: object = flow.throw(answer) if isinstance(answer, ForkError) else flow.send(answer)
        except StopIteration:
            return None
    if isinstance(move, Ask | Fork | Drop) or (isinstance(move, Act) and isinstance(move.action, str | None)):
        return move
    raise UsageError(
        f"the agent {name} yielded {move!r:.100}; it may yield Ask(messages), Act(text), Act(None), Fork() or Drop(branch)"
    )


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    try:
        yield
    except IntercodeError:
        raise
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        raise UsageError(f"the agent {name} raised {type(error).__name__}: {error} ({where})") from error
