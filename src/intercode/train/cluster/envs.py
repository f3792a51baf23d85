"""Environments in other processes, for a `RolloutPool` in the trainer's process: on the nodes of a
Ray cluster, or in several processes of this machine.

    pool's thread ── reset, step, fork, close ──► host ──► environment with its sandbox
    policy and tokens stay here  ├── lost host: SandboxError, the rollout is played again on another
                                 └── at a reset: moves to a host that has fewer

An agent of intercode's own plays the whole rollout in the host if the model is a server, and only
the episode comes back. Another model stays here: a process of this machine sends it the questions
of the rollout that it plays; a node of a cluster sends each step. An agent of the caller's stays
here as well, since it may need modules that a node lacks, or keep something in this process.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Self

import cloudpickle

from intercode.agents import Strategy
from intercode.env import EnvFactory
from intercode.envs import environment_class, prepare
from intercode.errors import IntercodeError, ModelError, SandboxError
from intercode.models import OpenAIModel
from intercode.plugins import attribute_path
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.runs.store import differing_settings
from intercode.train.cluster.base import Lost
from intercode.train.cluster.host import OF_TASK, EnvHost, values_of
from intercode.train.cluster.hosts import NodeHost, NodeHosts
from intercode.train.cluster.processes import Call
from intercode.train.cluster.shipping import TRAVELLING, Shipment, pack, unpack
from intercode.train.sampling import EpisodeSampler
from intercode.types import Episode, Message, Task, Turn


class HostLost(SandboxError):
    """A host, or its node, was lost with its environments."""


@dataclass(slots=True)
class _Host(NodeHost):
    """`envs` counts the environments on it."""

    envs: int = 0


class HostEnvs(AbstractContextManager["HostEnvs"]):
    """Hosts that prepare the same factories, and make environments of them."""

    def __init__(
        self, on: str | int, prepare: Callable[[], Callable[[], Sequence[EnvFactory]]], calls: int
    ) -> None:
        """`prepare` returns a function that each host calls, and may itself use the cluster. Raises
        `SandboxError` if no host can play."""
        self._facts: list[dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self._hosts = NodeHosts(on, _Host, lambda: (EnvHost, (prepare(),), calls), self._refuse)
        try:
            self.count(self.free_host(), -1)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End the hosts and their environments. May be called twice."""
        with self._lock:
            self._hosts.close()

    def places(self) -> dict[str, int]:
        """Return the number of environments on each node that has any."""
        with self._lock:
            return {host.node.name: host.envs for host in self._hosts if host.envs}

    def free_host(self, current: _Host | None = None, actor: Any = None) -> _Host:
        """Return the host with the fewest environments, after adding one there; or `current`, if
        its actor is still `actor` and no host has two fewer. Waits while hosts start. Raises
        `SandboxError` if no host can play."""
        while True:
            with self._lock:
                ready = self._hosts.look()
                least = min(ready, key=lambda host: host.envs, default=None)
                stays = current in ready and current and current.actor is actor
                if current and stays and least and current.envs <= least.envs + 1:
                    return current
                if least:
                    least.envs += 1
                    return least
                if why := self._hosts.why_none():
                    raise SandboxError(f"no host can play ({why})")
            time.sleep(0.05)

    def actor_of(self, host: _Host) -> Any:
        """Return the actor of a host. Raises `HostLost` if another thread saw it end: the actor
        that takes its place has not prepared yet."""
        with self._lock:
            if not host.ready:
                raise HostLost(f"the host on {host.node.name} was lost")
            return host.actor

    def count(self, host: _Host, change: int) -> None:
        """Add to the number of a host's environments."""
        with self._lock:
            host.envs += change

    def ask(
        self,
        host: _Host,
        actor: Any,
        method: str,
        *arguments: Any,
        meanwhile: Callable[[], object] | None = None,
    ) -> Any:
        """Return the answer of a host's actor, or raise it if it is an error. A lost host is a
        `SandboxError`. `meanwhile` is called each second."""
        call = actor.call(method, *arguments)
        while meanwhile and not self._hosts.cluster.wait([call], 1.0):
            meanwhile()
        return self.result(host, actor, call)

    def result(self, host: _Host, actor: Any, call: Any) -> Any:
        """Return the answer to a call, as `ask` does."""
        try:
            answer = self._hosts.cluster.result(call)
        except Lost as error:
            with self._lock:
                if host.actor is actor:
                    self._hosts.lose(host, str(error))
            raise HostLost(f"the host on {host.node.name} was lost: {error}") from error
        if isinstance(answer, IntercodeError):
            raise answer
        host.in_a_row = 0
        return answer

    def _refuse(self, begun: list[tuple[dict[str, Any], Sequence[Task]]]) -> str | None:
        """Return in which settings a host differs from the first one."""
        facts = [facts for facts, _ in begun]
        if self._facts is None:
            self._facts, self.tasks = facts, begun[0][1]
        for first, other in zip(self._facts, facts, strict=True):
            if wrong := differing_settings(first, other, TRAVELLING):
                return f"it differs from the first host ({', '.join(wrong.values())})"
        return None


