"""Environments on the nodes of a Ray cluster, for a `RolloutPool` in the trainer's process.

    pool's thread ── reset, step, fork, close ──► host of a node ──► environment with its sandbox
    strategy, policy and tokens stay here             lost host: SandboxError, the rollout is
                                                      played again on another

Each step travels to the node and back; in an evaluation over Ray whole episodes do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from intercode.cluster.driver import LOOK
from intercode.cluster.host import EnvHost
from intercode.cluster.nodes import (
    CLEAN_UP,
    Connection,
    end_hosts,
    living_nodes,
    start_host,
    why_lost,
)
from intercode.cluster.shipping import TRAVELLING, pack
from intercode.envs import environment_class
from intercode.errors import IntercodeError, SandboxError
from intercode.plugins import attribute_path
from intercode.store import differing_settings
from intercode.types import Task


class HostLost(SandboxError):
    """A host, or its node, was lost with its environments."""


class RayEnvs:
    """A factory of environments for `RolloutPool`, with the options of `intercode.prepare`. Close
    the pool first, then this.

    with RayEnvs("bash", data="tasks", on="ray://head:10001") as factory, RolloutPool(factory,
    "try_again", envs=256) as pool:
        ...

    Each call makes an environment on the node that has the fewest. Only the nodes need a sandbox.
    """

    def __init__(self, env: str, *, on: str = "ray", calls: int = 64, **options: Any) -> None:
        """At most `calls` steps are taken at once on a node. Raises `SandboxError` if no node can
        play."""
        self._connection = Connection(on)
        try:
            env_class = environment_class(env)
            self.prompts = attribute_path(env_class, "prompts")
            self._shipment, self._calls = pack({"env": env, **options}, env_class), calls
            self._lock, self._looked = threading.Lock(), 0.0
            self._hosts: dict[str, Any] = {}
            self._open: dict[str, int] = {}
            self._refused: dict[str, str] = {}
            self._facts: dict[str, Any] | None = None
            self.tasks: Sequence[Task] = ()
            with self._lock:
                self._look()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayEnvs:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End the hosts and their environments. May be called twice."""
        hosts, self._hosts = self._hosts, {}
        end_hosts([*hosts.values()], CLEAN_UP)
        self._connection.close()

    def __call__(self) -> RayEnv:
        """Make an environment. Raises `SandboxError` if no node can."""
        while True:  # until a host answers; one that does not is forgotten
            with self._lock:
                if time.monotonic() - self._looked >= LOOK or not self._hosts:
                    self._look()
                id = min(self._hosts, key=lambda node: self._open[node])
                host = self._hosts[id]
                self._open[id] += 1
            try:
                return RayEnv(self, id, host, *self.ask(id, host, "open"))
            except BaseException as error:
                self.note_end(id)
                if not isinstance(error, HostLost):
                    raise

    def note_end(self, id: str) -> None:
        with self._lock:
            self._open[id] -= 1

    def note_fork(self, id: str) -> None:
        with self._lock:
            self._open[id] += 1

    def ask(self, id: str, host: Any, method: str, *arguments: Any) -> Any:
        """Return a host's answer, or raise it if it is an error. A lost host is a
        `SandboxError`."""
        import ray

        try:
            answer = ray.get(getattr(host, method).remote(*arguments))
        except Exception as error:
            if (why := why_lost(error)) is None:
                raise
            with self._lock:
                if self._hosts.get(id) is host:
                    del self._hosts[id]
                    self._looked = 0.0
            end_hosts([host])
            raise HostLost(f"the host on node {id[:6]} was lost: {why}") from error
        if isinstance(answer, IntercodeError):
            raise answer
        return answer

    def _look(self) -> None:
        """Start hosts on nodes that have none, and wait for them; refuse a node whose settings
        differ from the first's."""
        nodes = {node.id: node for node in living_nodes()}
        self._hosts = {id: host for id, host in self._hosts.items() if id in nodes}
        fresh = [
            node
            for node in nodes.values()
            if node.id not in self._hosts and node.id not in self._refused
        ]
        started = {
            node.id: start_host(node, EnvHost, self._shipment, calls=self._calls) for node in fresh
        }
        begun = {id: host.begin.remote() for id, host in started.items()}
        for node in fresh:
            if why := self._refuse(begun[node.id]):
                self._refused[node.id] = f"{node.name}: {why}"
                end_hosts([started[node.id]])
            else:
                self._hosts[node.id] = started[node.id]
                self._open.setdefault(node.id, 0)
        self._looked = time.monotonic()
        if not self._hosts:
            raise SandboxError(
                f"no node can play ({'; '.join(self._refused.values()) or 'none has cores'})"
            )

    def _refuse(self, begun: Any) -> str | None:
        import ray

        try:
            answer = ray.get(begun)
        except Exception as error:
            if (why := why_lost(error)) is None:
                raise
            return why
        if isinstance(answer, IntercodeError):
            return str(answer)
        facts, tasks = answer
        if self._facts is None:
            self._facts, self.tasks = facts, tasks
        wrong = differing_settings(self._facts, facts, TRAVELLING)
        return f"it differs from the first node ({', '.join(wrong.values())})" if wrong else None


class RayEnv:
    """An environment on a node, as `episode.play` needs it."""

    def __init__(
        self, owner: RayEnvs, node: str, host: Any, number: int, attributes: dict[str, Any]
    ) -> None:
        self._owner = owner
        self._node = node
        self._host = host
        self._number = number
        self._attributes = attributes
        self.protocol, self.submission, self.language = (
            attributes[name] for name in ("protocol", "submission", "language")
        )
        self.prompts, self.takes_answer, self._closed = owner.prompts, False, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        first, self.takes_answer = self._call("reset", seed=seed, options=options)
        observation, info = first
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._call("step", action)[0]
        return observation, reward, terminated, truncated, info

    def outcomes(self) -> dict[str, Any]:
        outcomes: dict[str, Any] = self._call("outcomes")[0]
        return outcomes

    def fork(self, *, replay: bool = False) -> RayEnv:
        number, _ = self._call("fork", replay=replay)
        self._owner.note_fork(self._node)
        fork = RayEnv(self._owner, self._node, self._host, number, self._attributes)
        fork.takes_answer = self.takes_answer
        return fork

    def close(self) -> None:
        """End the environment. May be called twice."""
        if not self._closed:
            self._closed = True
            self._owner.note_end(self._node)
            self._call("close")

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._owner.ask(
            self._node, self._host, "call", self._number, method, arguments, options
        )
