"""What the keeper does once before it makes cells: it serves some actions itself, in its own rooms.

The interpreter rewrites code as it learns what the code does (PEP 659), after several runs. A cell lives for one episode and
would learn again each time; cloned from a process that has learned, it is born with it. Nothing stays open after a rehearsal,
and no process is left.
"""

from __future__ import annotations

import os
import socket

from . import entry, rooms, wire
from .cell import Cell, Config

ACTIONS = 16


def rehearse(config: Config, kind: type[Cell]) -> None:
    host, sock = socket.socketpair()
    with host, sock:
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        room = entry.Room(rooms.Handles(-1, -1), proc, entry.Anchor(os.getpid(), sock.fileno()))
        cell = kind(sock, {**config, "cwd": "/"}, room)
        for _ in range(ACTIONS):
            wire.send(host, {"op": "exec", "seconds": 10.0}, b"x=1")
            cell.serve_once()
            wire.receive(host, config["output"])
        cell.dismiss()
        os.close(proc)
