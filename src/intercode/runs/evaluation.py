"""One `intercode eval`: turn options into an environment, an agent, a model and a run folder, and
play."""

from __future__ import annotations

import itertools
import math
import platform
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from intercode import __version__
from intercode.agents import Agent, gold, make_agent
from intercode.agents.named import with_named
from intercode.doors import part
from intercode.env import InterCodeEnv
from intercode.envs import environment_class, prepare
from intercode.envs.rewards import NamedReward, reward_name
from intercode.errors import (
    IntercodeError,
    InternalError,
    ModelError,
    SandboxError,
    StoreError,
    UsageError,
)
from intercode.factory import EnvFactory
from intercode.models import Model, OpenAIModel, make_model
from intercode.models.openai_chat import PATIENCE, listed_price, price_table
from intercode.options import EnvOptions, RunOptions, code_options, split_agent
from intercode.plugins import attribute_path
from intercode.reading import present
from intercode.rescoring.recordings import load_predictions, load_recording
from intercode.runner.budget import BudgetTracker, RunLimits
from intercode.runner.provenance import source_digests
from intercode.runner.run import EpisodeExecutor, evaluate, hosts_here, select
from intercode.runs.store import RunStore
from intercode.tasks import HUB
from intercode.types import Episode, Task
from intercode.validate.check import with_passing_golds
from intercode.validate.validation_cache import broken, cached_check
from intercode_sandbox.pod import usual_provider_name

_FOR_PROGRAMS = {"memory": 2048, "processes": 256}
"""Limits of sandboxes in which a command-line agent runs, unless the caller names others."""
_PACKAGES = ("gymnasium", "numpy", "openai", "snowballstemmer", "sqlglot")
"""The packages whose versions a run records: verdicts and answers to questions depend on them."""
_UNLESS = " (one of your own that asks none says so by an attribute needs_model = False)"


