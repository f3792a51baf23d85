"""Play episodes, or single steps, on a node: one host's process with environments that stay warm,
and threads.

    EpisodeHost.exchange(jobs) ──► queue ──► worker thread with a WarmEnv ──► episodes
                               ──► the answer of an exchange
    EnvHost.call(number, "step", action)    ──► the environment of that number
    EnvHost.play(number, task, …)           ──► a whole rollout there
    EnvHost.play_asking(number, task, …)    ──► the same, but the trainer's process samples

Sandboxes die with the process. Errors travel as values, so that an error of a call means that the
host is lost and nothing else.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from intercode.env import EnvFactory, InterCodeEnv
from intercode.errors import IntercodeError, UsageError
from intercode.models import Model, OpenAIModel
from intercode.plugins import attribute_path, describe_error, fault_of, is_user_code
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.episode import play
from intercode.runner.run import play_job
from intercode.runner.warm_env import WarmEnv
from intercode.runs.evaluation import Evaluation
from intercode.train.sampling import EpisodeSampler, RolloutLimits, Served
from intercode.types import Episode, Message, Reply, Task, Tool, Turn, Usage

Key = tuple[str, int]
"""A task's id and an epoch."""
Result = Episode | Key | IntercodeError | Usage
"""A finished episode; a job that was not begun, because the run stops; the mistake that ends the
run; or what the replies since the last exchange used."""
Value = TypeVar("Value")
OF_TASK = ("takes_answer", "takes_questions", "no_value")
"""Attributes of an environment that depend on its task."""
WAIT = 1.0
"""Seconds that an exchange waits for a result."""


def as_value(error: BaseException) -> IntercodeError:
    """Return an error that can be pickled, whatever the caller's own code raised."""
    if isinstance(error, IntercodeError):
        return type(error)(str(error))
    if is_user_code(error) or not isinstance(error, Exception):
        notes = getattr(error, "__notes__", ())
        return UsageError(f"code of yours raised {', '.join((describe_error(error), *notes))}")
    return fault_of(error)


