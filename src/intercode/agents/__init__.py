"""Make an agent by name.

    try_again | react | plan_solve | tools | best_of:N | tree_search | …     ask a model:
                                                                             docs/agents.md
    gold | noop | asker | guesser | retrieval | nearest
    replay:PATH | static:PATH | [NAME=]exec:COMMAND | module:function

`module:function` is the user's own strategy: a generator function of (task, protocol), which
`own_agent` also gives the keywords `turns`, `language` and `prompts` if it has parameters of these
names. It needs a model unless it has an attribute ``needs_model = False``.

To add an agent: a function that returns a `Strategy`, a case in `make_agent`, and its prompts.
"""

from __future__ import annotations

import inspect
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
from intercode.agents.prompts import Prompts
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
PLAIN = {"gold": gold, "noop": noop, "asker": asker, "guesser": guesser}
"""Agents without a model or settings."""
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

    def modelled(
        form: str, make: Callable[[Prompts], Strategy], *more: str, samples: bool = False
    ) -> Agent:
        texts = load_prompts(form, language, *more, folder=prompts)
        return Agent(name, make(texts), True, texts.digest, samples)

    label, name = split_agent(name)
    match name.partition(":"):
        case "try_again", "", "":
            return modelled("fence", lambda texts: try_again(texts, turns))
        case "try_again_blind", "", "":
            return modelled("fence", lambda texts: try_again(texts, turns, blind=True))
        case "react", "", "":
            return modelled("react", lambda texts: try_again(texts, turns))
        case ("plan_solve" | "plan_solve_refine") as method, "", "":
            refine = method == "plan_solve_refine"
            return modelled(
                "fence", lambda texts: plan_solve(texts, turns, refine=refine), *PLAN_TEXTS
            )
        case "tools", "", "":
            return modelled("tools", lambda texts: tools(texts, turns), "tools.malformed")
        case "best_of", "" | ":", n if (
            not name.endswith(":") and (n or "3").isdecimal() and int(n or "3")
        ):
            return modelled(
                "fence", lambda texts: best_of(texts, turns, int(n or "3")), samples=True
            )
        case "tree_search", "", "":
            return modelled("fence", lambda texts: tree_search(texts, turns), "undo", "undo.tried")
        case plain, "", "" if plain in PLAIN:
            return Agent(name, PLAIN[plain])
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
        case module, ":", function if (
            module not in ("", "replay", "static", "best_of", "exec") and function
        ):
            strategy = load_plugin(name, "agent")
            if not callable(strategy):
                raise UsageError(
                    f"{name} is not a function; a strategy is called with (task, protocol)"
                )
            return own_agent(name, strategy, language=language, turns=turns, prompts=prompts)
    choice = f"choose one of {', '.join(NAMES)}"
    raise UsageError(f"unknown agent {name!r}; {choice}{did_you_mean(name, NAMES)}")


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
    given: dict[str, Any] = {"turns": turns, "language": language}
    digest = None
    if "prompts" in accepted:
        given["prompts"] = load_prompts("fence", language, folder=prompts)
        digest = given["prompts"].digest
    needs_model = getattr(strategy, "needs_model", True)
    given = {key: value for key, value in given.items() if key in accepted}
    bound = update_wrapper(partial(strategy, **given), strategy) if given else strategy
    return Agent(name, bound, needs_model, digest)
