"""A cell whose session is a Python interpreter instead of a bash.

    cell ── fork ──► child: drops the cell's rights and descriptors, and becomes the agent's interpreter (`interpreter.py`)
                       └─ fork, for each test ──► branch: serves the host's line with a copy of all that the agent defined

The interpreter is a clone of this warm process where the agent's /usr is the wall's own; in an image of its own, that
image's python3 is started with the same modules. Whatever it reports can end its own action and nothing more.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import site
import socket
import sys
import time
from functools import partial
from typing import Any

from . import entry, interpreter, processes, start, wire
from .cell import Cell
from .shell import _FIONREAD, Job, Shell, _enter, new_token

_LOADED = ("collections", "functools", "heapq", "itertools", "math", "random", "re", "string", "typing")
_PATIENCE = 5.0
_LAST_DEATH = 2.0
_LOOK = 0.0005


class Python(Shell):
    """The persistent interpreter, with the face of a persistent bash."""

    def __init__(self, out: int, config: dict[str, Any], cwd: str) -> None:
        Job.__init__(self, out, config["env"])
        self._line, self._theirs = socket.socketpair()
        self._pending = memoryview(b"")
        self._token = self._next = new_token()
        self._said = b""
        self._start(config, cwd)
        self.done_fd = self._line.fileno()
        self._actions = os.dup(self.done_fd)
        os.set_blocking(self.done_fd, False)

    def _start(self, config: dict[str, Any], cwd: str) -> None:
        """A clone of this process; or the image's own python3, which is given the modules over the line."""
        if config["lent"]:
            _enter(cwd)
            self.pid = os.fork()
            if self.pid == 0:
                _become(self._theirs.fileno(), self._out, config)
            return
        self._spawn(["python3", "-s", "-B", "-c", start.BOOT], cwd, self._theirs.fileno())
        if not self.dead:
            self._line.sendall(len(config["texts"]).to_bytes(8, "big") + config["texts"])

    @property
    def unread(self) -> bool:
        """Asked at the interpreter's end: what waits at this one is its report."""
        return bool(self._pending) or any(fcntl.ioctl(self._theirs, _FIONREAD, bytes(4)))

    def begin(self, action: bytes) -> None:
        self._request(b"X", action)

    def branch(self, line: socket.socket) -> None:
        self._request(b"B", b"", line.fileno())

    def close(self) -> None:
        self._line.close()
        self._theirs.close()
        os.close(self._actions)

    def _request(self, kind: bytes, payload: bytes, *fds: int) -> None:
        self._token, self._said, self.exit_code = new_token(), b"", None
        head = interpreter.FRAME.pack(self._token, kind, len(payload))
        try:
            socket.send_fds(self._line, [head], list(fds))
        except OSError:  # it has gone, or reads nothing: the action ends with its process, or at the time limit
            payload = b""
        self._pending = memoryview(payload)
        if payload:
            self.feed()


class PythonCell(Cell):
    _branched: processes.Mark | None = None
    """When the branch that has not been ended yet was made."""

    def _shell(self) -> Shell:
        shell = Python(self._out_in, self._config, self._cwd)
        self._mark, self._branched = self._table.mark(), None
        return shell

    def _op_branch(self, head: dict[str, Any], payload: bytes) -> None:
        """End the last branch with all that it started; make another, of an empty interpreter where none lives, and give the
        host the line to it."""
        self._prune()
        if head.get("end"):
            wire.send(self._sock, {})
            return
        self._reap()
        job = self._living_shell()
        assert isinstance(job, Python)
        self._branched, self._watching = self._table.mark(), True
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                job.branch(theirs)
                if not self._wait(job, _PATIENCE):
                    processes.kill(job.pid)
            wire.send(self._sock, {}, b"", (ours.fileno(),))

    def _prune(self) -> None:
        """End a branch that has not been ended: kill what came of it, again until nothing is left."""
        until = time.monotonic() + _LAST_DEATH
        while self._branched is not None and (left := self._table.settled(partial(self._strays, self._branched))):
            if time.monotonic() > until:
                self._kill_all()
                break
            processes.send(left, signal.SIGKILL)
            time.sleep(_LOOK)
        self._mark, self._branched = self._table.mark(), None

    def _strays(self, mark: processes.Mark) -> list[processes.Process]:
        """What was born since, but for the interpreter and for what jobs of earlier actions start: these live on."""
        alive, mine = self._table.all(), self._job.pid if self._job else 0
        jobs = {each.pid for each in alive if not mark.precedes(each)} - {mine}
        while more := {each.pid for each in alive if each.parent in jobs} - jobs - {mine}:
            jobs |= more
        return [each for each in alive if each.pid not in jobs and each.pid != mine]


def _become(line: int, out: int, config: dict[str, Any]) -> None:
    """In the child: never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        os.dup2(line, interpreter.LINE_FD, inheritable=False)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.closerange(3, interpreter.LINE_FD)
        os.closerange(interpreter.LINE_FD + 1, 1 << 16)
        entry.give_up_rights(config)
        start.interpret(socket.socket(fileno=interpreter.LINE_FD), config["env"], *config["imports"])
    finally:
        os._exit(1)


def prepare(config: dict[str, Any]) -> dict[str, Any]:
    """In the keeper, before it forgets imports: what every interpreter would otherwise load for itself, or is to be sent."""
    if not config["lent"]:
        return {**config, "texts": json.dumps(config["texts"]).encode()}
    for name in _LOADED:
        importlib.import_module(name)
    site.main()
    path, finders = [entry for entry in sys.path if entry not in ("", "/")], list(sys.meta_path)
    return {**config, "imports": (path, finders)}
