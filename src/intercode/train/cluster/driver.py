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
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
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


@dataclass(slots=True)
class _Host(NodeHost):
    """`workers` play at once, `call` is the open exchange, `playing` lists the host's jobs in the
    order in which it got them."""

    workers: int = 1
    call: Any = None
    playing: dict[Key, None] = field(default_factory=dict)
    held: list[Episode] = field(default_factory=list)
    """Episodes of the faults in a row, which are played elsewhere if the node is benched."""


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
        shipped, env_class = _options(evaluation, options), environment_class(options["env"])

        def start() -> tuple[type, tuple[Any, ...], int]:
            if isinstance(on, int):
                return host, (partial(dict, shipped),), 2
            return host, (partial(unpack, pack(shipped, env_class)),), 2

        self._hosts = NodeHosts(on, self._entry, start, self._refuse)
        self.quarantined: dict[Key, str] = {}

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End all hosts, with what they play."""
        self._hosts.close()

    def line(self) -> str:
        """Return what the progress line says about the nodes."""
        hosts = list(self._hosts)
        usable = sum(host.ready for host in hosts)
        workers = sum(host.workers for host in hosts if host.ready)
        parts = [f"{usable} host{'s' if usable != 1 else ''}", f"{workers} workers"]
        if faults := ", ".join(f"{host.node.name} {host.faults}" for host in hosts if host.faults):
            parts.append(f"faults: {faults}")
        if benched := ", ".join(host.node.name for host in hosts if host.benched):
            parts.append(f"benched: {benched}")
        return " · ".join(parts)

    def notes(self) -> list[str]:
        """Return a line for each benched node, and for each quarantined task."""
        benched = [
            f"node {host.node.name} was benched: {host.benched}"
            for host in self._hosts
            if host.benched
        ]
        return [
            *benched,
            *(
                f"task {task}, epoch {epoch} was quarantined: {why}"
                for (task, epoch), why in self.quarantined.items()
            ),
        ]

    @property
    def here(self) -> bool:
        return isinstance(self._on, int)

    def play(
        self,
        jobs: Sequence[tuple[Task, int]],
        tracker: BudgetTracker,
        folder: Path | None = None,
    ) -> Iterator[Episode]:
        """Yield the episode of each job, as they come. Raises `SandboxError` or `ModelError` if no
        host is left."""
        self._folder = folder if self.here else None
        self._tasks = {task.id: task for task, _ in jobs}
        self._waiting = deque((task.id, epoch) for task, epoch in jobs)
        self._suspects: deque[Key] = deque()
        self._strikes: dict[Key, list[Node]] = {}
        self._faulted: dict[Key, Episode] = {}
        self._open = dict.fromkeys(self._waiting)
        while self._open:
            if stop := tracker.stop_reason():
                for key in (*self._waiting, *self._suspects):
                    self._open.pop(key, None)
                self._waiting.clear()
                self._suspects.clear()
            ready = self._hosts.look()
            usable = [host for host in self._hosts if not host.benched]
            for host in ready:
                if host.call is None and ((new := self._choose(host, usable)) or host.playing):
                    host.playing |= dict.fromkeys(new)
                    begun = [(self._tasks[task], epoch) for task, epoch in new]
                    host.call = host.actor.call("exchange", begun if self.here else new, stop)
            calls = {host.call: host for host in ready if host.call is not None}
            if why := self._hosts.why_none():
                yield from self._take(self._faulted.values())
                raise self._none_left(why)
            # only held-back episodes are left
            if not calls and ready == usable and usable:
                yield from self._take([episode for host in usable for episode in host.held])
                continue
            if not calls:
                time.sleep(0.1)
                continue
            for call in self._hosts.cluster.wait(list(calls), 0.2):
                yield from self._take(self._receive(calls[call], call, tracker))

    # -- inside ------------------------------------------------------------------------------------

    def _entry(self, node: Node) -> _Host:
        workers = self._workers
        if isinstance(self._on, int):
            workers = workers // self._on + (int(node.id) < workers % self._on)
        return _Host(node, (workers, self._folder), workers=workers)

    def _refuse(self, config: dict[str, Any]) -> str | None:
        """Return in which settings a host differs from the driver."""
        here = self._evaluation.config
        wrong = differing_settings(here, {**here, **config}, _OF_THE_DRIVER)
        return f"it differs from the driver ({', '.join(wrong.values())})" if wrong else None

    def _choose(self, host: _Host, usable: Sequence[_Host]) -> list[Key]:
        """Take the jobs that a host gets now: one for each worker, and two more while the queue is
        long."""
        ahead = 2 if len(self._waiting) > sum(other.workers for other in usable) else 0
        room = host.workers + ahead - len(host.playing)
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
        host.call = None
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
            key = (result.task, result.epoch) if isinstance(result, Episode) else result
            if key not in host.playing:
                continue
            del host.playing[key]
            if not isinstance(result, Episode):
                self._open.pop(key, None)
                continue
            if not self.here:
                outcomes = {**result.outcomes, "node": host.node.name}
                result = replace(result, outcomes=outcomes)
            if result.error is None or result.error.startswith("data:"):
                yield from host.held
                host.held, host.in_a_row = [], 0
                yield result
            else:
                host.held.append(result)
                self._faulted[key] = result
                self._hosts.note_fault(host, result.error)
        if host.benched:
            self._put_back([*_jobs(host.held), *host.playing])
            host.playing, host.held = {}, []

    def _put_back(self, jobs: Iterable[Key]) -> None:
        self._waiting.extendleft(reversed(list(jobs)))

    def _lose(self, host: _Host, why: str) -> Iterator[Episode]:
        """Put the jobs of a lost host and its last faults back. Yields quarantined episodes."""
        begun, lost = list(host.playing)[: host.workers], list(host.playing)
        again = _jobs(host.held)
        host.playing, host.held = {}, []
        for key in lost:
            if key in begun:
                self._strikes.setdefault(key, []).append(host.node)
            strikes = self._strikes.get(key, [])
            if len(strikes) >= STRIKES:
                names = ", ".join(dict.fromkeys(node.name for node in strikes))
                self.quarantined[key] = reason = (
                    f"its host ended {STRIKES} times ({names}), at last: {why}"
                )
                task, seed = self._tasks[key[0]], episode_seed(self._evaluation.options.seed, *key)
                text = f"sandbox: quarantined: {reason}"
                failed = Episode(task.id, task.query, (), None, False, None, split=task.split)
                yield replace(failed, epoch=key[1], seed=seed, error=text)
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

    def _none_left(self, why: str) -> IntercodeError:
        reasons = [host.benched for host in self._hosts if host.benched]
        of_model = reasons and all("model: " in reason for reason in reasons)
        return (ModelError if of_model else SandboxError)(
            f"no {'host' if self.here else 'node'} is left to play on ({why}; {HOW_TO_RESUME})"
        )


def _jobs(episodes: Sequence[Episode]) -> list[Key]:
    return [(episode.task, episode.epoch) for episode in episodes]


def _options(evaluation: Evaluation, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a host's plan: those of the driver, but with tasks chosen by id."""
    options = {
        **options,
        "price": evaluation.config["price"],
        "failed_in": None,
        "shuffle": False,
        "shard": None,
    }
    if ids := evaluation.config.get("tasks"):
        options |= {"task": ids, "limit": None}
    return options
