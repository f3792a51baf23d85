"""The wall around a worker's episodes: a keeper, what holds it in, and the line to it.

    Bubblewrap ── start ──► (spawner thread) ──► bwrap, as an unprivileged user, all namespaces new ──► keeper
       └── cell(sock) / end(number) ── frames on the keeper's descriptor 0

The other wall is a container (`docker/wall.py`).

bwrap dies with the *thread* that started it (prctl PR_SET_PDEATHSIG), so one thread that lives as long as the process
starts them all. Started by root, a wall runs as `UID`, which owns nothing else on the machine. A process forked while walls
stand closes its copies of their sockets and cannot use them.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from intercode.errors import SandboxDied, SandboxUnavailable, UsageError, room_left
from intercode.sandbox import seccomp
from intercode.sandbox.base import Limits, Program, Session
from intercode.sandbox.cache import GUEST, guest_folder
from intercode.sandbox.guest import wire
from intercode.sandbox.identity import identity
from intercode.sandbox.template import Template

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "HOSTNAME": "intercode",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "TZ": "UTC",
}
_SEEDED = {"PYTHONHASHSEED": "0"}
"""Sets of texts come in the same order in every interpreter."""
_START = "import sys; sys.path.insert(0, '/'); from guest.supervisor import main; main()"
_END = 5.0
"""Seconds that a wall may take to fall."""
_PAUSES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
"""Seconds to wait for too many processes to become fewer."""
_walls: weakref.WeakSet[Wall] = weakref.WeakSet()


@dataclass(frozen=True)
class Weakened:
    """What a test leaves off to see an attack succeed: system calls, doors of guest/namespaces.py. Never set elsewhere."""

    calls: frozenset[str] = frozenset()
    doors: frozenset[str] = frozenset()


class Wall(ABC):
    """What the walls have in common. Thread-safe; ends with `close`."""

    cwd = "/"
    """Where sessions begin."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._number = 0
        with room_left(), contextlib.ExitStack() as begun:
            self._errors: IO[bytes] = begun.enter_context(tempfile.TemporaryFile())
            self._control, self._process = self._start()
            begun.pop_all()
        _walls.add(self)

    @abstractmethod
    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """The line to the keeper, and the process that ends with it."""

    def cell(
        self, *, cwd: str | None = None, replaces: int | None = None, upper: int | None = None
    ) -> tuple[int, socket.socket]:
        """A new cell in place of another; its number and the socket to talk to it, once it is ready."""
        for pause in (0.0, *_PAUSES):
            time.sleep(pause)
            number, sock = self._ask_for_cell({"cwd": cwd or self.cwd, "replaces": replaces}, upper)
            if self._ready(sock):
                return number, sock
            replaces = number
        self.end(number)
        raise SandboxUnavailable(
            "there are too many processes for another sandbox: those of agents are too many, or the limit is too low "
            "(`ulimit -u`; of a container, its pids limit)"
        )

    def _ask_for_cell(self, about: dict[str, Any], upper: int | None) -> tuple[int, socket.socket]:
        with room_left():
            ours, theirs = socket.socketpair()
        with theirs, self._lock:
            self._number += 1
            fds = (theirs.fileno(),) if upper is None else (theirs.fileno(), upper)
            try:
                self._send({"op": "cell", "cell": self._number, **about}, fds)
            except BaseException:
                ours.close()
                raise
            return self._number, ours

    def end(self, number: int) -> None:
        with self._lock:
            self._send({"op": "end", "cell": number}, ())

    def close(self) -> None:
        """End everything inside and wait until it is gone."""
        if os.getpid() != self._pid:
            return
        self._control.close()
        try:
            self._process.wait(timeout=_END)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._errors.close()

    def _kill(self) -> None:
        self._process.kill()

    @property
    def closed(self) -> bool:
        return self._control.fileno() < 0

    def last_words(self) -> str:
        """What was said on the way out, by the keeper or around it."""
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        return self._errors.read(4096).decode(errors="replace").strip()

    def _introduce(
        self,
        plan: tuple[Any, ...],
        limits: Limits,
        session: Session,
        env: Mapping[str, str],
        *,
        weakened: Weakened | None = None,
        fds: tuple[int, ...] = (),
        own_network: bool = True,
    ) -> None:
        """Tell the keeper what its cells are to be; `plan` is that of `guest/mounts.py`."""
        weakened, texts = weakened or Weakened(), list[tuple[str, str]]()
        if self.program == "python":  # what an image's own python3 is sent to become a session
            from intercode.sandbox.guest.python_interpreter import MODULES  # and with it all that an interpreter needs

            texts = [(name, GUEST.joinpath(name + ".py").read_text()) for name in MODULES]
        config = {
            "mounts": plan,
            "env": {**env, **(_SEEDED if self.program == "python" else {})},
            "persistent": session == "persistent",
            "program": self.program,
            "lent": "/usr" in plan[1],
            "own_network": own_network,
            "texts": texts,
            "memory": limits.memory,
            "processes": limits.processes,
            "output": limits.output,
            "payload": 1 << 30,
            "disabled": sorted(weakened.doors),
            "rlimits": rlimits(limits),
        }
        try:
            wire.send(self._control, config, seccomp.program(leave_out=weakened.calls), fds)
        except OSError:
            fault = self._broken()
            self.close()
            raise fault from None

    def _send(self, head: dict[str, Any], fds: tuple[int, ...]) -> None:
        if os.getpid() != self._pid:
            raise UsageError("this sandbox belongs to the process that made it; make one in each process after forking")
        if self.closed:
            raise UsageError("the sandbox is closed")
        try:
            wire.send(self._control, head, b"", fds)
        except OSError:
            raise self._broken() from None

    def _ready(self, sock: socket.socket) -> bool:
        """Wait for a new cell. False: there are too many processes for it now, and `sock` is closed."""
        try:
            sock.settimeout(30)
            head, _ = wire.receive(sock, 0)
        except (OSError, EOFError, wire.WireError):
            sock.close()
            raise self._broken() from None
        if "ready" not in head:
            sock.close()
        if "failed" in head:
            raise SandboxUnavailable(f"a sandbox could not be set up: {head['failed']}; run `intercode doctor`")
        return "ready" in head

    def _broken(self) -> SandboxUnavailable | SandboxDied:
        """The wall fell: at once (this machine cannot hold one) or later."""
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return SandboxDied("the sandbox's keeper does not answer")
        words = self.last_words()
        if words:
            return SandboxUnavailable(f"the sandbox could not start: {words}; run `intercode doctor`")
        return SandboxDied(f"the sandbox's wall ended (status {self._process.returncode})")