@dataclass
class Evaluation:
    """A planned run; `given` are all options of its plan. After `run`, `stopped` names the budget
    or `fault` is the error that ended it early."""

    factory: EnvFactory
    agent: Agent
    model: Model | None
    config: dict[str, Any]
    options: RunOptions
    given: dict[str, Any]
    stopped: str | None = None
    fault: IntercodeError | None = None

    @classmethod
    def plan(cls, env: str, **given: Any) -> Evaluation:
        """Plan a run from the options of `intercode eval`: those of `RunOptions`, and those of the
        environment's class.

        `price` overrides the table of prices. `task`, `split`, `failed_in` and `shuffle` choose
        tasks as `select` does, and `limit` then counts the chosen ones. The agent knows all tasks,
        but with `split` only those of other splits. Raises `UsageError` for options that cannot be
        run.
        """
        given = with_named(given)
        names = {field.name for field in fields(RunOptions)}
        options = RunOptions(**{name: given[name] for name in given.keys() & names})
        world = {name: given[name] for name in given.keys() - names}
        split, limit = world.pop("split", None), world.pop("limit", None)
        if isinstance(world.get("data"), Path):
            world["data"] = str(world["data"])
        world = with_room(env, [options.agent], world)
        choosing = bool(options.task or split or options.failed_in or options.shuffle)
        factory = whole = prepare(
            env, **{"max_turns": None, **world}, limit=None if choosing else limit
        )
        agent = _agent(environment_class(env), options, whole.tasks, split)
        facts: dict[str, Any] = {"limit": limit}
        if choosing:
            chosen = select(
                whole.tasks,
                options.task,
                split=split,
                failed_in=options.failed_in,
                shuffle=options.shuffle,
                seed=options.seed,
                limit=limit,
            )
            factory = replace(whole, tasks=chosen)
            facts = {"limit": None, "split": split, "tasks": [task.id for task in chosen]}
        if options.shard:
            facts["shard"] = options.shard.name
        model, data = _model(agent, options), world.get("data")
        config = {
            "env": env,
            **options.settings(),
            **whole.options.settings(),
            "model": model.name if model else None,
            "price": options.price or (listed_price(model.name) if model else None),
            "prompt": agent.prompt_digest,
            "sandbox": world.get("sandbox") or usual_provider_name(),
            **facts,
            **factory.facts(),
            **_labels(factory.tasks),
            # `data` is only the name of the data set
            "data_from": data if data and (data.startswith(HUB) or present(data)) else None,
            **_digests(env, options, whole.options, model),
        }
        return cls(factory, agent, model, config, options, {"env": env, **given})

    def exclude_broken(self) -> None:
        """Leave out the tasks that `check` calls broken; `excluded` in the settings lists the
        reasons. Call it before `open`."""
        env, workers = self.config["env"], self.options.workers
        reasons = broken(cached_check(env, self.factory, workers=workers))
        excluded = {task.id: reasons[task.id] for task in self.tasks if task.id in reasons}
        sound = [task for task in self.tasks if task.id not in excluded]
        if not sound:
            raise UsageError("every task is broken; `intercode check` says why")
        self.factory = replace(self.factory, tasks=sound)
        self.config["excluded"] = excluded

    @property
    def tasks(self) -> Sequence[Task]:
        return self.factory.tasks

    @property
    def planned(self) -> int:
        """Return the number of episodes."""
        shard, epochs = self.options.shard, range(self.options.epochs)
        pairs = ((task.id, epoch) for task in self.tasks for epoch in epochs)
        return sum(shard is None or shard.has(*pair) for pair in pairs)

    @property
    def limits(self) -> RunLimits:
        return RunLimits.of(self.options)

    def open(
        self, out: str | Path | None, *, resume: bool, allow_code_change: bool = False
    ) -> RunStore:
        """Open the run's folder: `out`, or a new one below runs/. Raises as `RunStore.create`."""
        folder = Path(out) if out else new_folder(Path("runs"), self.config["env"], self.agent.name)
        started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        commit = None  # of the folder in which the run is started, if it is a repository
        with suppress(OSError):
            done = subprocess.run(
                ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
            )
            commit = done.stdout.strip() or None
        installed = {name: metadata.version(name) for name in _PACKAGES}
        versions = {
            "python": platform.python_version(),
            "kernel": platform.release(),
            "intercode": __version__,
            **installed,
        }
        facts: dict[str, Any] = {
            "run": str(folder),
            "created": started,
            "git_commit": commit,
            "versions": versions,
            "planned": self.planned,
        }
        if self.options.shard:
            facts["shard_tasks"] = [task.id for task in self.tasks]
        return RunStore.create(
            folder, {**self.config, **facts}, resume=resume, allow_code_change=allow_code_change
        )

    def executor(self) -> AbstractContextManager[Any]:
        """Return the executor on a cluster or in several processes of this machine, or a context
        of None if this process plays."""
        on, hosts, workers = self.options.on, self.options.hosts, self.options.workers
        here = hosts_here(hosts, workers)
        if on != "local":
            if hosts is not None:
                raise UsageError("--hosts is for this machine; a cluster has a host on each node")
        elif here == 1:
            return nullcontext()
        executor: AbstractContextManager[Any] = part("cluster")(
            here if on == "local" else on, self, self.given, workers=workers
        )
        return executor

    def run(
        self,
        store: RunStore,
        *,
        on_episode: Callable[[Episode], None] | None = None,
        retry_errors: bool = True,
        executor: EpisodeExecutor | None = None,
    ) -> tuple[dict[str, Any], Sequence[Episode]]:
        """Play the episodes that the folder lacks, here or by an executor; return the settings and
        episodes of the whole run.

        An error that ends the run is kept in `fault`, so that the episodes played until then can be
        reported.
        """
        tracker, tasks = BudgetTracker(self.limits), self.tasks
        tests = environment_class(self.config["env"]).decided_by
        if self.agent.strategy is gold and tests and (executor is None or executor.here):
            tasks = with_passing_golds(self.factory, tasks, workers=self.options.workers)
        if isinstance(self.model, OpenAIModel):
            self.model.give_up = tracker.stop_reason
        try:
            evaluate(
                self.factory,
                self.agent.strategy,
                self.model,
                tasks=tasks,
                store=store,
                workers=self.options.workers,
                epochs=self.options.epochs,
                seed=self.options.seed,
                tracker=tracker,
                on_episode=on_episode,
                retry_errors=retry_errors,
                shard=self.options.shard,
                crew=executor,
                collect=False,
                values=self.options.values,
            )
        except (SandboxError, ModelError, InternalError) as fault:
            self.fault = fault
        finally:
            getattr(self.model, "close", lambda: None)()
        self.stopped = None if self.fault else tracker.stop_reason()
        return {**self.config, "run": str(store.path)}, store.episodes()


