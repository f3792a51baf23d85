"""One `intercode eval`: turn options into an environment, an agent, a model and a run folder, and
play."""

from __future__ import annotations

import itertools
import math
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from intercode import __version__
from intercode.agents import Agent, make_agent
from intercode.env import EnvFactory
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
from intercode.models import Model, OpenAIModel, make_model
from intercode.models.openai_chat import PATIENCE, Price, listed_price, price_table
from intercode.plugins import attribute_path
from intercode.rescoring.recordings import load_predictions, load_recording
from intercode.runner.budget import Budget, BudgetTracker, Limits
from intercode.runner.provenance import source_digests
from intercode.runner.run import Crew, evaluate, select
from intercode.runner.shards import Shard
from intercode.sandbox.pod import usual_provider_name
from intercode.store import RunStore
from intercode.types import Episode, Task
from intercode.validate.validation_cache import broken, cached_check

_UNLESS = " (one of your own that asks none says so by an attribute needs_model = False)"


@dataclass
class Evaluation:
    """A planned run. After `run`, `stopped` names the budget that ended it early, and `fault` is
    the error that did."""

    factory: EnvFactory
    agent: Agent
    model: Model | None
    config: dict[str, Any]
    limits: Limits
    epochs: int
    seed: int
    shard: Shard | None = None
    stopped: str | None = None
    fault: IntercodeError | None = None

    @classmethod
    def plan(
        cls,
        env: str,
        *,
        agent: str,
        model: str | None = None,
        turns: int = 10,
        epochs: int = 1,
        seed: int = 0,
        temperature: float = 0.0,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        sandbox: str | None = None,
        reply_tokens: int | None = None,
        reply_seconds: float | None = None,
        episode_cost: float | None = None,
        episode_tokens: int | None = None,
        episode_seconds: float | None = None,
        price: Price | None = None,
        base_url: str | None = None,
        task: Sequence[str] = (),
        split: str | None = None,
        failed_in: str | None = None,
        shuffle: bool = False,
        limit: int | None = None,
        shard: Shard | None = None,
        **world: Any,
    ) -> Evaluation:
        """Plan a run from the options of `intercode eval`; `world` are those of the environment's
        `prepare`.

        `price` goes before the table of prices. `task`, `split`, `failed_in` and `shuffle` choose
        tasks as `select` does, and `limit` then counts the chosen ones. The agent knows all tasks,
        but with `split` only those of other splits. Raises `UsageError` for what cannot be run.
        """
        choosing = bool(task or split or failed_in or shuffle)
        whole = prepare(
            env, max_turns=None, sandbox=sandbox, limit=None if choosing else limit, **world
        )
        env_class = environment_class(env)
        prompts = attribute_path(env_class, "prompts")
        others = [each for each in whole.tasks if not split or each.split != split]
        chosen = make_agent(
            agent,
            tasks=others,
            turns=turns,
            language=env_class.language,
            prompts=Path(prompts) if prompts else None,
            load=load_recording,
            predictions=lambda path: load_predictions(path, whole.tasks),
        )
        factory, facts = whole, dict[str, Any](limit=limit)
        if choosing:
            some = select(
                whole.tasks,
                task,
                split=split,
                failed_in=failed_in,
                shuffle=shuffle,
                seed=seed,
                limit=limit,
            )
            factory = replace(whole, tasks=some)
            facts = {"limit": None, "tasks": [each.id for each in some]}
        if split:
            facts["split"] = split
        if model and chosen.needs_model:
            price = price or listed_price(model)
        priced = bool(max_cost or episode_cost)
        called = _model(
            chosen,
            model,
            price,
            base_url=base_url,
            priced=priced,
            metered=priced or bool(max_tokens or episode_tokens),
            temperature=temperature,
            seed=seed,
            max_tokens=reply_tokens,
            timeout=min(reply_seconds or PATIENCE, max_seconds or math.inf),
        )
        data, reward, code = world.get("data"), world.get("reward"), None
        source = (
            data if data and Path(data).exists() else None
        )  # a run's `data` is only the name of the set
        if callable(reward):
            code = (
                reward.name
                if isinstance(reward, NamedReward)
                else f"{reward.__module__}:{reward_name(reward)}"
            )
        labels = {}  # for the report: how hard the data calls each task, and its database
        for label, names in (
            ("hardness", ("hardness", "difficulty")),
            ("data_set", ("db", "db_id")),
        ):
            values = {
                each.id: next(filter(None, map(each.extra.get, names)), None)
                for each in factory.tasks
            }
            if known := {name: str(value) for name, value in values.items() if value}:
                labels[label] = known
        config = {
            "env": env, "agent": agent, "model": called.name if called else None, "turns": turns,
            "epochs": epochs, "seed": seed, "temperature": temperature, "sandbox": sandbox or usual_provider_name(),
            "prompt": chosen.prompt_digest, "reply_tokens": reply_tokens, "price": price,
            "reply_seconds": reply_seconds,
            "max_cost": max_cost, "max_tokens": max_tokens, "max_seconds": max_seconds,
            "episode_cost": episode_cost, "episode_tokens": episode_tokens, "episode_seconds": episode_seconds,
            **world, **facts, **factory.facts(), **labels, "data_from": source,
            **({"shard": shard.name} if shard else {}),
            **source_digests(agent=agent, env=env, model=model if called else None, reward=code,
                             sandbox=sandbox, engine=world.get("engine")),
        }  # fmt: skip
        run = Budget(max_tokens, max_cost, max_seconds)
        each = Budget(episode_tokens, episode_cost, episode_seconds)
        return cls(factory, chosen, called, config, Limits(turns, run, each), epochs, seed, shard)

    def exclude_broken(self, *, workers: int) -> None:
        """Leave out the tasks that `check` calls broken; `excluded` in the settings has the
        reasons. Call it before `open`."""
        found = broken(cached_check(self.config["env"], self.factory, workers=workers))
        excluded = {task.id: found[task.id] for task in self.tasks if task.id in found}
        kept = [task for task in self.tasks if task.id not in excluded]
        if not kept:
            raise UsageError("every task is broken; `intercode check` says why")
        self.factory = replace(self.factory, tasks=kept)
        self.config["excluded"] = excluded

    @property
    def tasks(self) -> Sequence[Task]:
        return self.factory.tasks

    @property
    def planned(self) -> int:
        """Return the number of episodes."""
        pairs = ((task.id, epoch) for task in self.tasks for epoch in range(self.epochs))
        return sum(self.shard is None or self.shard.has(*pair) for pair in pairs)

    def open(
        self, out: str | Path | None, *, resume: bool, workers: int, allow_code_change: bool = False
    ) -> RunStore:
        """Open the run's folder: `out`, or a new one below runs/. Raises as `RunStore.create`
        does."""
        folder = Path(out) if out else new_folder(Path("runs"), self.config["env"], self.agent.name)
        started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        commit = None  # of the folder in which the run is started, if it is a repository
        with suppress(OSError):
            done = subprocess.run(
                ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
            )
            commit = done.stdout.strip() or None
        installed = {name: metadata.version(name) for name in ("gymnasium", "openai")}
        versions = {
            "python": platform.python_version(),
            "kernel": platform.release(),
            "intercode": __version__,
            **installed,
        }
        facts = {
            "run": str(folder),
            "created": started,
            "workers": workers,
            "git_commit": commit,
            "versions": versions,
        }
        facts |= {
            "planned": self.planned,
            **({"shard_tasks": [task.id for task in self.tasks]} if self.shard else {}),
        }
        return RunStore.create(
            folder, {**self.config, **facts}, resume=resume, allow_code_change=allow_code_change
        )

    def run(
        self,
        store: RunStore,
        *,
        workers: int,
        on_episode: Callable[[Episode], None] | None = None,
        retry_errors: bool = True,
        crew: Crew | None = None,
    ) -> tuple[dict[str, Any], list[Episode]]:
        """Play what the folder does not have yet, here or by a crew; return the settings and
        episodes of the whole run.

        An error that ends the run is kept in `fault`, so that the episodes played until then can be
        reported.
        """
        tracker = BudgetTracker(self.limits)
        if isinstance(self.model, OpenAIModel):
            self.model.give_up = tracker.stop_reason
        try:
            evaluate(
                self.factory,
                self.agent.strategy,
                self.model,
                tasks=self.tasks,
                store=store,
                workers=workers,
                epochs=self.epochs,
                seed=self.seed,
                tracker=tracker,
                on_episode=on_episode,
                retry_errors=retry_errors,
                shard=self.shard,
                crew=crew,
            )
        except (SandboxError, ModelError, InternalError) as fault:
            self.fault = fault
        finally:
            getattr(self.model, "close", lambda: None)()
        self.stopped = None if self.fault else tracker.stop_reason()
        return {**self.config, "run": str(store.path)}, store.episodes()


def _model(
    agent: Agent,
    name: str | None,
    price: Price | None,
    *,
    priced: bool,
    metered: bool,
    **options: Any,
) -> Model | None:
    """Return the model, or None if the agent needs none. `priced`: there is a limit on cost;
    `metered`: on cost or tokens."""
    if not agent.needs_model:
        return None
    if not name:
        raise UsageError(
            f"the agent {agent.name} asks a model; name one with"
            f" --model{_UNLESS if ':' in agent.name else ''}"
        )
    model = make_model(name, price=price, **options)
    if not isinstance(model, OpenAIModel):
        return model
    model.metered = metered
    if agent.samples and not options["temperature"]:
        raise UsageError(
            f"the agent {agent.name} draws several replies to one question: give --temperature,"
            " such as 0.7"
        )
    if priced and model.price is None:
        raise UsageError(
            f"a limit on cost needs the price of {name}: give --price IN,OUT, or write a line "
            f'"{name}" = [IN, OUT] into {price_table()}, in US dollars per million tokens'
        )
    return model


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