class HostEnv:
    """An environment in a host, as `episode.play` needs it."""

    def __init__(self, owner: HostEnvs, factory: int, host: _Host) -> None:
        self._owner, self._factory, self._rollouts = owner, factory, itertools.count()
        self._open(host)

    @classmethod
    def make(cls, owner: HostEnvs, factory: int = 0) -> Self:
        """Make an environment on the host with the fewest. Raises `SandboxError` if none can."""
        while True:  # until a host answers
            with suppress(HostLost):
                return cls(owner, factory, owner.free_host())

    def _open(self, host: _Host) -> None:
        self._host, self._closed = host, True
        try:
            self._actor = self._owner.actor_of(host)
            self._number, attributes = self._owner.ask(host, self._actor, "open", self._factory)
        except BaseException:
            self._owner.count(host, -1)
            raise
        self.protocol: str = attributes["protocol"]
        self.submission, self.language = attributes["submission"], attributes["language"]
        self.prompts: str | None = attributes["prompts"]
        self.takes_answer, self.takes_questions = False, False
        self.no_value, self._closed = "", False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self._move()
        (observation, info), attributes = self._call("reset", seed=seed, options=options)
        for name in OF_TASK:
            setattr(self, name, attributes[name])
        return observation, info

    def _move(self) -> None:
        """Move to another host if this one has too many environments, or was lost."""
        host = self._owner.free_host(self._host, self._actor)
        if host is not self._host or host.actor is not self._actor:
            with suppress(SandboxError):
                self.close()
            self._open(host)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._call("step", action)[0]
        return observation, reward, terminated, truncated, info

    def outcomes(self) -> dict[str, Any]:
        outcomes: dict[str, Any] = self._call("outcomes")[0]
        return outcomes

    def value(self) -> float | None:
        value: float | None = self._call("value")[0]
        return value

    def play_rollout(
        self,
        task: Task,
        strategy: Strategy,
        sampler: EpisodeSampler,
        tracker: BudgetTracker,
        *,
        seed: int,
        turns: list[Turn],
        values: bool = False,
    ) -> Episode:
        """Play a rollout as `episode.play` does; in the host, if it can be."""
        facts: dict[str, Any] = {"seed": seed, "values": values}
        if not getattr(strategy, "__module__", "").startswith("intercode."):
            return play(self, task, strategy, sampler, tracker, turns=turns, **facts)
        model = getattr(sampler.source, "model", None)
        if type(model) is not OpenAIModel:
            return self._play_asking(task, strategy, sampler, tracker, turns, facts)

        self._move()
        rollout = self._number, next(self._rollouts)

        def stop() -> None:
            if why := tracker.stop_reason():
                self._actor.call("stop", rollout, why)

        arguments = (task, _pickled(strategy), _pickled(model), sampler.limits, seed, values)
        result, log, sampler.cut = self._owner.ask(
            self._host, self._actor, "play", rollout, *arguments, meanwhile=stop
        )
        turns += log
        if isinstance(result, IntercodeError):
            raise result
        episode: Episode = result
        return episode

    def _play_asking(
        self,
        task: Task,
        strategy: Strategy,
        sampler: EpisodeSampler,
        tracker: BudgetTracker,
        turns: list[Turn],
        facts: dict[str, Any],
    ) -> Episode:
        """Play a rollout of which this process has the model."""
        return play(self, task, strategy, sampler, tracker, turns=turns, **facts)

    def fork(self, *, replay: bool = False) -> Self:
        fork = copy.copy(self)
        fork._number, _ = self._call("fork", replay=replay)
        self._owner.count(self._host, 1)
        return fork

    def close(self) -> None:
        """End the environment. May be called twice."""
        if not self._closed:
            self._closed = True
            self._owner.count(self._host, -1)
            self._call("close")

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._owner.ask(
            self._host, self._actor, "call", self._number, method, arguments, options
        )


class RayEnv(HostEnv):
    """An environment on a node."""

    _owner: RayEnvs

    def _open(self, host: _Host) -> None:
        super()._open(host)
        self.prompts = self._owner.prompts  # a folder of this machine


