"""The executor that plays an evaluation on the nodes of a Ray cluster, or in several processes of
this machine.

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
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from intercode.envs import environment_class
from intercode.errors import IntercodeError, ModelError, SandboxError
from intercode.runner.budget import BudgetTracker
from intercode.runner.run import episode_seed
from intercode.runner.warm_env import HOW_TO_RESUME
from intercode.runs.evaluation import Evaluation
from intercode.runs.store import FREE, SOURCES, differing_settings
from intercode.train.cluster.base import Lost, Node
from intercode.train.cluster.host import EpisodeHost, Key
from intercode.train.cluster.hosts import NodeHost, NodeHosts
from intercode.train.cluster.shipping import TRAVELLING, pack, unpack
from intercode.types import Episode, Task, Usage

STRIKES = 3
"""Hosts that may end while playing a task before the task is quarantined."""
_OF_THE_DRIVER = FREE | SOURCES | TRAVELLING | {"limit", "tasks"}
"""Settings that need not be equal on a node: names and paths, and the choice of tasks."""


class HostExecutor(AbstractContextManager["HostExecutor"]):
    """Plays the jobs of `evaluate` in hosts. `close` ends these; nothing is left on other machines
    but the cache."""

    def __init__(
        self,
        on: str | int,
        evaluation: Evaluation,
        options: dict[str, Any],
        *,
        workers: int,
        host: type = EpisodeHost,
    ) -> None:
        """`on` is a Ray cluster, of which each node plays `workers` episodes at once, or a number
        of processes of this machine, which divide the `workers`. `options` are the ones from which
        `evaluation` was planned."""
        self._evaluation, self._on, self._workers = evaluation, on, workers
        self._folder: Path | None = None
        self.here = isinstance(on, int)
        # the hosts plan with the driver's options, but with tasks chosen by id
        shipped = {**options, "price": evaluation.config["price"]}
        shipped |= {"failed_in": None, "shuffle": False, "shard": None}
        if ids := evaluation.config.get("tasks"):
            shipped |= {"task": ids, "limit": None}

        def prepare() -> Callable[[], dict[str, Any]]:
            if self.here:
                return partial(dict, shipped)
            return partial(unpack, pack(shipped, environment_class(options["env"])))

        self._hosts = NodeHosts(on, host, prepare, self._entry, self._refuse, 2)
        self.quarantined: dict[Key, str] = {}

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End all hosts, with what they play."""
        self._hosts.close()

    def line(self) -> str:
        """Return what the progress line says about the nodes."""
        usable, workers, faults, benched = 0, 0, [], []
        for host in self._hosts:
            if host.ready:
                usable += 1
                workers += host.workers
            if host.faults:
                faults.append(f"{host.node.name} {host.faults}")
            if host.benched:
                benched.append(host.node.name)
        parts = [f"{usable} host{'s' if usable != 1 else ''}", f"{workers} workers"]
        if faults:
            parts.append(f"faults: {', '.join(faults)}")
        if benched:
            parts.append(f"benched: {', '.join(benched)}")
        return " · ".join(parts)

    def notes(self) -> list[str]:
        """Return a line for each benched node, and for each quarantined task."""
        notes = []
        for host in self._hosts:
            if host.benched:
                notes.append(f"node {host.node.name} was benched: {host.benched}")
        for (task, epoch), why in self.quarantined.items():
            notes.append(f"task {task}, epoch {epoch} was quarantined: {why}")
        return notes

    def play(
        self,
        jobs: Sequence[tuple[Task, int]],
        tracker: BudgetTracker,
        folder: Path | None = None,
    ) -> Iterator[Episode]:
        """Yield the episode of each job, as they come. Raises `SandboxError` or `ModelError` if no
        host is left."""
        if self.here:
            self._folder = folder
        self._tasks = {task.id: task for task, _ in jobs}
        self._waiting = deque((task.id, epoch) for task, epoch in jobs)
        self._suspects, self._faulted = deque[Key](), dict[Key, Episode]()
        self._strikes = defaultdict[Key, list[Node]](list)
        self._open = dict.fromkeys(self._waiting)
        while self._open:
            if stop := tracker.stop_reason():
                for key in (*self._waiting, *self._suspects):
                    self._open.pop(key, None)
                self._waiting.clear()
                self._suspects.clear()
            ready = self._hosts.look()
            usable = [host for host in self._hosts if not host.benched]
            calls = {}
            for host in ready:
                if host.call is None:
                    new: list[Any] = self._choose(host, usable)
                    host.playing |= dict.fromkeys(new)
                    if self.here:
                        new = [(self._tasks[task], epoch) for task, epoch in new]
                    if host.playing:
                        host.call = host.actor.call("exchange", new, stop)
                if host.call is not None:
                    calls[host.call] = host
            if why := self._hosts.why_none():
                yield from self._take(self._faulted.values())
                reasons = [host.benched for host in self._hosts if host.benched]
                place = "host" if self.here else "node"
                message = f"no {place} is left to play on ({why}; {HOW_TO_RESUME})"
                if reasons and all("model: " in reason for reason in reasons):
                    raise ModelError(message)
                raise SandboxError(message)
            # only held-back episodes are left
            if not calls and ready == usable and usable:
                for host in usable:
                    yield from self._take(host.held.values())
                continue
            if not calls:
                time.sleep(0.1)
                continue
            for call in self._hosts.cluster.wait(list(calls), 0.2):
                yield from self._take(self._receive(calls[call], tracker))

    # -- inside ------------------------------------------------------------------------------------

    def _entry(self, node: Node) -> NodeHost:
        workers = self._workers
        if isinstance(self._on, int):
            workers = workers // self._on + (int(node.id) < workers % self._on)
        return NodeHost(node, (workers, self._folder), workers=workers)

    def _refuse(self, config: dict[str, Any]) -> str | None:
        """Return in which settings a host differs from the driver."""
        here = self._evaluation.config
        if wrong := differing_settings(here, {**here, **config}, _OF_THE_DRIVER):
            return f"it differs from the driver ({', '.join(wrong.values())})"
        return None

    def _choose(self, host: NodeHost, usable: Sequence[NodeHost]) -> list[Key]:
        """Take the jobs that a host gets now: one for each worker, and two more while the queue is
        long."""
        room = host.workers - len(host.playing)
        if len(self._waiting) > sum(other.workers for other in usable):
            room += 2
        if room <= 0 or any(len(self._strikes[key]) >= STRIKES - 1 for key in host.playing):
            return []
        nodes = {candidate.node.id for candidate in usable}

        def may_play(key: Key) -> bool:
            struck = {node.id for node in self._strikes[key]}
            return host.node.id not in struck or nodes <= struck

        if not self._waiting and not host.playing:
            for key in self._suspects:
                if may_play(key):
                    self._suspects.remove(key)
                    return [key]
        chosen, passed = list[Key](), list[Key]()
        while self._waiting and len(chosen) < room:
            key = self._waiting.popleft()
            if may_play(key):
                chosen.append(key)
            else:
                passed.append(key)
        self._put_back(passed)
        return chosen

    def _receive(self, host: NodeHost, tracker: BudgetTracker) -> Iterator[Episode]:
        """Yield the finished episodes that an exchange brings, and take note of faults and of a
        lost host."""
        call, host.call = host.call, None
        try:
            answer = self._hosts.cluster.result(call)
        except Lost as error:
            yield from self._lose(host, str(error))
            return
        for result in answer:
            if isinstance(result, IntercodeError):
                raise result
            if isinstance(result, Usage):
                tracker.spend(result)
                continue
            if not isinstance(result, Episode):  # a job that was not begun
                if result in host.playing:
                    del host.playing[result]
                    self._open.pop(result, None)
                continue
            key = result.task, result.epoch
            if key not in host.playing:
                continue
            del host.playing[key]
            if not self.here:
                result = replace(result, outcomes={**result.outcomes, "node": host.node.name})
            if result.error is None or result.error.startswith("data:"):
                yield from host.held.values()
                host.held = {}
                host.note_success()
                yield result
            else:
                host.held[key] = self._faulted[key] = result
                self._hosts.note_fault(host, result.error)
        if host.benched:
            self._put_back([*host.held, *host.playing])
            host.playing, host.held = {}, {}

    def _put_back(self, jobs: Sequence[Key]) -> None:
        self._waiting.extendleft(reversed(jobs))

    def _lose(self, host: NodeHost, why: str) -> Iterator[Episode]:
        """Put the jobs of a lost host and its last faults back. Yields quarantined episodes."""
        lost, again = list(host.playing), list(host.held)
        host.playing, host.held = {}, {}
        for n, key in enumerate(lost):
            strikes = self._strikes[key]
            if n < host.workers:  # it was being played
                strikes.append(host.node)
            if len(strikes) >= STRIKES:
                names = ", ".join(dict.fromkeys(node.name for node in strikes))
                reason = f"its host ended {STRIKES} times ({names}), at last: {why}"
                self.quarantined[key] = reason
                task = self._tasks[key[0]]
                yield Episode(
                    task.id,
                    task.query,
                    (),
                    None,
                    False,
                    None,
                    epoch=key[1],
                    seed=episode_seed(self._evaluation.options.seed, *key),
                    error=f"sandbox: quarantined: {reason}",
                    split=task.split,
                )
            elif len(strikes) == STRIKES - 1:
                self._suspects.append(key)
            else:
                again.append(key)
        self._put_back(again)
        self._hosts.lose(host, why)

    def _take(self, episodes: Iterable[Episode]) -> Iterator[Episode]:
        """Yield the episodes of open jobs, each once."""
        for episode in episodes:
            if (episode.task, episode.epoch) in self._open:
                del self._open[episode.task, episode.epoch]
                yield episode
