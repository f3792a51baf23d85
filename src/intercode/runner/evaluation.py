"""One `intercode eval`: from options to an environment, an agent and a model, and to a run folder."""

from __future__ import annotations

import itertools
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from intercode.agents import Agent, make_agent
from intercode.env import Setting
from intercode.envs import environment_class, prepare
from intercode.errors import IntercodeError, ModelError, SandboxError, StoreError, UsageError
from intercode.models import Model, OpenAIModel, make_model
from intercode.predictions import load_predictions
from intercode.recordings import load_recording
from intercode.runner.meter import Limits, Meter
from intercode.runner.run import evaluate
from intercode.store import RunStore
from intercode.types import Episode, Task

_UNLESS = " (one of your own that asks none says so by an attribute needs_model = False)"


@dataclass
class Evaluation:
    """What is to be run. Afterwards `stopped` says which budget ended it early, and `fault` what broke, if anything did."""

    setting: Setting
    agent: Agent
    model: Model | None
    config: dict[str, Any]
    limits: Limits
    epochs: int
    seed: int
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
        price: tuple[float, float] | None = None,
        **world: Any,
    ) -> Evaluation:
        """`price` is in US dollars per million tokens, in and out. Raises `UsageError` for what cannot be run."""
        setting = prepare(env, max_turns=None, sandbox=sandbox, **world)
        language = environment_class(env).language
        chosen = make_agent(
            agent, tasks=setting.tasks, turns=turns, language=language,
            load=load_recording, predictions=lambda path: load_predictions(path, setting.tasks),
        )  # fmt: skip
        if chosen.needs_model and model is None:
            raise UsageError(f"the agent {agent} asks a model; name one with --model{_UNLESS if ':' in agent else ''}")
        asked = None
        if model and chosen.needs_model:
            prices = {model: price} if price else None
            asked = make_model(model, temperature=temperature, seed=seed, max_tokens=reply_tokens, prices=prices)
        if max_cost is not None and price is None and isinstance(asked, OpenAIModel):
            raise UsageError(f"--max-cost needs the price of {model}: give --price IN,OUT, in US dollars per million tokens")
        config = {
            "env": env, "agent": agent, "model": asked.name if asked else None, "turns": turns,
            "epochs": epochs, "seed": seed, "temperature": temperature, "sandbox": sandbox or "local",
            "prompt": chosen.prompt_digest, "reply_tokens": reply_tokens, "price": price,
            "max_cost": max_cost, "max_tokens": max_tokens, "max_seconds": max_seconds,
            **world, **setting.facts(), **_hardness(setting.tasks),
        }  # fmt: skip
        return cls(setting, chosen, asked, config, Limits(turns, max_tokens, max_cost, max_seconds), epochs, seed)

    @property
    def tasks(self) -> Sequence[Task]:
        return self.setting.tasks

    def open(self, out: str | Path | None, *, resume: bool, workers: int) -> RunStore:
        """The run's folder: `out`, or a new one below runs/. Raises as `RunStore.create` does."""
        folder = Path(out) if out else new_folder(Path("runs"), self.config["env"], self.agent.name)
        started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        facts = {"run": str(folder), "created": started, "workers": workers, "git_commit": _commit(), "versions": _versions()}
        return RunStore.create(folder, {**self.config, **facts}, resume=resume)

    def run(
        self, store: RunStore, *, workers: int, on_episode: Callable[[Episode], None] | None = None
    ) -> tuple[dict[str, Any], list[Episode]]:
        """Play what the folder does not hold yet; the whole run's settings and episodes.

        Faults that end the run are kept in `fault`, since the episodes played until then are there to be shown.
        """
        meter = Meter(self.limits)
        try:
            evaluate(
                self.setting, self.agent.strategy, self.model,
                tasks=self.tasks, store=store, workers=workers, epochs=self.epochs, seed=self.seed,
                meter=meter, on_episode=on_episode,
            )  # fmt: skip
        except (SandboxError, ModelError) as fault:
            self.fault = fault
        self.stopped = None if self.fault else meter.over()
        return {**self.config, "run": str(store.path)}, store.episodes()


def _hardness(tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    """How hard its data set calls each task (`hardness`, in BIRD `difficulty`), for the report; nothing where it does not."""
    named = {task.id: task.extra.get("hardness") or task.extra.get("difficulty") for task in tasks}
    found = {task: str(value) for task, value in named.items() if value}
    return {"hardness": found} if found else {}


def _versions() -> dict[str, str]:
    installed = {name: metadata.version(name) for name in ("intercode", "gymnasium", "openai")}
    return {"python": platform.python_version(), "kernel": platform.release(), **installed}


def _commit() -> str | None:
    """The commit of the folder in which the run was started, if it is a repository."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def new_folder(below: Path, env: str, agent: str) -> Path:
    """A folder that was not there, for this run alone: two that start in one second get two."""
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
            raise StoreError(f"{folder} cannot be made ({error}); choose another folder with --out") from error
    return folder
