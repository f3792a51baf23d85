"""The environments of a pool, which one factory makes, or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from intercode.agents import Agent, Strategy, make_agent, own_agent
from intercode.env import InterCodeEnv
from intercode.errors import UsageError
from intercode.language import PLAIN
from intercode.plugins import attribute_path
from intercode.runner.env_forks import Playable
from intercode.runner.strategy_driver import strategy_name
from intercode.types import Task

Factory = Callable[[], Playable]
AnyAgent = str | Agent | Strategy
"""A name of `intercode.agents`, an agent or a strategy."""


class Setting:
    """A factory of environments, its tasks, and the agent's strategy for them."""

    def __init__(
        self, factory: Factory, tasks: Sequence[Task], agent: AnyAgent, turns: int
    ) -> None:
        self._make, self.tasks = factory, list(tasks)
        self.by_id = {task.id: task for task in tasks}
        with closing(self.factory()) as env:
            self._remake = cache(partial(strategy_of, env, agent, self.tasks))
            self.strategy, self._turns = self._remake(turns), turns

    def factory(self) -> Playable:
        """Return a new environment that does not count turns: the pool does, and scores the state
        after the last one."""
        env = self._make()
        if isinstance(env, InterCodeEnv):
            env.max_turns = None
        return env

    def strategy_for(self, turns: int) -> Strategy:
        """Return the strategy of an episode of that many turns, which its prompt may name."""
        if turns == self._turns:
            return self.strategy
        return self._remake(turns)


def find_task(settings: Sequence[Setting], task: Task | str) -> tuple[Task, Setting]:
    """Return a task and its setting. Raises `UsageError` if no task has this id, and if tasks of
    several settings have it: then the `Task` itself is to be given.

    With one setting, a `Task` need not be one of its tasks.
    """
    if isinstance(task, Task):
        if len(settings) == 1:
            return task, settings[0]
        name = task.id
    else:
        name = task
    same = [(setting.by_id[name], setting) for setting in settings if name in setting.by_id]
    if isinstance(task, Task):
        identical = [pair for pair in same if pair[0] is task]
        same = identical or [pair for pair in same if pair[0] == task]
    if not same:
        raise UsageError(f"no task has the id {name!r}")
    if len(same) > 1:
        raise UsageError(
            f"{len(same)} environments have a task {name!r}; name it by the Task, not by its id"
        )
    return same[0]


def strategy_of(env: Playable, agent: AnyAgent, tasks: Sequence[Task], turns: int) -> Strategy:
    """Return the strategy of an agent, for an environment's language and prompts."""
    if isinstance(agent, Agent):
        return agent.strategy
    if isinstance(env, InterCodeEnv):
        folder = attribute_path(type(env), "prompts")
    else:
        folder = getattr(env, "prompts", None)
    prompts = Path(folder) if folder else None
    language = getattr(env, "language", PLAIN)
    if not isinstance(agent, str):
        return own_agent(
            strategy_name(agent), agent, language=language, turns=turns, prompts=prompts
        ).strategy
    return make_agent(agent, tasks=tasks, language=language, turns=turns, prompts=prompts).strategy
