"""The agents by name.

    try_again | gold | noop | retrieval | replay:PATH | static:PATH | module:function

`module:function` is a strategy of the user's own: a generator function of (task, protocol). It is taken to need a model
unless it has an attribute ``needs_model = False``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from intercode.agents.base import SUBMIT, Act, Agent, Ask, Moves, Step, Strategy
from intercode.agents.baselines import Script, gold, noop, replay, retrieval, static
from intercode.agents.human import human
from intercode.agents.try_again import prompt_digest, try_again
from intercode.errors import UsageError
from intercode.types import Task

NAMES = ("try_again", "gold", "noop", "retrieval", "replay:PATH", "static:PATH", "module:function")

__all__ = [
    "NAMES", "SUBMIT", "Act", "Agent", "Ask", "Moves", "Script", "Step", "Strategy",
    "gold", "make_agent", "noop", "replay", "retrieval", "static", "try_again",
]  # fmt: skip


def make_agent(
    name: str,
    *,
    tasks: Sequence[Task],
    turns: int = 10,
    language: str = "bash",
    load: Callable[[str], Script] | None = None,
    predictions: Callable[[str], Script] | None = None,
) -> Agent:
    """The agent called `name`, for `tasks`, with `turns` actions before the submission.

    `language` is what the environment runs; it chooses the prompt. `load` opens the recording of ``replay:PATH``,
    `predictions` the file of ``static:PATH``.
    Raises `UsageError` for an unknown name, or one that cannot be had here.
    """
    match name.partition(":"):
        case "try_again", "", "":
            return Agent(name, try_again(language, turns), True, prompt_digest("try_again", language))
        case "gold", "", "":
            return Agent(name, gold)
        case "human", "", "":
            return Agent(name, human)
        case "noop", "", "":
            return Agent(name, noop)
        case "retrieval", "", "":
            return Agent(name, retrieval(tasks, turns))
        case "replay", ":", path if path and load:
            return Agent(name, replay(load(path)))
        case "static", ":", path if path and predictions:
            return Agent(name, static(predictions(path)))
        case module, ":", function if module not in ("", "replay", "static") and function:
            strategy = _import(module, function)
            return Agent(name, strategy, needs_model=getattr(strategy, "needs_model", True))
    raise UsageError(f"unknown agent {name!r}; choose one of {', '.join(NAMES)}")


def _import(module: str, function: str) -> Strategy:
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # whatever a module of the user's own does wrong
        hint = "; PYTHONPATH names further folders to look in" if isinstance(error, ModuleNotFoundError) else ""
        raise UsageError(f"the agent's module {module!r} cannot be imported: {type(error).__name__}: {error}{hint}") from error
    try:
        found = getattr(imported, function)
    except AttributeError as error:
        raise UsageError(f"the module {module!r} has no {function!r}; name a generator function of it") from error
    if not callable(found):
        raise UsageError(f"{module}:{function} is not a function; a strategy is called with (task, protocol)")
    strategy: Strategy = found
    return strategy
