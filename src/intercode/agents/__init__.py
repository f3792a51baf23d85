"""Make an agent by name.

    try_again | react | plan_solve | tools | best_of:N | tree_search | …     ask a model:
                                                                             docs/agents.md
    gold | noop | asker | guesser | retrieval | nearest
    replay:PATH | static:PATH | [NAME=]exec:COMMAND | module:function

`module:function` is the user's own strategy: a generator function of (task, protocol), which
`own_agent` also gives the keywords `turns`, `language` and `prompts` if it has parameters of these
names. It needs a model unless it has an attribute ``needs_model = False``.

To add an agent: a function that returns a `Strategy`, an entry in `_METHODS`, and its prompts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

from intercode.agents.base import (
    SUBMIT,
    Act,
    Agent,
    Ask,
    Close,
    Fork,
    Step,
    Strategy,
    StrategySteps,
)
from intercode.agents.baselines import (
    Script,
    asker,
    gold,
    guesser,
    human,
    nearest,
    noop,
    replay,
    retrieval,
    static,
)
from intercode.agents.command_line import command_line
from intercode.agents.named import programs
from intercode.agents.prompts import load_prompts as load_prompts
from intercode.agents.search import best_of, tree_search
from intercode.agents.tools import tools
from intercode.agents.try_again import PLAN_TEXTS, plan_solve, try_again
from intercode.errors import UsageError, did_you_mean
from intercode.language import Language
from intercode.options import split_agent
from intercode.plugins import load_plugin
from intercode.types import Task

MODELLED = (
    "try_again",
    "try_again_blind",
    "react",
    "plan_solve",
    "plan_solve_refine",
    "tools",
    "best_of:N",
    "tree_search",
)
"""Agents that ask a model. `try_again_blind` does not see scores; `best_of` alone makes three
attempts."""
_METHODS: Mapping[str, tuple[str, Sequence[str], Callable[..., Strategy]]] = {
    "try_again": ("fence", (), try_again),
    "try_again_blind": ("fence", (), partial(try_again, blind=True)),
    "react": ("react", (), try_again),
    "plan_solve": ("fence", PLAN_TEXTS, plan_solve),
    "plan_solve_refine": ("fence", PLAN_TEXTS, partial(plan_solve, refine=True)),
    "tools": ("tools", ("tools.malformed",), tools),
    "best_of": ("fence", (), best_of),
    "tree_search": ("fence", ("undo", "undo.tried"), tree_search),
}
"""The agents that ask a model, each with the form of its actions, the names of its further texts,
and the function that returns its strategy."""
PLAIN = {"gold": gold, "noop": noop, "asker": asker, "guesser": guesser}
"""Agents without a model or settings."""
_TAKEN = ("", "replay", "static", "best_of", "exec")
"""Words before a colon that are not the names of modules."""
NAMES = (
    *MODELLED,
    *PLAIN,
    "retrieval",
    "nearest",
    "replay:PATH",
    "static:PATH",
    "exec:COMMAND",
    "module:function",
)

__all__ = [
    "MODELLED", "NAMES", "SUBMIT", "Act", "Agent", "Ask", "Close", "Fork", "Script", "Step",
    "Strategy", "StrategySteps", "asker", "best_of", "gold", "guesser", "make_agent", "nearest",
    "noop", "own_agent", "plan_solve", "replay", "retrieval", "static", "tools", "tree_search",
    "try_again",
]  # fmt: skip


def make_agent(
    name: str,
    *,
    tasks: Sequence[Task],
    language: Language,
    turns: int = 10,
    prompts: Path | None = None,
    load: Callable[[str], Script] | None = None,
    predictions: Callable[[str], Script] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Agent:
    """Return the agent called `name`, for `tasks`, with `turns` actions before the submission.

    `language` is the environment's, and so is `prompts`, the folder of texts that replace those of
    the language. `load` opens the recording of ``replay:PATH``, `predictions` the file of
    ``static:PATH``; `variables` are for the program of ``exec:COMMAND``. Raises `UsageError` for an
    unknown name, a text that is missing, or a module that cannot be imported.
    """

    label, name = split_agent(name)
    method, options = name, dict[str, int]()
    if (numbered := re.fullmatch(r"best_of:(\d+)", name)) and int(numbered[1]):
        method, options = "best_of", {"n": int(numbered[1])}
    if method in _METHODS:
        form, more, make = _METHODS[method]
        texts = load_prompts(form, language, *more, folder=prompts)
        samples = method == "best_of"
        return Agent(name, make(texts, turns, **options), True, texts.digest, samples)
    if name in PLAIN:
        return Agent(name, PLAIN[name])
    match name.partition(":"):
        case "human", "", "":
            return Agent(name, human)
        case "retrieval", "", "":
            return Agent(name, retrieval(tasks, turns))
        case "nearest", "", "":
            return Agent(name, nearest(tasks))
        case "exec", ":", command if command.strip():
            return Agent(label or name, command_line(command, turns, variables), True)
        case "replay", ":", path if path and load:
            return Agent(name, replay(load(path)))
        case "static", ":", path if path and predictions:
            return Agent(name, static(predictions(path)))
        case module, ":", function if function and module not in _TAKEN:
            strategy = load_plugin(name, "agent")
            if not callable(strategy):
                raise UsageError(
                    f"{name} is not a function; a strategy is called with (task, protocol)"
                )
            return own_agent(name, strategy, language=language, turns=turns, prompts=prompts)
    names = [*NAMES, *programs()]
    choice = f"choose one of {', '.join(names)}"
    raise UsageError(f"unknown agent {name!r}; {choice}{did_you_mean(name, names)}")


def own_agent(
    name: str,
    strategy: Callable[..., StrategySteps],
    *,
    language: Language,
    turns: int,
    prompts: Path | None = None,
) -> Agent:
    """Return the agent for a user's strategy.

    The strategy receives `turns`, `language` and `prompts` if it has parameters of these names.
    `prompts` are then the texts for code in fences, as Try Again has them.
    """
    try:
        accepted = set(inspect.signature(strategy).parameters)
    except (TypeError, ValueError):  # a callable without a signature
        accepted = set()
    options = dict[str, Any]()
    digest = None
    if "turns" in accepted:
        options["turns"] = turns
    if "language" in accepted:
        options["language"] = language
    if "prompts" in accepted:
        options["prompts"] = texts = load_prompts("fence", language, folder=prompts)
        digest = texts.digest
    needs_model = getattr(strategy, "needs_model", True)
    if options:
        strategy = update_wrapper(partial(strategy, **options), strategy)
    return Agent(name, strategy, needs_model, digest)
