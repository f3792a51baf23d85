"""A cluster: nodes with one host on each of them, an object in a process of its own that answers
calls.

    Cluster ── start(node, kind) ──► Host ── call(method) ──► a call ── result ──► its value
                                                                                   └── or `Lost`

`nodes.py` implements it with Ray, `processes.py` with processes of this machine. Neither restarts a
host or repeats a call: the caller decides what a lost host means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

CLEAN_UP = 2.0
"""Seconds in which a host may close its environments."""


class Lost(Exception):
    """The host that was called has ended, or its node has. The text says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster, with a name for people, its cores and its memory in bytes."""

    id: str
    name: str
    cores: int
    memory: int


class Host(Protocol):
    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host's object, and return the call."""
        ...


class Cluster(Protocol):
    def living_nodes(self) -> list[Node]: ...

    def start(self, node: Node, kind: type, *arguments: Any, calls: int) -> Host:
        """Start a host with an object `kind(*arguments)`; it answers `calls` calls at once."""
        ...

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        """Return the calls that have ended, when one has or the time is up."""
        ...

    def result(self, call: Any) -> Any:
        """Wait for a call, and return its value. Raises `Lost`."""
        ...

    def end(self, hosts: Sequence[Any], seconds: float = 0.0) -> None:
        """End hosts with their sandboxes; before that, give them some seconds to clean up."""
        ...

    def close(self) -> None:
        """Leave the cluster."""
        ...
