"""Pid 1 of the wall: makes a cell for each episode and ends it; knows nothing of what happens in one.

Requests arrive as frames on descriptor 0: `cell` (with the cell's end of a socket, and for a copy the other cell's upper
folder), `end`. There are no replies: a new cell answers on its own socket, a failed one closes it. For one that cannot be
cloned yet, since there are too many processes, the keeper answers. When descriptor 0 ends, the keeper exits and the kernel
ends the whole wall.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
from typing import Any

from . import birth, entry, kernel, rooms, spawn, wire
from .cell import Cell


class Keeper:
    def __init__(self, control: socket.socket, config: dict[str, Any], kind: type[Cell], filter_program: bytes) -> None:
        self._control, self._kind, self._filter = control, kind, filter_program
        layers, lent, covered, disk, contained = config["plan"]
        plan = rooms.Plan(layers, tuple(lent), tuple(covered), disk, contained)
        self._config = {**config, "plan": plan}
        self._children = os.open("/proc/self/task/1/children", os.O_RDONLY | os.O_CLOEXEC)
        self._cells: dict[int, int] = {}
        rooms.prepare(plan)

    def serve(self) -> None:
        spawn.get_ready()
        sys.path.clear()  # from now on nothing is imported: a cell lives among the agent's files
        sys.meta_path.clear()
        gc.collect()
        gc.freeze()
        while True:
            try:
                head, _, fds = wire.receive_with_fds(self._control, 0)
            except EOFError:
                return
            if head["op"] == "cell":
                old = head.get("replaces")  # killed first, waited for last: it dies while the new one is built
                self._end(old, wait=False)
                self._make(head, fds)
                self._end(old, wait=True)
            else:
                self._end(head["cell"], wait=True)

    def _make(self, head: dict[str, Any], fds: list[int]) -> None:
        if self._config["own_network"]:
            kernel.unshare(kernel.NEWNET)  # for the cell, by its keeper: so the agent's root does not own it
            kernel.raise_loopback()
        try:
            self._cells[head["cell"]] = self._clone(head, *fds)
        except BlockingIOError:
            with socket.socket(fileno=os.dup(fds[0])) as line:
                birth.put_off(line)
        for fd in fds:
            os.close(fd)

    def _clone(self, head: dict[str, Any], line: int, inherited: int | None = None) -> int:
        pid = kernel.clone(entry.namespaces(self._config))
        if pid == 0:
            os.close(self._control.fileno())
            birth.live(self._kind, socket.socket(fileno=line), {**self._config, "cwd": head["cwd"]}, self._filter, inherited)
        return pid

    def _end(self, number: int | None, *, wait: bool) -> None:
        if number not in self._cells:
            return
        pid = self._cells[number]
        os.kill(pid, signal.SIGKILL)
        if wait:
            self._bury(os.waitpid(pid, 0)[0])

    def _bury(self, pid: int) -> None:
        """End and reap what this dead cell left to this process, and cells that end meanwhile.

        An anchor ends only when all below it are reaped.
        """
        self._forget(pid)
        while orphans := self._orphans():
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)
            for _ in orphans:
                self._forget(os.waitpid(-1, 0)[0])

    def _orphans(self) -> set[int]:
        """Children that are no cells."""
        os.lseek(self._children, 0, os.SEEK_SET)
        return set(map(int, kernel.rest(self._children).split())) - set(self._cells.values())

    def _forget(self, pid: int) -> None:
        """If it was a cell."""
        self._cells = {number: cell for number, cell in self._cells.items() if cell != pid}


def equip(config: dict[str, Any]) -> tuple[dict[str, Any], type[Cell]]:
    """The kind of cells. That of interpreters is imported here alone, for the sake of the shells' memory."""
    if config["program"] == "bash":
        return config, Cell
    from . import pycell

    return pycell.prepare(config), pycell.PythonCell


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # what the host may have open is none of a cell's business
    control = socket.socket(fileno=0)
    config, filter_program, fds = wire.receive_with_fds(control, 1 << 20)
    config, kind = equip({**config, "export": fds[0] if fds else None})
    keeper = Keeper(control, config, kind, filter_program)
    keeper.serve()
