"""Keep one host on each node of a cluster, and replace those that are lost: for the executor of an
evaluation and for the environments of a pool.

    a node joins ──► start ──► begin ──► admitted ──► ready ──► lost ──► started anew,
                       │                                         │       if its node is alive
                       └── an error, or other settings ──► benched ◄── third fault in a row

Nothing here waits for a host: `look` starts the missing ones and takes what those that begun have
answered, so that a node that joins late, or never answers, holds up no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from intercode.errors import IntercodeError
from intercode.runner.breaker import FAULTS_IN_A_ROW
from intercode.train.cluster.base import CLEAN_UP, Cluster, Lost, Node
from intercode.train.cluster.nodes import RayCluster
from intercode.train.cluster.processes import LocalCluster

LOOK = 2.0
"""Seconds between two looks for new nodes."""
PATIENCE = 15.0
"""Seconds without any node until there is none left."""


@dataclass(slots=True)
class NodeHost:
    """A node's host. `begin` is its open first call, with `arguments`; `benched` says why it is no
    longer used."""

    node: Node
    arguments: tuple[Any, ...] = ()
    actor: Any = None
    begin: Any = None
    benched: str | None = None
    faults: int = 0
    in_a_row: int = 0

    @property
    def ready(self) -> bool:
        return self.begin is None and self.benched is None


AHost = TypeVar("AHost", bound=NodeHost)


class NodeHosts(Generic[AHost]):
    """The hosts, by the id of their node. One thread at a time may use them."""

    def __init__(
        self,
        on: str | int,
        entry: Callable[[Node], AHost],
        start: Callable[[], tuple[type, tuple[Any, ...], int]],
        admit: Callable[[Any], str | None],
    ) -> None:
        """`on` is a cluster of Ray, or a number of processes of this machine. `start` returns the
        class of the hosts' objects, its arguments, and how many calls a host answers at once.
        `admit` gets what `begin` returned, and says why the host may not be used, if so."""
        self.cluster: Cluster = LocalCluster(on) if isinstance(on, int) else RayCluster(on)
        self._entry, self._admit, self._looked = entry, admit, 0.0
        self._seen = time.monotonic()
        self._by_node: dict[str, AHost] = {}
        self._closed = False
        try:
            self._kind, self._arguments, self._calls = start()
        except BaseException:
            self.cluster.close()
            raise

    def __iter__(self) -> Iterator[AHost]:
        return iter(list(self._by_node.values()))

    def close(self) -> None:
        """End all hosts, with what they play, and start no more. May be called twice."""
        self._closed = True
        hosts, self._by_node = self._by_node, {}
        self.cluster.end([host.actor for host in hosts.values()], CLEAN_UP)
        self.cluster.close()

    def look(self) -> list[AHost]:
        """Return the hosts that can be used now."""
        if self._closed:
            return []
        if time.monotonic() - self._looked >= LOOK:
            self._looked = time.monotonic()
            for node in self.cluster.living_nodes():
                if node.id not in self._by_node:
                    self._by_node[node.id] = self._entry(node)
                    self._start(self._by_node[node.id])
        for host in self:
            if host.begin is not None and self.cluster.wait([host.begin], 0):
                self._receive(host, host.begin)
        if ready := [host for host in self if host.ready]:
            self._seen = time.monotonic()
        return ready

    def lose(self, host: AHost, why: str) -> None:
        """Note that a host has ended, and start another one if its node is alive."""
        self.cluster.end([host.actor])
        if self._closed:
            return
        if host.node.id not in {node.id for node in self.cluster.living_nodes()}:
            self._by_node.pop(host.node.id, None)
            return
        self.note_fault(host, why)
        if not host.benched:
            self._start(host)

    def note_fault(self, host: AHost, why: str) -> None:
        host.faults += 1
        host.in_a_row += 1
        if host.in_a_row >= FAULTS_IN_A_ROW:
            self.bench(host, f"{FAULTS_IN_A_ROW} faults in a row, the last: {why}")

    def bench(self, host: AHost, why: str) -> None:
        """Stop using a node."""
        host.benched, host.begin = why, None
        host.actor.call("end", CLEAN_UP)

    def why_none(self) -> str | None:
        """Return why no host can be used, now or later; None if one can or might."""
        if self._closed:
            return "they are closed"
        if any(not host.benched for host in self):
            return None
        if not self._by_node and time.monotonic() - self._seen < PATIENCE:
            return None
        reasons = "; ".join(f"{host.node.name}: {host.benched}" for host in self)
        return reasons or "the cluster has none with cores"

    # -- inside ------------------------------------------------------------------------------------

    def _start(self, host: AHost) -> None:
        host.actor = self.cluster.start(host.node, self._kind, *self._arguments, calls=self._calls)
        host.begin = host.actor.call("begin", *host.arguments)

    def _receive(self, host: AHost, call: Any) -> None:
        host.begin = None
        try:
            answer = self.cluster.result(call)
        except Lost as error:
            self.lose(host, str(error))
            return
        if why := str(answer) if isinstance(answer, IntercodeError) else self._admit(answer):
            self.bench(host, why)
