"""An episode server whose session is a Python interpreter instead of a bash.

    episode server
      └─ fork ──► child: gives up the server's rights and descriptors, and becomes the agent's
                    │    interpreter
                    └─ fork, for each test ──► branch: serves the host's line with a copy of the
                                               agent's namespace

The interpreter is a clone of this warm process if the agent's /usr is lent by the host; in an image
with its own userland, the image's python3 is started with the same modules. What the interpreter
reports can end its own action and nothing more.

If it reports that it cannot fork a branch, this server forks a child of its own. If that fails too,
the machine has no room and the error goes to the host; else the agent has used up its own limits
and the line of the branch ends at once.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import site
import socket
import sys
import time
from collections.abc import Callable

from . import processes, python_branch, python_interpreter, wire
from .episode import EpisodeServer
from .light import Message
from .room import require_room
from .shell import Shell, ShellJob, change_folder, new_token

_PRELOADED = (
    "collections",
    "functools",
    "heapq",
    "itertools",
    "math",
    "random",
    "re",
    "string",
    "typing",
)
_FORKING, _FORKS = 5.0, 3
_LAST_DEATH = 2.0
_LOOK_EVERY = 0.0005


class PythonShell(Shell):
    """The persistent interpreter, with the interface of a persistent bash."""

    def __init__(self, out: int, config: Message, cwd: str) -> None:
        ShellJob.__init__(self, out, config["env"])
        self._line, self._far_end = socket.socketpair()
        # at the server's own end a report may wait instead
        self._queue = self._far_end.fileno()
        change_folder(cwd)
        if config["lent"]:
            self.pid = os.fork()
            if self.pid == 0:
                _become_interpreter(self._queue, out, config, self.become_agent)
        else:
            ends = {1: out, 2: out, python_interpreter.LINE_FD: self._queue}
            self._execute("python3", ["python3", "-s", "-B", "-c", python_interpreter.BOOT], ends)
            if not self.dead:
                self._line.sendall(len(config["texts"]).to_bytes(8, "big") + config["texts"])
        self.done_fd = self._line.fileno()
        self.actions = os.dup(self.done_fd)
        os.set_blocking(self.done_fd, False)

    def begin(self, action: bytes, *, by_agent: bool = False, breaks: bool = False) -> None:
        self.request(b"X", action)

    def close(self) -> None:
        self._line.close()
        self._far_end.close()
        os.close(self.actions)

    def request(self, kind: bytes, payload: bytes, *fds: int) -> None:
        """Send the interpreter a frame."""
        self._token, self._partial, self.exit_code = new_token(), b"", None
        head = python_interpreter.FRAME.pack(self._token, kind, len(payload))
        try:
            socket.send_fds(self._line, [head], fds)
        except OSError as error:
            require_room(error)
            # it has gone, or reads nothing: the action ends with its process, or at the time limit
            payload = b""
        self.pending = memoryview(payload)
        if payload:
            self.write_pending()


class PythonEpisodeServer(EpisodeServer):
    _branch_mark: processes.Mark | None = None
    """The time when the open branch was made; None if no branch is open."""

    def _start_shell(self) -> Shell:
        shell = PythonShell(self._out_write, self._config, self._cwd)
        self._mark, self._branch_mark = self._table.mark(), None
        return shell

    def _op_branch(self, request: Message) -> Message | None:
        """End the last branch with all that it started. Make another branch and send the host the
        line to it.

        If no interpreter is alive, the branch is a copy of an empty one.
        """
        self._end_branch()
        if request.get("end"):
            return {}
        self._reap()
        shell = self._live_shell()
        assert isinstance(shell, PythonShell)
        self._branch_mark, self._jobs_alive = self._table.mark(), True
        for _ in range(_FORKS):
            line, branch_end = socket.socketpair()
            with branch_end:
                shell.request(b"B", b"", branch_end.fileno())
                if not self._wait(shell, _FORKING):
                    processes.kill(shell.pid)
                    self._wait(shell, _LAST_DEATH)
            if shell.exit_code == 0 or shell.dead:
                break
            _require_room()
        with line:
            wire.send(self._sock, {}, b"", (line.fileno(),))
        return None

    def _end_branch(self) -> None:
        """End a branch that has not been ended: kill its processes, again until none is left."""
        until = time.monotonic() + _LAST_DEATH
        while self._branch_mark and (alive := self._table.look_again(self._branch_processes)):
            if time.monotonic() > until:
                self._kill_all()
                break
            processes.send(alive, signal.SIGKILL)
            time.sleep(_LOOK_EVERY)
        self._mark, self._branch_mark = self._table.mark(), None

    def _branch_processes(self) -> list[processes.Process]:
        """Return the processes started since the branch, except the interpreter and those of
        earlier actions' jobs: these live on."""
        alive = [process for process in self._table.all() if process.pid not in self.session]
        assert self._branch_mark
        jobs = [process.pid for process in alive if not self._branch_mark.precedes(process)]
        jobs_alive = processes.with_descendants(alive, jobs)
        return [process for process in alive if process.pid not in jobs_alive]


def _become_interpreter(
    line: int, out: int, config: Message, become_agent: Callable[..., None]
) -> None:
    """In the child: give up what executing a program would take away. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        os.dup2(line, python_interpreter.LINE_FD, inheritable=False)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.closerange(3, python_interpreter.LINE_FD)
        os.closerange(python_interpreter.LINE_FD + 1, 1 << 16)
        become_agent(executes=False)
        own_line = socket.socket(fileno=python_interpreter.LINE_FD)
        python_interpreter.interpret(
            own_line, python_branch.serve, config["env"], *config["imports"]
        )
    finally:
        os._exit(1)


def prepare(config: Message) -> Message:
    """In the supervisor, while imports still work: load what every interpreter would load by
    itself, or encode the modules."""
    if not config["lent"]:
        return {**config, "texts": json.dumps(config["texts"]).encode()}
    for name in _PRELOADED:
        importlib.import_module(name)
    site.main()
    path = [entry for entry in sys.path if entry not in ("", "/")]
    return {**config, "imports": (path, list(sys.meta_path))}


def _require_room() -> None:
    """Raise OSError if not even this process can fork."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