def _agent(
    env_class: type[InterCodeEnv], options: RunOptions, tasks: Sequence[Task], split: str | None
) -> Agent:
    prompts = attribute_path(env_class, "prompts")
    return make_agent(
        options.agent,
        tasks=[task for task in tasks if not split or task.split != split],
        turns=options.turns,
        language=env_class.language,
        prompts=Path(prompts) if prompts else None,
        load=load_recording,
        predictions=lambda path: load_predictions(path, tasks),
        variables=_variables(options.agent_env),
    )


def with_room(env: str, agents: Sequence[str], world: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a world with the limits for command-line agents, if one of the agents
    is one and the options name no others."""
    if not environment_class(env).language.is_shell or not any(
        split_agent(agent)[1].startswith("exec:") for agent in agents
    ):
        return world
    return {**_FOR_PROGRAMS, **{name: value for name, value in world.items() if value is not None}}


def _variables(settings: Sequence[str]) -> dict[str, str]:
    """Return the variables for a command-line agent. Raises `UsageError` for one without a
    value."""
    for setting in settings:
        if not re.fullmatch(r"[A-Za-z_]\w*=.*", setting, re.DOTALL):
            raise UsageError(f"--agent-env {setting!r:.50} is not NAME=VALUE")
    return dict(setting.split("=", 1) for setting in settings)


def _model(agent: Agent, options: RunOptions) -> Model | None:
    """Return the model, or None if the agent needs none."""
    if not agent.needs_model:
        return None
    name = options.model
    if not name:
        raise UsageError(
            f"the agent {agent.name} asks a model; "
            f"name one with --model{_UNLESS if ':' in agent.name else ''}"
        )
    limits_cost = bool(options.max_cost or options.episode_cost)
    model = make_model(
        name,
        price=options.price or listed_price(name),
        base_url=options.base_url,
        api_key=options.api_key,
        temperature=options.temperature,
        seed=options.seed,
        max_tokens=options.reply_tokens,
        request=options.request,
        context=options.context,
        no_system=options.no_system,
        keep_reasoning=options.keep_reasoning,
        timeout=min(options.reply_seconds or PATIENCE, options.max_seconds or math.inf),
    )
    if not isinstance(model, OpenAIModel):
        return model
    model.metered = limits_cost or bool(options.max_tokens or options.episode_tokens)
    if agent.samples and not options.temperature:
        raise UsageError(
            f"the agent {agent.name} draws several replies to one question: "
            "give --temperature, such as 0.7"
        )
    if limits_cost and model.price is None:
        raise UsageError(
            f"a limit on cost needs the price of {name}: give --price IN,OUT, or write a line "
            f'"{name}" = [IN, OUT] into {price_table()}, in US dollars per million tokens'
        )
    return model


_LABELS = {
    "hardness": ("difficulty", "hardness"),
    "data_set": ("db_id", "db"),
    "distance": ("distance", "rung"),
}
"""The labels of tasks by the fields that may contain them; the last counts."""


def _labels(tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    """Return the hardness, the database, the distance from training and the number of rounds of
    each task as the data names them, for the report. A hardness that counts hops or steps says
    so."""
    labels = defaultdict[str, dict[str, str]](dict)
    for task in tasks:
        for label, names in _LABELS.items():
            for name in names:
                if task.extra.get(name) not in (None, ""):
                    labels[label][task.id] = str(task.extra[name])
        for unit in ("hops", "steps"):
            if task.extra.get(unit, "") == task.extra.get("difficulty"):
                labels["hardness"][task.id] = f"{task.extra[unit]} {unit}"
        if task.rounds:
            labels["task_rounds"][task.id] = f"{1 + len(task.rounds)} rounds"
    return dict(labels)


def _digests(
    env: str, options: RunOptions, world: EnvOptions, model: Model | None
) -> dict[str, str]:
    """Return digests of the user's own code and files among the options."""
    named = {"env": env, **code_options(options), **code_options(world)}
    reward = named["reward"]
    if callable(reward) and not isinstance(reward, NamedReward):
        named["reward"] = f"{reward.__module__}:{reward_name(reward)}"
    elif reward is not None:
        named["reward"] = reward_name(reward)
    if model is None:
        del named["model"]
    return source_digests(**named)


def new_folder(below: Path, env: str, agent: str) -> Path:
    """Make a new folder for one run. Two runs that start in the same second get two folders."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in f"{env}-{agent}")
    name = f"{plain}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in itertools.count(1):
        folder = below / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be made ({error}); choose another folder with --out"
            ) from error
    return folder
