"""Keep one host on each node of a cluster, and replace those that are lost: for the executor of an
evaluation and for the environments of a pool.

    a node joins ──► start ──► begin ──► admitted ──► ready ──► lost ──► started anew,
                       │                                         │       if its node is alive
                       └── an error, or other settings ──► benched ◄── third fault in a row
                                                             └──► started anew later, in a pool

Nothing here waits for a host: `look` starts the missing ones and takes what those that begun have
answered, so that a node that joins late, or never answers, holds up no other.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from intercode.errors import IntercodeError
from intercode.runner.breaker import FAULTS_IN_A_ROW
from intercode.train.cluster.base import CLEAN_UP, Lost, Node
from intercode.train.cluster.host import Key
from intercode.train.cluster.nodes import RayCluster
from intercode.train.cluster.processes import LocalCluster
from intercode.types import Episode

LOOK = 2.0
"""Seconds between two looks for new nodes."""
PATIENCE = 15.0
"""Seconds without any host until there is none left."""
BENCHED = 1.0, 8.0
"""Seconds until a pool's benched host starts anew, at first and at most: they double each time."""


@dataclass(slots=True, eq=False)
class NodeHost:
    """A node's host. `begin` is its open first call, with `arguments`; `benched` says why it is not
    used, `again` when it starts anew (`time.monotonic`; never if None)."""

    node: Node
    arguments: tuple[Any, ...] = ()
    actor: Any = None
    begin: Any = None
    benched: str | None = None
    again: float | None = None
    rest: float = BENCHED[0]
    """Seconds of the next time on the bench."""
    faults: int = 0
    in_a_row: int = 0
    envs: int = 0
    """Environments of a pool on it."""
    workers: int = 0
    """Episodes of an evaluation that it plays at once."""
    call: Any = None
    """The open exchange of an evaluation."""
    playing: dict[Key, None] = field(default_factory=dict)
    """Jobs of an evaluation, in the order in which the host got them."""
    held: dict[Key, Episode] = field(default_factory=dict)
    """Episodes of the faults in a row, which are played elsewhere if the node is benched."""

    def note_success(self) -> None:
        self.in_a_row, self.rest = 0, BENCHED[0]

    @property
    def ready(self) -> bool:
        return self.begin is None and self.benched is None


class NodeHosts:
    """The hosts, by the id of their node. One thread at a time may use them."""

    def __init__(
        self,
        on: str | int,
        kind: type,
        prepare: Callable[[], Any],
        entry: Callable[[Node], NodeHost],
        admit: Callable[[Any], str | None],
        calls: int,
        *,
        return_later: bool = False,
    ) -> None:
        """`on` is a cluster of Ray, or a number of processes of this machine. The hosts' objects
        are `kind(prepare())`, and each answers `calls` calls at once. `entry` describes the host of
        a node. `admit` gets what `begin` returned, and says why the host may not be used, if so.
        `return_later`: once a host could be used, benched ones start anew after a while."""
        self.cluster: LocalCluster | RayCluster
        self.cluster = LocalCluster(on) if isinstance(on, int) else RayCluster(on)
        self._kind, self._calls, self._entry, self._admit = kind, calls, entry, admit
        self._looked, self._seen, self._closed = 0.0, time.monotonic(), False
        self._return_later, self._any_admitted = return_later, False
        self._by_node = dict[str, NodeHost]()
        try:
            self._argument = prepare()
        except BaseException:
            self.cluster.close()
            raise

    def __iter__(self) -> Iterator[NodeHost]:
        return iter(list(self._by_node.values()))

    def close(self) -> None:
        """End all hosts, with what they play, and start no more. May be called twice."""
        self._closed = True
        actors, self._by_node = [host.actor for host in self], {}
        self.cluster.end(actors, CLEAN_UP)
        self.cluster.close()

    def look(self) -> list[NodeHost]:
        """Return the hosts that can be used now."""
        if self._closed:
            return []
        if time.monotonic() - self._looked >= LOOK:
            self._looked = time.monotonic()
            for node in self.cluster.living_nodes():
                if node.id not in self._by_node:
                    host = self._by_node[node.id] = self._entry(node)
                    self._start(host)
        for host in self:
            if host.again is not None and time.monotonic() >= host.again:
                host.benched, host.again, host.in_a_row = None, None, 0
                self._start(host)
            if host.begin is not None and self.cluster.wait([host.begin], 0):
                self._receive(host)
        ready = [host for host in self if host.ready]
        if ready:
            self._seen = time.monotonic()
        return ready

    def lose(self, host: NodeHost, why: str) -> None:
        """Note that a host has ended, and start another one if its node is alive."""
        self.cluster.end([host.actor])
        if self._closed:
            return
        if all(node.id != host.node.id for node in self.cluster.living_nodes()):
            self._by_node.pop(host.node.id, None)
            return
        self.note_fault(host, why)
        if not host.benched:
            self._start(host)

    def note_fault(self, host: NodeHost, why: str) -> None:
        host.faults += 1
        host.in_a_row += 1
        if host.in_a_row >= FAULTS_IN_A_ROW:
            self.bench(host, f"{FAULTS_IN_A_ROW} faults in a row, the last: {why}")

    def bench(self, host: NodeHost, why: str) -> None:
        """Stop using a node, for a while or for good."""
        host.benched, host.begin = why, None
        host.actor.call("end", CLEAN_UP)
        if not (self._return_later and self._any_admitted):
            return
        host.again = time.monotonic() + host.rest
        if host.rest == BENCHED[0]:
            why = f"the host on {host.node.name} is started anew: {why}"
            warnings.warn(why, RuntimeWarning, stacklevel=2)
        host.rest = min(2 * host.rest, BENCHED[1])

    def why_none(self) -> str | None:
        """Return why no host can be used, now or later; None if one can or might."""
        if self._closed:
            return "they are closed"
        if any(not host.benched for host in self):
            return None
        returns = any(host.again is not None for host in self)
        if (returns or not self._by_node) and time.monotonic() - self._seen < PATIENCE:
            return None
        if not self._by_node:
            return "the cluster has none with cores"
        return "; ".join(f"{host.node.name}: {host.benched}" for host in self)

    # -- inside ------------------------------------------------------------------------------------

    def _start(self, host: NodeHost) -> None:
        host.actor = self.cluster.start(host.node, self._kind, self._argument, self._calls)
        host.begin = host.actor.call("begin", *host.arguments)

    def _receive(self, host: NodeHost) -> None:
        call, host.begin = host.begin, None
        try:
            answer = self.cluster.result(call)
        except Lost as error:
            self.lose(host, str(error))
            return
        if isinstance(answer, IntercodeError):
            self.bench(host, str(answer))
        elif why := self._admit(answer):
            self.bench(host, why)
        else:
            self._any_admitted = True
