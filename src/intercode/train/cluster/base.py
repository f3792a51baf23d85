"""A cluster: nodes with one host on each of them, an object in a process of its own that answers
calls.

    cluster ── start(node, kind) ──► host ── call(method) ──► a call ── result ──► its value
                                                                                   └── or `Lost`

`nodes.py` implements it with Ray, `processes.py` with processes of this machine. Neither restarts a
host or repeats a call: the caller decides what a lost host means.
"""

from __future__ import annotations

from dataclasses import dataclass

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