class Bubblewrap(Wall):
    """A wall of namespaces made by bwrap. `template` says what the cells see; changes can be copied out to `export`."""

    def __init__(
        self,
        template: Template,
        limits: Limits,
        session: Session,
        *,
        export: Path | None = None,
        environment: Mapping[str, str] | None = None,
        weakened: Weakened | None = None,
        program: Program = "bash",
    ) -> None:
        _require_grants(limits)
        with room_left():
            self._command, self.cwd = _command(template), template.cwd
        super().__init__(program)
        plan = (len(template.layers), template.lent, template.covered, limits.disk, False)
        env = {**ENVIRONMENT, **template.environment} if environment is None else environment
        fds = (os.open(export, os.O_RDONLY | os.O_DIRECTORY),) if export else ()
        try:
            self._introduce(plan, limits, session, env, weakened=weakened, fds=fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        control, inside = socket.socketpair()

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                self._command,
                stdin=inside.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={"PATH": ENVIRONMENT["PATH"]},
                cwd="/",
                start_new_session=True,
                **identity().popen(),
            )

        with inside, contextlib.ExitStack() as begun:
            begun.enter_context(control)
            process = _spawner().call(start)
            begun.pop_all()
        return control, process


def rlimits(limits: Limits) -> dict[str, int]:
    return {
        "NPROC": limits.processes,
        "FSIZE": limits.file_size,
        "DATA": limits.memory,
        "NOFILE": limits.open_files,
        "CORE": 0,
        "MSGQUEUE": 819_200,
        "MEMLOCK": 1 << 16,
    }


def _require_grants(limits: Limits) -> None:
    """At least what a sandbox has by default, or the less that is asked for: else a gold or an agent would be blamed."""
    usual = Limits()
    for name, what, least in (
        ("NPROC", "processes (`ulimit -u`)", min(limits.processes, usual.processes)),
        ("NOFILE", "open files (`ulimit -n`)", min(limits.open_files, usual.open_files)),
    ):
        _, most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        if most != resource.RLIM_INFINITY and most < least:
            raise SandboxUnavailable(f"a sandbox needs {least} {what}, and {most} is the limit here; raise it")


def _command(template: Template) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnavailable("bubblewrap is not installed; mend it with: apt-get install bubblewrap")
    argv = [bwrap, "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    argv += ["--die-with-parent", "--as-pid-1", "--new-session", "--hostname", "intercode"]
    argv += ["--ro-bind", "/usr", "/usr", *usr_links(), "--proc", "/proc", "--dev", "/dev", "--dir", "/layers"]
    python, folders = guest_python()
    for folder in folders:
        argv += ["--ro-bind", folder, folder]
    argv += ["--ro-bind", str(guest_folder(python)), "/guest"]
    for number, layer in enumerate(template.layers):
        argv += ["--ro-bind", str(layer), f"/layers/{number}"]
    argv += [part for name, value in _SEEDED.items() for part in ("--setenv", name, value)]
    return [*argv, "--", python, "-s", "-S", "-B", "-c", _START]


def usr_links() -> list[str]:
    """/bin, /lib and their like: links into /usr where the host has merged them, folders elsewhere."""
    argv: list[str] = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/") / name
        if path.is_symlink():
            argv += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    return argv


def guest_python() -> tuple[str, list[str]]:
    """An interpreter that the wall's user can reach, and the folders beside /usr that it needs."""
    if os.access("/usr/bin/python3", os.X_OK):
        return "/usr/bin/python3", []
    base = os.path.realpath(sys.base_prefix)
    if os.getuid() == 0 and not identity().reaches(Path(base)):
        raise SandboxUnavailable(f"the sandbox's user cannot reach the Python at {base}; mend it with: apt-get install python3")
    return os.path.join(base, "bin", "python3"), [] if base.startswith("/usr") else [base]


class _Spawner(threading.Thread):
    """The thread whose children bwrap processes are."""

    def __init__(self) -> None:
        super().__init__(name="intercode-spawner", daemon=True)
        self.owner = os.getpid()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self.start()

    def call(self, job: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future.result()

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while True:
            job, future = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)


_spawner_lock = threading.Lock()
_current: _Spawner | None = None


def _spawner() -> _Spawner:
    global _current
    with _spawner_lock:
        if _current is None or _current.owner != os.getpid():
            _current = _Spawner()
        return _current


def _after_fork() -> None:
    """In a forked child: let go of the parent's walls, so that they end with the parent."""
    global _spawner_lock
    _spawner_lock = threading.Lock()
    for wall in list(_walls):
        wall._control.close()


os.register_at_fork(after_in_child=_after_fork)
