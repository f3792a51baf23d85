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
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Self

import cloudpickle

from intercode.envs import environment_class, prepare
from intercode.errors import IntercodeError, ModelError, SandboxError
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
from intercode.plugins import attribute_path
from intercode.runs.store import differing_settings
from intercode.train.cluster.base import Lost
from intercode.train.cluster.host import EnvHost, values_of
from intercode.train.cluster.hosts import NodeHost, NodeHosts
from intercode.train.cluster.shipping import TRAVELLING, Shipment, pack, unpack
from intercode.train.jobs import Order
from intercode.types import Episode, Message, Task, Turn


class HostLost(SandboxError):
    """A host, or its node, was lost with its environments."""


class HostEnvs:
    """Hosts that prepare the same factories, and make environments of them."""

    prompts: str | None = None
    """A folder of this machine, for environments of another one."""

    def __init__(
        self, on: str | int, prepare: Callable[[], Callable[[], Sequence[EnvFactory]]], calls: int
    ) -> None:
        """`prepare` returns a function that each host calls, and may itself use the cluster. Raises
        `SandboxError` if no host can play."""
        self._facts: list[dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self.answers_questions = isinstance(on, int)
        self.here: Sequence[Callable[[], Any]] = ()
        """The factories, if this process can play, too, while no host can."""
        self.hosts = NodeHosts(
            on, EnvHost, prepare, NodeHost, self._refuse, calls, return_later=True
        )
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
            self.hosts.close()

    def places(self) -> dict[str, int]:
        """Return the number of environments on each node that has any."""
        with self._lock:
            return {host.node.name: host.envs for host in self.hosts if host.envs}

    def benched(self) -> int:
        """Return how many hosts cannot play now, after faults in a row."""
        with self._lock:
            self.hosts.look()
            return sum(host.benched is not None for host in self.hosts)

    def make(self, factory: int = 0) -> Any:
        """Make an environment on the host with the fewest, or in this process if no host can play.
        Raises `SandboxError` if none can."""
        while True:  # until a host answers
            try:
                return HostEnv(self, factory)
            except HostLost:
                continue
            except SandboxError as error:
                if not self.here:
                    raise
                warnings.warn(f"an environment plays in this process: {error}", stacklevel=2)
                return self.here[factory]()

    def free_host(self, current: NodeHost | None = None, actor: Any = None) -> NodeHost:
        """Return the host with the fewest environments, after adding one there; or `current`, if
        its actor is still `actor` and no host has two fewer. Waits while hosts start. Raises
        `SandboxError` if no host can play."""
        while True:
            with self._lock:
                ready = self.hosts.look()
                if ready:
                    least = min(ready, key=lambda host: host.envs)
                    most = least.envs + 1
                    if current in ready and current.actor is actor and current.envs <= most:
                        return current
                    least.envs += 1
                    return least
                if why := self.hosts.why_none():
                    raise SandboxError(f"no host can play ({why})")
            time.sleep(0.05)

    def actor_of(self, host: NodeHost) -> Any:
        """Return the actor of a host. Raises `HostLost` if another thread saw it end: the actor
        that takes its place has not prepared yet."""
        with self._lock:
            if not host.ready:
                raise HostLost(f"the host on {host.node.name} was lost")
            return host.actor

    def count(self, host: NodeHost, change: int) -> None:
        """Add to the number of a host's environments."""
        with self._lock:
            host.envs += change

    def result(self, host: NodeHost, actor: Any, call: Any) -> Any:
        """Return the answer to a call of a host's actor, or raise it if it is an error. A lost host
        is a `SandboxError`."""
        try:
            answer = self.hosts.cluster.result(call)
        except Lost as error:
            with self._lock:
                if host.actor is actor:
                    self.hosts.lose(host, str(error))
            raise HostLost(f"the host on {host.node.name} was lost: {error}") from error
        if isinstance(answer, IntercodeError):
            raise answer
        host.note_success()
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

    protocol: str

    def __init__(self, owner: HostEnvs, factory: int) -> None:
        self._owner, self._factory, self._rollouts = owner, factory, itertools.count()
        self._open(owner.free_host())

    def _open(self, host: NodeHost) -> None:
        self._host, self._closed = host, True
        try:
            self._actor = self._owner.actor_of(host)
            self._number, attributes = self._ask("open", self._factory)
        except BaseException:
            self._owner.count(host, -1)
            raise
        vars(self).update(attributes)
        self.prompts: str | None = self._owner.prompts or attributes["prompts"]
        self.takes_answer = self.takes_questions = self._closed = False
        self.no_value = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._move()
        return self._call("reset", seed=seed, options=options)

    def _move(self) -> None:
        """Move to another host if this one has too many environments, or was lost."""
        host = self._owner.free_host(self._host, self._actor)
        if host is not self._host or host.actor is not self._actor:
            with suppress(SandboxError):
                self.close()
            self._open(host)

    def step(self, action: str) -> Any:
        return self._call("step", action)

    def outcomes(self) -> Any:
        return self._call("outcomes")

    def value(self) -> Any:
        return self._call("value")

    def play_rollout(self, order: Order) -> Episode:
        """Play a rollout; in the host, if it can be."""
        strategy, sampler = order.strategy, order.sampler
        is_served = type(sampler.inner) is OpenAIModel
        if not getattr(strategy, "__module__", "").startswith("intercode.") or not (
            is_served or self._owner.answers_questions
        ):
            return order.play_here(self)
        self._move()
        rollout = self._number, next(self._rollouts)
        arguments = (
            *("play", rollout, order.task, _pickled(strategy)),
            *(order.seed, order.values, sampler.limits),
        )

        def stop() -> None:
            if why := order.tracker.stop_reason():
                self._actor.call("stop", rollout, why)

        if is_served:
            call = self._actor.call(*arguments, _pickled(sampler.inner))
            while not self._owner.hosts.cluster.wait([call], 1.0):
                stop()
            result, turns, sampler.cut = self._owner.result(self._host, self._actor, call)
            order.turns.extend(turns)
        else:
            result = self._answer(order, self._actor.call(*arguments, asks=True), stop)
        if isinstance(result, IntercodeError):
            raise result
        episode: Episode = result
        return episode

    def _answer(self, order: Order, call: Any, stop: Callable[[], None]) -> Any:
        """Answer the questions of a rollout of which this process has the model. Return the
        episode, or the fault."""
        messages, asked = list[Message](), list[tuple[Message, ...]]()
        failure: BaseException | None = None
        while True:
            try:
                question = call.questions.get(timeout=1.0)
            except queue.Empty:
                stop()
                continue
            if question is None:  # the rollout has ended
                break
            unchanged, new, tools, draw = question
            messages = [*messages[:unchanged], *new]
            asked.append(tuple(messages))
            try:
                answer = order.sampler.complete(messages, tools=tools, draw=draw)
                reply: Any = values_of(answer)
            except BaseException as error:
                failure, reply = error, ModelError(f"the model raised {error!r:.300}")
            self._actor.answer(call, (reply, order.tracker.stop_reason()))
        result, log, _ = self._owner.result(self._host, self._actor, call)
        questions = zip(asked, order.sampler.replies, strict=False)
        for has_question, values in log:
            if has_question:
                ask, answer = next(questions)
                values |= {"ask": ask, "usage": answer.usage, "sample": answer.sample}
            order.turns.append(Turn(**values))
        if failure:
            raise failure
        if isinstance(result, IntercodeError):
            return result
        return Episode(turns=tuple(order.turns), **result)

    def fork(self, *, replay: bool = False) -> Self:
        fork = copy.copy(self)
        fork._number = self._call("fork", replay=replay)
        self._owner.count(self._host, 1)
        return fork

    def close(self) -> None:
        """End the environment. May be called twice."""
        if not self._closed:
            self._closed = True
            self._owner.count(self._host, -1)
            self._call("close")

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self._owner.result(self._host, self._actor, self._actor.call(method, *arguments))

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return what a method returns, and take over the attributes that it changes."""
        value, attributes = self._ask("call", self._number, method, arguments, options)
        vars(self).update(attributes)
        return value


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

    def __call__(self) -> HostEnv:
        """Make an environment. Raises `SandboxError` if no node can."""
        env: HostEnv = self.make()
        return env


def _prepare_shipped(shipment: Shipment) -> list[EnvFactory]:
    return [prepare(**unpack(shipment))]


def spread(factories: Sequence[Callable[[], Any]], hosts: int, calls: int) -> HostEnvs | None:
    """Return the environments of factories in that many processes of this machine, which answer
    that many calls at once; None, with a warning, if these processes cannot prepare them."""
    try:
        for factory in factories:
            if not isinstance(factory, EnvFactory):
                raise TypeError(f"{factory!r:.50} is not a factory of intercode.prepare")
        prepare = partial(pickle.loads, cloudpickle.dumps(list(factories)))
        envs = HostEnvs(hosts, lambda: prepare, calls)
        envs.here = factories
        return envs
    except Exception as error:
        warnings.warn(
            f"the environments stay in this process, since others cannot prepare them: {error}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


@lru_cache(maxsize=8)
def _pickled(thing: Any) -> bytes:
    content: bytes = cloudpickle.dumps(thing)
    return content
