"""Play episodes, or single steps, on a node: one host's process with environments that stay warm,
and threads.

    EpisodeHost.exchange(jobs) ──► queue ──► worker thread with a WarmEnv ──► episodes
                               ──► the answer of an exchange
    EnvHost.call(number, "step", action)    ──► the environment of that number
    EnvHost.play(number, task, …)           ──► a whole rollout there
                                                the trainer's process may sample

Sandboxes die with the process. Errors travel as values, so that an error of a call means that the
host is lost and nothing else.
"""

from __future__ import annotations

import itertools
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError, UsageError
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
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
WAIT = 1.0
"""Seconds that an exchange waits for a result."""


def as_value(error: BaseException) -> IntercodeError:
    """Return an error that can be pickled, whatever the caller's own code raised."""
    if isinstance(error, IntercodeError):
        return type(error)(str(error))
    if is_user_code(error) or not isinstance(error, Exception):
        words = [describe_error(error), *getattr(error, "__notes__", ())]
        return UsageError(f"code of yours raised {', '.join(words)}")
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
        self._options, self._threads = options, list[threading.Thread]()
        self._jobs = queue.SimpleQueue[tuple[str | Task, int] | None]()
        self._results = queue.SimpleQueue[Result]()

    def begin(self, workers: int, folder: Path | None) -> Any:
        """Plan, start the workers, and return the settings as this node sees them, to be compared
        with the driver's. `folder` is the run's, on the driver's machine."""
        try:
            self._evaluation = plan = Evaluation.plan(**self._options())
            self._folder = folder
            self._tasks = {task.id: task for task in plan.tasks}
            # the run's budget is the driver's
            self._tracker = BudgetTracker(replace(plan.limits, run=Budget()))
            if isinstance(plan.model, OpenAIModel):
                plan.model.give_up = self._tracker.stop_reason
            for number in range(workers):
                name = f"worker-{number}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
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
        results = []
        with suppress(queue.Empty):
            results.append(self._results.get(timeout=WAIT))
            while True:
                results.append(self._results.get_nowait())
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
                task, epoch = job
                if isinstance(task, str):
                    task = self._tasks[task]
                if self._tracker.stop_reason():
                    self._results.put((task.id, epoch))
                    continue
                try:
                    episode, _ = play_job(
                        env,
                        task,
                        plan.agent.strategy,
                        plan.model,
                        self._tracker,
                        epoch=epoch,
                        run_seed=plan.options.seed,
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
        self._prepare, self._envs = prepare, dict[int, InterCodeEnv]()
        self._trackers = dict[tuple[int, int], BudgetTracker]()
        """By the numbers of the environment and of its rollout."""
        self._numbers = itertools.count(1)

    def begin(self) -> Any:
        """Prepare, and return what influences results on this node and the tasks of each
        factory."""

        try:
            self._factories = self._prepare()
            return [(factory.facts(), factory.tasks) for factory in self._factories]
        except BaseException as error:
            return as_value(error)

    def open(self, factory: int) -> Any:
        """Make an environment that does not count turns, and return its number and the attributes
        that a loop reads."""

        try:
            env = self._factories[factory]()
            env.max_turns = None
            return self._number(env), {
                "protocol": env.protocol,
                "submission": env.submission,
                "language": env.language,
                "prompts": attribute_path(type(env), "prompts"),
            }
        except BaseException as error:
            return as_value(error)

    def call(
        self, number: int, method: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Return what a method returns, with the attributes that a reset changes, or the error; a
        fork is kept as a number."""

        try:
            env, attributes = self._envs[number], {}
            if method == "close":
                del self._envs[number]
            value = getattr(env, method)(*arguments, **options)
            if method == "reset":
                attributes = {
                    "takes_answer": env.takes_answer,
                    "takes_questions": env.takes_questions,
                    "no_value": env.no_value,
                }
            if method == "fork":
                value = self._number(value)
            return value, attributes
        except BaseException as error:
            return as_value(error)

    def play(
        self,
        rollout: tuple[int, int],
        task: Task,
        strategy: bytes,
        seed: int,
        values: bool,
        limits: RolloutLimits,
        policy: bytes | Callable[[Any], Any],
    ) -> Any:
        """Play a whole rollout; return the episode, or the fault, with the turns and the limit that
        cut it. `rollout` has the numbers of the environment and of its rollout. `strategy` is
        pickled, and so is `policy` if it is a model.

        Otherwise, `policy` sends a question to the trainer's process. Then episode and turns are
        returned as values of fields, without those that this process has already: see `LEFT_OUT`.
        """
        agent, turns = _unpickled(strategy), list[Turn]()
        tracker = self._trackers[rollout] = BudgetTracker(RunLimits(limits.turns))
        model: EpisodeSampler | RemoteModel
        if isinstance(policy, bytes):
            model = EpisodeSampler(Served(_unpickled(policy), limits), seed)
        else:
            model = RemoteModel(policy, tracker.stop)
        env = self._envs[rollout[0]]
        result: Any = None
        try:
            result = play(env, task, agent, model, tracker, seed=seed, turns=turns, values=values)
        except BaseException as error:
            result = as_value(error)
        del self._trackers[rollout]
        if isinstance(model, EpisodeSampler):
            return result, turns, model.cut
        if isinstance(result, Episode):
            result = values_of(result)
        return result, [(turn.ask is not None, values_of(turn)) for turn in turns], None

    def stop(self, rollout: tuple[int, int], why: str) -> None:
        """End a rollout within a turn, if it is played."""
        if tracker := self._trackers.get(rollout):
            tracker.stop(why)

    def end(self, seconds: float) -> None:
        """Close the environments."""
        for env in list(self._envs.values()):
            with suppress(Exception):
                env.close()

    def _number(self, env: InterCodeEnv) -> int:
        number = next(self._numbers)
        self._envs[number] = env
        return number


LEFT_OUT = {Reply: {"usage", "sample"}, Turn: {"ask", "usage", "sample"}, Episode: {"turns"}}
"""Fields that do not travel with a rollout that asks the trainer's process."""


def values_of(record: Reply | Turn | Episode) -> dict[str, Any]:
    """Return the values of the fields that travel; pickling dataclasses takes several times as
    long."""
    left_out = LEFT_OUT[type(record)]
    return {name: getattr(record, name) for name in record.__slots__ if name not in left_out}


class RemoteModel:
    """A model that the trainer's process asks, for one episode. Of each question, only the messages
    that the last one did not have are sent."""

    name = "policy"

    def __init__(self, ask: Callable[[Any], Any], stop: Callable[[str], None]) -> None:
        self._ask, self._stop, self._messages = ask, stop, list[Message]()

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        unchanged = 0
        for earlier, message in zip(self._messages, messages, strict=False):
            if earlier != message:
                break
            unchanged += 1
        self._messages = list(messages)
        reply, why = self._ask((unchanged, self._messages[unchanged:], tools, draw))
        if why:
            self._stop(why)
        if isinstance(reply, IntercodeError):
            raise reply
        return Reply(**reply)


@lru_cache(maxsize=8)
def _unpickled(content: bytes) -> Any:
    """Return the one object of this content, so that rollouts share a model's connections."""
    return pickle.loads(content)
