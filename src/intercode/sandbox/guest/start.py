"""How a process becomes an interpreter: as a clone of the cell, or as the python3 of an image that has its own.

    lent /usr        cell ── fork ──► `interpret`
    own userland     cell ── spawn ──► python3 -c BOOT ── the modules' texts come over the line ──► `interpret`

`MODULES` are the texts, in the order in which they import each other.
"""

from __future__ import annotations

import socket
from typing import Any

from . import branch, interpreter

MODULES = ("limit", "plain", "referee", "interpreter", "branch", "start")
BOOT = """
import json, socket, sys, types
line = socket.socket(fileno=200)
def read(size):
    data = b""
    while len(data) < size:
        data += line.recv(size - len(data))
    return data
guest = sys.modules["guest"] = types.ModuleType("guest")
guest.__path__ = []
for name, text in json.loads(read(int.from_bytes(read(8), "big"))):
    module = sys.modules["guest." + name] = types.ModuleType("guest." + name)
    module.__package__, module.__file__ = "guest", "<guest>/" + name
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    setattr(guest, name, module)
import os
path = [entry for entry in sys.path if entry]
guest.start.interpret(line, dict(os.environ), path, list(sys.meta_path))
"""


def interpret(line: socket.socket, environment: dict[str, str], path: list[str], finders: list[Any]) -> None:
    """Never returns but by an error or the end of the line."""
    interpreter.furnish(environment, path, finders)
    made = interpreter.Interpreter()
    made.listen_to_interrupts()
    interpreter.serve(line, made, branch.serve)
