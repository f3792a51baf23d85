"""The wall's network namespaces: a cell has one to itself, with `lo` alone in it.

Making one and taking it down costs a tenth of a reset, so one in which nothing has happened is lent again. It is looked at when
all processes that had it are gone: the kernel counts whatever happens there (packets, connections, refusals), and its counters
must stand as they did at first. Nor may there be anything left that outlives a socket: a Unix socket on its way in another that
nobody can receive any more, a flow label of IPv6 (which lingers for a minute), a route that was looked up. No process inside
may configure anything. Where a container has a network of its own, its cells share that one.
"""

from __future__ import annotations

import os

from . import kernel

_TRACES = ("dev", "snmp", "snmp6", "netstat", "unix", "ip6_flowlabel", "rt6_stats")


class Networks:
    """For a process with one thread, which is in the namespace that was made, taken or looked at last."""

    def __init__(self, own: bool = True) -> None:
        self._own = own
        self._idle: list[int] = []
        self._silence: bytes | None = None

    def take(self) -> int:
        """Enter one that nobody uses; a descriptor of it, or -1 where cells have none of their own."""
        if not self._own:
            return -1
        if not self._idle:
            return self._new()
        network = self._idle.pop()
        kernel.enter(network, kernel.NEWNET)
        return network

    def give_back(self, network: int) -> None:
        """Nobody is left in it."""
        if network < 0:
            return
        kernel.enter(network, kernel.NEWNET)
        if _traces() == self._silence:
            self._idle.append(network)
        else:
            os.close(network)

    def _new(self) -> int:
        kernel.unshare(kernel.NEWNET)
        kernel.raise_loopback()
        if self._silence is None:
            self._silence = _traces()
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _traces() -> bytes:
    return b"".join(_read(f"/proc/self/net/{name}") for name in _TRACES)


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # a kernel without IPv6
        return b""
    try:
        return kernel.rest(fd)
    finally:
        os.close(fd)
