"""How a cell comes to life, right after `clone`: it moves in, starts the agent's session, and serves.

The agent's shell is born on the cell's processor, since the kernel would move the new program to the idlest one, and a pair
that wakes each other across processors is slow until it finds together again: the first steps of an episode took twice as
long. Before and after, the cell may go wherever the keeper may, and the agent's processes anywhere: held to one processor for
the whole birth, two cells waited for each other.
"""

from __future__ import annotations

import contextlib
import os
import socket

from . import entry, kernel, wire
from .cell import Cell, Config


def live(kind: type[Cell], sock: socket.socket, config: Config, filter_program: bytes, inherited: int | None) -> None:
    """Never returns."""
    try:
        cell = _begin(kind, sock, config, filter_program, inherited)
        wire.send(sock, {"ready": True})
    except BlockingIOError:
        put_off(sock)
        os._exit(1)
    except Exception as error:
        wire.send(sock, {"failed": f"{type(error).__name__}: {error}"})
        os._exit(1)
    try:
        cell.serve()
    finally:
        os._exit(0)


def put_off(sock: socket.socket) -> None:
    """Say that there are too many processes for a cell now: the old one's are not all dead yet, or another has too many."""
    wire.send(sock, {"later": True})


def _begin(kind: type[Cell], sock: socket.socket, config: Config, filter_program: bytes, inherited: int | None) -> Cell:
    room = entry.move_in(config, filter_program, inherited)
    everywhere = os.sched_getaffinity(0)
    _move(0, {kernel.processor()})
    cell = kind(sock, config, room)
    for pid in (0, *cell.session):
        _move(pid, everywhere)
    return cell


def _move(pid: int, processors: set[int]) -> None:
    with contextlib.suppress(OSError):  # they may be taken from a machine or a container at any time
        os.sched_setaffinity(pid, processors)
