"""The agents by name.

    try_again | react | plan_solve | tools | best_of:N | tree_search | …     ask a model; docs/agents.md says what each does
    gold | noop | retrieval | replay:PATH | static:PATH | module:function

`module:function` is a strategy of the user's own: a generator function of (task, protocol). It is taken to need a model
unless it has an attribute ``needs_model = False``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from intercode.agents.base import SUBMIT, Act, Agent, Ask, Close, Fork, Step, Strategy, StrategySteps
from intercode.agents.baselines import Script, gold, noop, replay, retrieval, static
from intercode.agents.human import human
from intercode.agents.plan_solve import TEXTS, plan_solve
from intercode.agents.prompts import Prompts
from intercode.agents.prompts import load as load_prompts
from intercode.agents.search import best_of, tree_search
from intercode.agents.tools import tools
from intercode.agents.try_again import try_again
from intercode.errors import UsageError
from intercode.plugins import import_plugin
from intercode.types import Task

MODELLED = (
    "try_again", "try_again_blind", "react", "plan_solve", "plan_solve_refine", "tools", "best_of:N", "tree_search",
)  # fmt: skip
"""Those that ask a model: `try_again_blind` is not told scores, `best_of` alone means three lines."""
NAMES = (*MODELLED, "gold", "noop", "retrieval", "replay:PATH", "static:PATH", "module:function")

__all__ = [
    "MODELLED", "NAMES", "SUBMIT", "Act", "Agent", "Ask", "Close", "Fork", "Script", "Step", "Strategy", "StrategySteps",
    "best_of", "gold", "make_agent", "noop", "plan_solve", "replay", "retrieval", "static", "tools", "tree_search", "try_again",
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

    def asking(form: str, make: Callable[[Prompts], Strategy], *more: str, samples: bool = False) -> Agent:
        prompts = load_prompts(form, language, *more)
        return Agent(name, make(prompts), True, prompts.digest, samples)

    match name.partition(":"):
        case "try_again", "", "":
            return asking("fence", lambda texts: try_again(language, turns, prompts=texts))
        case "try_again_blind", "", "":
            return asking("fence", lambda texts: try_again(language, turns, prompts=texts, blind=True))
        case "react", "", "":
            return asking("react", lambda texts: try_again(language, turns, prompts=texts))
        case ("plan_solve" | "plan_solve_refine") as method, "", "":
            refine = method == "plan_solve_refine"
            return asking("fence", lambda texts: plan_solve(texts, turns, refine=refine), *TEXTS)
        case "tools", "", "":
            return asking("tools", lambda texts: tools(texts, turns), "tools.malformed")
        case "best_of", "" | ":", n if not name.endswith(":") and (n or "3").isdecimal() and int(n or "3"):
            return asking("fence", lambda texts: best_of(texts, turns, int(n or "3")), samples=True)
        case "tree_search", "", "":
            return asking("fence", lambda texts: tree_search(texts, turns), "undo", "undo.tried")
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
        case module, ":", function if module not in ("", "replay", "static", "best_of") and function:
            strategy = _import(module, function)
            return Agent(name, strategy, needs_model=getattr(strategy, "needs_model", True))
    raise UsageError(f"unknown agent {name!r}; choose one of {', '.join(NAMES)}")


def _import(module: str, function: str) -> Strategy:
    try:
        found = import_plugin(module)
    except (Exception, SystemExit, GeneratorExit) as error:  # whatever a module of the user's own does wrong
        hint = "; PYTHONPATH names further folders to look in" if isinstance(error, ModuleNotFoundError) else ""
        raise UsageError(f"the agent's module {module!r} cannot be imported: {type(error).__name__}: {error}{hint}") from error
    try:
        strategy: Strategy = getattr(found, function)
    except AttributeError as error:
        raise UsageError(f"the module {module!r} has no {function!r}; name a generator function of it") from error
    if not callable(strategy):
        raise UsageError(f"{module}:{function} is not a function; a strategy is called with (task, protocol)")
    return strategy