class RayEnvs(HostEnvs):
    """A factory of environments for `RolloutPool`, with the options of `intercode.prepare`. Close
    the pool first, then this.

        with (
            RayEnvs("bash", data="tasks", on="ray://head:10001") as factory,
            RolloutPool(factory, "try_again", envs=256) as pool,
        ):
            ...

    Each call makes an environment on the node that has the fewest; at a reset, one moves to a node
    that has at least two fewer, such as one that joined. Only the nodes need a sandbox.
    """

    def __init__(self, env: str, *, on: str = "ray", calls: int = 512, **options: Any) -> None:
        """At most `calls` steps are taken, or rollouts played, at once on a node. Raises
        `SandboxError` if no node can play."""
        env_class = environment_class(env)
        self.prompts = attribute_path(env_class, "prompts")
        shipped = {"env": env, **options}
        super().__init__(on, lambda: partial(_prepare_shipped, pack(shipped, env_class)), calls)

    def __call__(self) -> RayEnv:
        """Make an environment. Raises `SandboxError` if no node can."""
        return RayEnv.make(self)


def _prepare_shipped(shipment: Shipment) -> list[EnvFactory]:
    return [prepare(**unpack(shipment))]


class ProcessEnv(HostEnv):
    """An environment in a process of this machine, which asks this process during a rollout."""

    def _play_asking(
        self,
        task: Task,
        strategy: Strategy,
        sampler: EpisodeSampler,
        tracker: BudgetTracker,
        turns: list[Turn],
        facts: dict[str, Any],
    ) -> Episode:
        self._move()
        actor, most = self._actor, tracker.limits.turns
        rollout = self._number, next(self._rollouts)
        arguments = (rollout, task, _pickled(strategy), most, facts)
        call = actor.call("play_asking", *arguments, asks=True)
        messages, asked = list[Message](), list[tuple[Message, ...]]()
        failure: BaseException | None = None
        while question := self._question(rollout, call, tracker):
            known, new, tools, draw = question
            messages = [*messages[:known], *new]
            asked.append(tuple(messages))
            try:
                reply: Any = values_of(sampler.complete(messages, tools=tools, draw=draw))
            except BaseException as error:
                failure, reply = error, ModelError(f"the model raised {error!r:.300}")
            actor.answer(call, (reply, tracker.stop_reason()))
        result, log = self._owner.result(self._host, actor, call)
        questions = zip(asked, sampler.replies, strict=False)
        for has_question, values in log:
            if has_question:
                ask, answer = next(questions)
                values |= {"ask": ask, "usage": answer.usage, "sample": answer.sample}
            turns.append(Turn(**values))
        if failure:
            raise failure
        if isinstance(result, IntercodeError):
            raise result
        return Episode(turns=tuple(turns), **result)

    def _question(self, rollout: tuple[int, int], call: Call, tracker: BudgetTracker) -> Any:
        """Return the next question of a rollout, or None when it has ended; stop it if the tracker
        says so."""
        while True:
            try:
                return call.questions.get(timeout=1.0)
            except queue.Empty:
                if why := tracker.stop_reason():
                    self._actor.call("stop", rollout, why)


class ProcessEnvs(HostEnvs):
    """Several factories of `intercode.prepare` in processes of this machine; `factories` are their
    counterparts here."""

    def __init__(self, contents: Sequence[bytes], hosts: int, calls: int) -> None:
        """`contents` are the factories, pickled."""
        super().__init__(hosts, lambda: partial(_prepare_pickled, contents), calls)
        self.factories = [partial(ProcessEnv.make, self, at) for at in range(len(contents))]


def _prepare_pickled(contents: Sequence[bytes]) -> list[EnvFactory]:
    return [pickle.loads(content) for content in contents]


def spread(factories: Sequence[Callable[[], Any]], hosts: int, calls: int) -> ProcessEnvs | None:
    """Return the environments of factories in that many processes of this machine, which answer
    that many calls at once; None, with a warning, if these processes cannot prepare them."""
    try:
        return ProcessEnvs([_content(factory) for factory in factories], hosts, calls)
    except Exception as error:
        warnings.warn(
            f"the environments stay in this process, since others cannot prepare them: {error}",
            RuntimeWarning,
            stacklevel=4,
        )
        return None


def _content(factory: Callable[[], Any]) -> bytes:
    if not isinstance(factory, EnvFactory):
        raise TypeError(f"{factory!r:.50} is not a factory of intercode.prepare")
    content: bytes = cloudpickle.dumps(factory)
    return content


@lru_cache(maxsize=8)
def _pickled(thing: Any) -> bytes:
    content: bytes = cloudpickle.dumps(thing)
    return content
