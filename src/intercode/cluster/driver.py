"""The crew that plays an evaluation on the nodes of a Ray cluster.

    jobs ──► waiting ──► a node's host plays it ──► Episode ──► yielded once, by (task, epoch)
               ▲              ├── host or node lost ──► a strike for the jobs that were played there
               └──────────────┘         └── third strike ──► quarantine: an episode with an `error`
               ▲              └── fault ──► held back ──► the node's next success ──► yielded
               └──────────────── benched ◄── third in a row

One call is open for each host, an exchange of new jobs for results, so that the driver has one
thread and little work for an episode. Jobs of a lost host are played again with the same seed. A
job with two strikes is played when the queue is empty, alone on its host, so that the jobs that it
took down are cleared. A struck job goes to other nodes as long as there are any.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from intercode.cluster.host import EpisodeHost, Key
from intercode.cluster.nodes import (
    CLEAN_UP,
    Connection,
    Node,
    end_hosts,
    living_nodes,
    start_host,
    why_lost,
)
from intercode.cluster.shipping import TRAVELLING, Shipment, pack
from intercode.envs import environment_class
from intercode.errors import IntercodeError, ModelError, SandboxError
from intercode.evaluation import Evaluation
from intercode.runner.breaker import FAULTS_IN_A_ROW
from intercode.runner.budget import BudgetTracker
from intercode.runner.run import episode_seed
from intercode.runner.warm_env import KEPT
from intercode.store import FREE, SOURCES, differing_settings
from intercode.types import Episode, Task

STRIKES = 3
"""Hosts that may end while playing a task before the task is quarantined."""
LOOK = 2.0
"""Seconds between two looks for new nodes."""
PATIENCE = 15.0
"""Seconds without any node until the run ends."""
_OF_THE_DRIVER = FREE | SOURCES | TRAVELLING | {"limit", "tasks"}
"""Settings that need not be equal on a node: names and paths, and the choice of tasks."""


@dataclass(slots=True)
class _Host:
    """A node's host. `call` is the open call, `playing` lists the host's jobs in the order in which
    it got them."""

    node: Node
    actor: Any = None
    call: Any = None
    ready: bool = False
    playing: dict[Key, None] = field(default_factory=dict)
    faults: int = 0
    in_a_row: int = 0
    held: list[Episode] = field(default_factory=list)
    """Episodes of the faults in a row, which are played elsewhere if the node is benched."""
    benched: str | None = None


class RayCrew:
    """Plays the jobs of `evaluate` on all nodes. `close` ends the hosts; nothing is left on the
    nodes but the cache."""

    def __init__(
        self,
        on: str,
        evaluation: Evaluation,
        options: dict[str, Any],
        *,
        workers: int,
        host: type = EpisodeHost,
    ) -> None:
        """`options` are the ones from which `evaluation` was planned; each node plays `workers`
        episodes at once."""
        self._connection = Connection(on)
        try:
            self._evaluation, self._workers, self._kind = evaluation, workers, host
            self._shipment = _shipment(evaluation, options)
        except BaseException:
            self._connection.close()
            raise
        self._hosts: dict[str, _Host] = {}
        self._looked = self._seen = 0.0
        self.quarantined: dict[Key, str] = {}

    def __enter__(self) -> RayCrew:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End all hosts, with what they play."""
        end_hosts([host.actor for host in self._hosts.values()], CLEAN_UP)
        self._connection.close()

    def line(self) -> str:
        """Return what the progress line says about the nodes."""
        hosts = list(self._hosts.values())
        usable = sum(host.ready and not host.benched for host in hosts)
        parts = [f"{usable} host{'s' if usable != 1 else ''}", f"{usable * self._workers} workers"]
        if faults := ", ".join(f"{host.node.name} {host.faults}" for host in hosts if host.faults):
            parts.append(f"faults: {faults}")
        if benched := ", ".join(host.node.name for host in hosts if host.benched):
            parts.append(f"benched: {benched}")
        return " · ".join(parts)

    def notes(self) -> list[str]:
        """Return a line for each benched node, and for each quarantined task."""
        benched = [
            f"node {host.node.name} was benched: {host.benched}"
            for host in self._hosts.values()
            if host.benched
        ]
        return [
            *benched,
            *(
                f"task {task}, epoch {epoch} was quarantined: {why}"
                for (task, epoch), why in self.quarantined.items()
            ),
        ]

    def play(self, jobs: Sequence[tuple[Task, int]], tracker: BudgetTracker) -> Iterator[Episode]:
        """Yield the episode of each job, as they come. Raises `SandboxError` or `ModelError` if no
        node is left."""
        import ray

        self._tasks = {task.id: task for task, _ in jobs}
        self._waiting = deque((task.id, epoch) for task, epoch in jobs)
        self._suspects: deque[Key] = deque()
        self._strikes: dict[Key, list[Node]] = {}
        self._faulted: dict[Key, Episode] = {}
        self._open = dict.fromkeys(self._waiting)
        self._seen = time.monotonic()
        while self._open:
            if stop := tracker.stop_reason():
                for key in (*self._waiting, *self._suspects):
                    self._open.pop(key, None)
                self._waiting.clear()
                self._suspects.clear()
            if time.monotonic() - self._looked >= LOOK:
                self._look()
            usable = [host for host in self._hosts.values() if not host.benched]
            for host in usable:
                if (
                    host.ready
                    and host.call is None
                    and ((new := self._choose(host, usable)) or host.playing)
                ):
                    host.playing |= dict.fromkeys(new)
                    host.call = host.actor.exchange.remote(new, stop)
            calls = {host.call: host for host in usable if host.call is not None}
            if not usable and (self._hosts or self._seen + PATIENCE < time.monotonic()):
                yield from self._take(self._faulted.values())
                raise self._none_left()
            # only held-back episodes are left
            if not calls and all(host.ready for host in usable) and usable:
                yield from self._take([episode for host in usable for episode in host.held])
                continue
            if not calls:
                time.sleep(0.1)
                continue
            self._seen = time.monotonic()
            for call in ray.wait(list(calls), num_returns=1, timeout=0.2)[0]:
                yield from self._take(self._receive(calls[call], call, tracker))

    # -- inside ------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Start a host on each new node. A node that is gone is noticed by the next call."""
        self._looked = time.monotonic()
        for node in living_nodes():
            if node.id not in self._hosts:
                self._start(_Host(node))

    def _start(self, host: _Host) -> None:
        self._hosts[host.node.id] = host
        host.actor = start_host(host.node, self._kind, self._shipment, self._workers, calls=2)
        host.ready = False
        host.call = host.actor.begin.remote()

    def _choose(self, host: _Host, usable: Sequence[_Host]) -> list[Key]:
        """Take the jobs that a host gets now: one for each worker, and two more while the queue is
        long."""
        ahead = 2 if len(self._waiting) > self._workers * len(usable) else 0
        room = self._workers + ahead - len(host.playing)
        if room <= 0 or any(len(self._strikes.get(key, ())) >= STRIKES - 1 for key in host.playing):
            return []
        nodes = {candidate.node.id for candidate in usable}

        def may_play(key: Key) -> bool:
            struck = {node.id for node in self._strikes.get(key, ())}
            return host.node.id not in struck or nodes <= struck

        if not self._strikes:
            return [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        if not self._waiting and not host.playing:
            chosen = [key for key in self._suspects if may_play(key)][:1]
            self._suspects = deque(key for key in self._suspects if key not in chosen)
            return chosen
        chosen, passed = list[Key](), list[Key]()
        while self._waiting and len(chosen) < room:
            key = self._waiting.popleft()
            (chosen if may_play(key) else passed).append(key)
        self._waiting.extendleft(reversed(passed))
        return chosen

    def _receive(self, host: _Host, call: Any, tracker: BudgetTracker) -> Iterator[Episode]:
        """Yield the finished episodes that a call brings, and take note of faults and of a lost
        host."""
        import ray

        host.call = None
        try:
            answer = ray.get(call)
        except Exception as error:
            if (why := why_lost(error)) is None:
                raise
            yield from self._lose(host, why)
            return
        if not host.ready:
            if isinstance(answer, IntercodeError):
                self._bench(host, str(answer))
            elif wrong := differing_settings(
                self._evaluation.config, {**self._evaluation.config, **answer}, _OF_THE_DRIVER
            ):
                self._bench(host, f"it differs from the driver ({', '.join(wrong.values())})")
            host.ready = not host.benched
            return
        for result in answer:
            if isinstance(result, IntercodeError):
                raise result
            key = (result.task, result.epoch) if isinstance(result, Episode) else result
            if key not in host.playing:
                continue
            del host.playing[key]
            if not isinstance(result, Episode):
                self._open.pop(key, None)
                continue
            tracker.spend(result.usage)
            if result.error is None or result.error.startswith("data:"):
                yield from host.held
                host.held, host.in_a_row = [], 0
                yield result
            else:
                host.held.append(result)
                self._faulted[key] = result
                self._fault(host, result.error)

    def _fault(self, host: _Host, why: str) -> None:
        host.faults += 1
        host.in_a_row += 1
        if host.in_a_row >= FAULTS_IN_A_ROW:
            self._bench(host, f"{FAULTS_IN_A_ROW} faults in a row, the last: {why}")

    def _bench(self, host: _Host, why: str) -> None:
        """Stop using a node; its jobs and its last faults are played elsewhere."""
        host.benched = why
        host.actor.end.remote(CLEAN_UP)
        again = [(episode.task, episode.epoch) for episode in host.held]
        self._waiting.extendleft(reversed([*again, *host.playing]))
        host.playing, host.held, host.call = {}, [], None

    def _lose(self, host: _Host, why: str) -> Iterator[Episode]:
        """Put the jobs of a lost host back, and start another host if the node is alive. Yields
        quarantined episodes."""
        end_hosts([host.actor])
        begun, lost = list(host.playing)[: self._workers], list(host.playing)
        again = list[Key]()
        host.playing = {}
        for key in lost:
            if key in begun:
                self._strikes.setdefault(key, []).append(host.node)
            strikes = self._strikes.get(key, [])
            if len(strikes) >= STRIKES:
                names = ", ".join(dict.fromkeys(node.name for node in strikes))
                self.quarantined[key] = reason = (
                    f"its host ended {STRIKES} times ({names}), at last: {why}"
                )
                task, seed = self._tasks[key[0]], episode_seed(self._evaluation.seed, *key)
                text = f"sandbox: quarantined: {reason}"
                yield Episode(
                    task.id,
                    task.query,
                    (),
                    None,
                    False,
                    None,
                    {},
                    key[1],
                    seed,
                    text,
                    split=task.split,
                )
            elif len(strikes) == STRIKES - 1:
                self._suspects.append(key)
            else:
                again.append(key)
        self._waiting.extendleft(reversed(again))
        if host.node.id not in {node.id for node in living_nodes()}:
            self._waiting.extend((episode.task, episode.epoch) for episode in host.held)
            del self._hosts[host.node.id]
            return
        self._fault(host, why)
        if not host.benched:
            self._start(host)

    def _take(self, episodes: Iterable[Episode]) -> Iterator[Episode]:
        """Yield the episodes of open jobs, each once."""
        for episode in episodes:
            if (episode.task, episode.epoch) in self._open:
                del self._open[episode.task, episode.epoch]
                yield episode

    def _none_left(self) -> IntercodeError:
        reasons = [
            f"{host.node.name}: {host.benched}" for host in self._hosts.values() if host.benched
        ]
        kind = (
            ModelError
            if reasons and all("model: " in reason for reason in reasons)
            else SandboxError
        )
        return kind(
            "no node is left to play on "
            f"({'; '.join(reasons) or 'the cluster has none with cores'}; {KEPT})"
        )


def _shipment(evaluation: Evaluation, options: dict[str, Any]) -> Shipment:
    """Return the options of a node's plan: those of the driver, but with tasks chosen by id."""
    options = {
        **options,
        "price": evaluation.config["price"],
        "failed_in": None,
        "shuffle": False,
        "shard": None,
    }
    if ids := evaluation.config.get("tasks"):
        options |= {"task": ids, "limit": None}
    return pack(options, environment_class(options["env"]))
