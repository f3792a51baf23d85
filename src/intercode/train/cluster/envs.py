"""Environments on the nodes of a Ray cluster, for a `RolloutPool` in the trainer's process.

    pool's thread ── reset, step, fork, close ──► host of a node ──► environment with its sandbox
    strategy, policy and tokens stay here  ├── lost host: SandboxError, the rollout is
                                           │   played again on another
                                           └── at a reset: moves to a node that has fewer

Each step travels to the node and back, unless the model is a server: then the node plays the whole
rollout, and only its episode comes back.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from intercode.agents import Strategy
from intercode.envs import environment_class
from intercode.errors import IntercodeError, SandboxError
from intercode.models import OpenAIModel
from intercode.plugins import attribute_path
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.runs.store import differing_settings
from intercode.train.cluster.host import OF_TASK, EnvHost
from intercode.train.cluster.hosts import NodeHost, NodeHosts
from intercode.train.cluster.nodes import why_lost
from intercode.train.cluster.shipping import TRAVELLING, Shipment, pack
from intercode.train.sampling import EpisodeSampler
from intercode.types import Episode, Task, Turn


class HostLost(SandboxError):
    """A host, or its node, was lost with its environments."""


@dataclass(slots=True)
class _Host(NodeHost):
    """`envs` counts the environments on it."""

    envs: int = 0


class RayEnvs(AbstractContextManager["RayEnvs"]):
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
        self.tasks: Sequence[Task] = ()
        self._facts: dict[str, Any] | None = None
        self._lock = threading.Lock()

        def start() -> tuple[type, tuple[Shipment], int]:
            return EnvHost, (pack({"env": env, **options}, env_class),), calls

        self._hosts = NodeHosts(on, _Host, start, self._refuse)
        try:
            self.count(self.free_host(), -1)
        except BaseException:
            self.close()
            raise

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End the hosts and their environments. May be called twice."""
        self._hosts.close()

    def __call__(self) -> RayEnv:
        """Make an environment. Raises `SandboxError` if no node can."""
        while True:  # until a host answers
            try:
                return RayEnv(self, self.free_host())
            except HostLost:
                continue

    def places(self) -> dict[str, int]:
        """Return the number of environments on each node that has any."""
        with self._lock:
            return {host.node.name: host.envs for host in self._hosts if host.envs}

    def free_host(self, current: _Host | None = None, actor: Any = None) -> _Host:
        """Return the host with the fewest environments, after adding one there; or `current`, if
        its actor is still `actor` and no host has two fewer. Waits while hosts start. Raises
        `SandboxError` if no node can play."""
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
                    raise SandboxError(f"no node can play ({why})")
            time.sleep(0.05)

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
        import ray

        call = getattr(actor, method).remote(*arguments)
        try:
            while meanwhile and not ray.wait([call], timeout=1)[0]:
                meanwhile()
            answer = ray.get(call)
        except Exception as error:
            if (why := why_lost(error)) is None:
                raise
            with self._lock:
                if host.actor is actor:
                    self._hosts.lose(host, why)
            raise HostLost(f"the host on node {host.node.name} was lost: {why}") from error
        if isinstance(answer, IntercodeError):
            raise answer
        host.in_a_row = 0
        return answer

    def _refuse(self, begun: tuple[dict[str, Any], Sequence[Task]]) -> str | None:
        """Return in which settings a host differs from the first one."""
        facts, tasks = begun
        if self._facts is None:
            self._facts, self.tasks = facts, tasks
        wrong = differing_settings(self._facts, facts, TRAVELLING)
        return f"it differs from the first node ({', '.join(wrong.values())})" if wrong else None


class RayEnv:
    """An environment on a node, as `episode.play` needs it."""

    def __init__(self, owner: RayEnvs, host: _Host) -> None:
        self._owner, self.prompts = owner, owner.prompts
        self._open(host)

    def _open(self, host: _Host) -> None:
        self._host, self._actor, self._closed = host, host.actor, True
        try:
            self._number, attributes = self._owner.ask(host, self._actor, "open")
        except BaseException:
            self._owner.count(host, -1)
            raise
        self.protocol, self.submission, self.language = (
            attributes[name] for name in ("protocol", "submission", "language")
        )
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
        """Play a rollout as `episode.play` does: on the node, if the model is a server and the
        agent one of intercode's; else step by step, since an agent of the caller may need modules
        that the node lacks, or keep something in this process."""

        def stop() -> None:
            if why := tracker.stop_reason():
                self._actor.stop.remote(self._number, why)

        model = getattr(sampler.source, "model", None)
        known = getattr(strategy, "__module__", "").startswith("intercode.")
        if type(model) is not OpenAIModel or not known:
            return play(
                self, task, strategy, sampler, tracker, seed=seed, turns=turns, values=values
            )
        self._move()
        arguments = (task, _pickled(strategy), _pickled(model), sampler.limits, seed, values)
        result, log, sampler.cut = self._owner.ask(
            self._host, self._actor, "play", self._number, *arguments, meanwhile=stop
        )
        turns += log
        if isinstance(result, IntercodeError):
            raise result
        episode: Episode = result
        return episode

    def fork(self, *, replay: bool = False) -> RayEnv:
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


@lru_cache(maxsize=8)
def _pickled(thing: Any) -> bytes:
    import ray

    content: bytes = ray.cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    return content