def end_with_parent() -> None:
    """End this process when its parent has ended, which may have been killed: Ray's own process on
    the node, or the trainer's."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WAIT)
        os._exit(1)

    threading.Thread(target=watch, name="intercode-parent", daemon=True).start()


class EpisodeHost:
    """Plays whole episodes of one evaluation, which it plans anew from the driver's options."""

    def __init__(self, options: Callable[[], dict[str, Any]]) -> None:
        end_with_parent()
        self._options = options
        self._threads: list[threading.Thread] = []
        self._jobs: queue.SimpleQueue[tuple[str | Task, int] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def begin(self, workers: int, folder: Path | None) -> dict[str, Any] | IntercodeError:
        """Plan, start the workers, and return the settings as this node sees them, to be compared
        with the driver's. `folder` is the run's, on the driver's machine."""
        try:
            self._evaluation = plan = Evaluation.plan(**self._options())
            self._folder = folder
            self._tasks: dict[str, Task] = {task.id: task for task in plan.tasks}
            # the run's budget is the driver's
            self._tracker = BudgetTracker(replace(plan.limits, run=Budget()))
            if isinstance(plan.model, OpenAIModel):
                plan.model.give_up = self._tracker.stop_reason
            for number in range(workers):
                self._threads.append(
                    threading.Thread(target=self._work, name=f"worker-{number}", daemon=True)
                )
                self._threads[-1].start()
            return plan.config
        except BaseException as error:
            return as_value(error)

    def exchange(self, jobs: Sequence[tuple[str | Task, int]], stop: str | None) -> list[Result]:
        """Queue jobs, and return the results since the last exchange, and what was used; wait a
        second for a result if there is none. A job's task, if it is not an id, replaces the plan's.

        `stop` ends the episodes that are played within a turn.
        """
        if stop:
            self._tracker.stop(stop)
        for job in jobs:
            self._jobs.put(job)
        results = list[Result]()
        try:
            results.append(self._results.get(timeout=WAIT))
            while True:
                results.append(self._results.get_nowait())
        except queue.Empty:
            return [*results, self._tracker.take()]

    def end(self, seconds: float) -> None:
        """Close the environments of workers that stop in time, which also removes what does not die
        with this process."""
        if self._threads:
            self._tracker.stop("the driver ended the run")
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        plan = self._evaluation
        with closing(WarmEnv(plan.factory)) as env:
            while (job := self._jobs.get()) is not None:
                task = self._tasks[job[0]] if isinstance(job[0], str) else job[0]
                epoch = job[1]
                if self._tracker.stop_reason():
                    self._results.put((task.id, epoch))
                    continue
                try:
                    strategy, run_seed = plan.agent.strategy, plan.options.seed
                    episode, _ = play_job(
                        env,
                        task,
                        strategy,
                        plan.model,
                        self._tracker,
                        epoch=epoch,
                        run_seed=run_seed,
                        folder=self._folder,
                        values=plan.config["values"],
                    )
                    self._results.put(episode)
                except BaseException as error:
                    self._results.put(as_value(error))


class EnvHost:
    """Holds environments that a trainer drives step by step."""

    def __init__(self, prepare: Callable[[], Sequence[EnvFactory]]) -> None:
        end_with_parent()
        self._prepare = prepare
        self._envs: dict[int, InterCodeEnv] = {}
        self._trackers: dict[tuple[int, int], BudgetTracker] = {}
        """By the numbers of the environment and of its rollout."""
        self._next, self._lock = 0, threading.Lock()

    def begin(self) -> list[tuple[dict[str, Any], Sequence[Task]]] | IntercodeError:
        """Prepare, and return what influences results on this node and the tasks of each
        factory."""

        def prepare() -> list[tuple[dict[str, Any], Sequence[Task]]]:
            self._factories = self._prepare()
            return [(factory.facts(), factory.tasks) for factory in self._factories]

        return _answer(prepare)

    def open(self, factory: int) -> tuple[int, dict[str, Any]] | IntercodeError:
        """Make an environment that does not count turns, and return its number and the attributes
        that a loop reads."""

        def make() -> tuple[int, dict[str, Any]]:
            env = self._factories[factory]()
            env.max_turns = None
            attributes = {
                name: getattr(env, name) for name in ("protocol", "submission", "language")
            }
            return self._keep(env), {**attributes, "prompts": attribute_path(type(env), "prompts")}

        return _answer(make)

    def call(
        self, number: int, method: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Return what a method returns, with the attributes that a reset changes, or the error; a
        fork is kept as a number."""

        def call_it() -> tuple[Any, dict[str, Any]]:
            env = self._envs.pop(number) if method == "close" else self._envs[number]
            value = getattr(env, method)(*arguments, **options)
            changed = OF_TASK if method == "reset" else ()
            attributes = {name: getattr(env, name) for name in changed}
            return self._keep(value) if method == "fork" else value, attributes

        return _answer(call_it)

    def play(
        self,
        rollout: tuple[int, int],
        task: Task,
        strategy: bytes,
        model: bytes,
        limits: RolloutLimits,
        seed: int,
        values: bool,
    ) -> Any:
        """Play a whole rollout; return the episode, or the fault, with the turns and the limit that
        cut it. `rollout` has the numbers of the environment and of its rollout. `strategy` and
        `model` are pickled."""
        sampler = EpisodeSampler(Served(_unpickled(model)), limits, seed)
        facts: dict[str, Any] = {"seed": seed, "values": values}
        episode, turns = self._play(rollout, task, strategy, sampler, limits.turns, facts)
        return episode, turns, sampler.cut

    def play_asking(
        self,
        rollout: tuple[int, int],
        task: Task,
        strategy: bytes,
        most: int,
        facts: dict[str, Any],
        ask: Callable[[Any], Any],
    ) -> Any:
        """Play a whole rollout with at most that many turns; `ask` sends a question to the
        trainer's process. Return the episode, or the fault, and the turns, as values of fields
        without those that this process has already: see `LEFT_OUT`."""
        model = RemoteModel(ask, lambda why: self.stop(rollout, why))
        episode, turns = self._play(rollout, task, strategy, model, most, facts)
        asked = [turn.ask is not None for turn in turns]
        result = values_of(episode) if isinstance(episode, Episode) else episode
        return result, list(zip(asked, map(values_of, turns), strict=True))

    def _play(
        self,
        rollout: tuple[int, int],
        task: Task,
        strategy: bytes,
        model: Model,
        most: int,
        facts: dict[str, Any],
    ) -> tuple[Episode | IntercodeError, list[Turn]]:
        agent, turns = _unpickled(strategy), list[Turn]()
        tracker = self._trackers[rollout] = BudgetTracker(RunLimits(most))
        env = self._envs[rollout[0]]
        episode = _answer(lambda: play(env, task, agent, model, tracker, turns=turns, **facts))
        del self._trackers[rollout]
        return episode, turns

    def stop(self, rollout: tuple[int, int], why: str) -> None:
        """End a rollout within a turn, if it is played."""
        if tracker := self._trackers.get(rollout):
            tracker.stop(why)

    def end(self, seconds: float) -> None:
        """Close the environments."""
        for env in list(self._envs.values()):
            with suppress(Exception):
                env.close()

    def _keep(self, env: InterCodeEnv) -> int:
        with self._lock:
            self._next += 1
            self._envs[self._next] = env
            return self._next


LEFT_OUT = {Reply: {"usage", "sample"}, Turn: {"ask", "usage", "sample"}, Episode: {"turns"}}
"""Fields that do not travel with a rollout that asks the trainer's process."""
_NAMES = {
    kind: [field.name for field in fields(kind) if field.name not in left_out]
    for kind, left_out in LEFT_OUT.items()
}


def values_of(record: Reply | Turn | Episode) -> dict[str, Any]:
    """Return the values of the fields that travel; pickling dataclasses takes several times as
    long."""
    return {name: getattr(record, name) for name in _NAMES[type(record)]}


@dataclass
class RemoteModel:
    """A model that the trainer's process asks, for one episode. Of each question, only the messages
    that the last one did not have are sent."""

    ask: Callable[[Any], Any]
    stop: Callable[[str], None]
    name: str = "policy"
    messages: list[Message] = field(default_factory=list)

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        pairs = zip(self.messages, messages, strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.messages = list(messages)
        reply, why = self.ask((known, self.messages[known:], tools, draw))
        if why:
            self.stop(why)
        if isinstance(reply, IntercodeError):
            raise reply
        return Reply(**reply)


@lru_cache(maxsize=8)
def _unpickled(content: bytes) -> Any:
    """Return the one object of this content, so that rollouts share a model's connections."""
    return pickle.loads(content)


def _answer(work: Callable[[], Value]) -> Value | IntercodeError:
    try:
        return work()
    except BaseException as error:
        return as_value(error)
