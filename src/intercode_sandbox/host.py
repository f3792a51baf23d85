"""A host process around a worker's episodes: how it starts, and the control socket to its
supervisor.

    Host ── start ──► bwrap or a container, all namespaces new ──► supervisor, pid 1 in there
       └── start_episode / end_episode ── frames on the supervisor's control socket

Each provider derives its own host: `local.py` runs bubblewrap, `docker/container.py` a container. A
process forked while hosts run closes its copies of their sockets and cannot use them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from intercode_sandbox import seccomp
from intercode_sandbox.base import MIB, Limits, Program, Session
from intercode_sandbox.cache import GUEST
from intercode_sandbox.errors import SandboxDied, SandboxUnavailable, UsageError, room_left
from intercode_sandbox.guest import wire
from intercode_sandbox.identity import identity

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
    "TAR_OPTIONS": "--no-same-owner",
}
"""The variables of the agent's programs, where neither the image nor the caller sets them. A
sandbox has one user id, so tar, as root, would fail to give files to their owners."""
PYTHON_VARIABLES = {"PYTHONHASHSEED": "0"}
"""Makes every interpreter iterate over sets of strings in the same order."""
_END_SECONDS = 5.0
_STACK = 8 * MIB
# Signals that Python ignores, and `subprocess` restores.
_RESTORED = {signal.SIGPIPE, signal.SIGXFSZ}
_RESET = """
import os, signal, sys
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
os.execvp(sys.argv[1], sys.argv[1:])
"""
# Seconds to wait before each attempt while too many processes run.
_PAUSES = (0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28)
Process = subprocess.Popen[bytes]
Server = tuple[int, socket.socket]
"""An episode server: its number, and the socket to it."""
_hosts: weakref.WeakSet[Host] = weakref.WeakSet()


@dataclass(frozen=True)
class DisabledProtections:
    """Protections that a test switches off to see an attack succeed: system calls, and steps of
    `guest/namespaces.py`."""

    calls: Collection[str] = ()
    steps: Collection[str] = ()


@dataclass(frozen=True)
class HostOptions:
    """How sandboxes are opened, see `Provider.sandbox`. `environment` are all variables of the
    agent's programs. `export` is the folder that `GuestSandbox.export` may copy the changes to;
    `disabled` is for tests of protections only."""

    limits: Limits
    environment: Mapping[str, str] | tuple[tuple[str, str], ...]
    session: Session = "persistent"
    program: Program = "bash"
    cwd: str | None = None
    network: str = "none"
    root: bool = False
    export: Path | None = None
    disabled: DisabledProtections | None = None


class Host(ABC):
    """The process that holds the sandboxes of one worker. Thread-safe; ends with `close`. Sessions
    begin in the folder `cwd`."""

    force_copy = False
    """Begin episodes with a copy of the files instead of an overlay on them, as before Linux 6.6.
    Set by tests."""
    copies = False
    """Episodes have begun with a copy."""
    users = 0
    """The number of open sandboxes, which `GuestSandbox` counts."""
    spares = os.environ.get("INTERCODE_SPARE", "1") != "0"
    """Sandboxes start the episode server of their next episode while one is played."""

    def __init__(self, options: HostOptions, cwd: str) -> None:
        if options.program == "python" and options.session != "persistent":
            raise UsageError(
                "an interpreter is a persistent session: "
                "program='python' goes with session='persistent'"
            )
        self.options = options
        self.cwd = options.cwd or cwd
        self._pid = os.getpid()
        self._number = 0
        self._lock = threading.Lock()
        with room_left(), ExitStack() as begun:
            self._errors: IO[bytes] = begun.enter_context(tempfile.TemporaryFile())
            self._control, self._process = self._start()
            begun.pop_all()
        _hosts.add(self)

    @abstractmethod
    def _start(self) -> tuple[socket.socket, Process]:
        """Start the supervisor; return the socket to it, and the process that ends with it."""

    def start_episode(
        self,
        *,
        cwd: str | None = None,
        replaces: int | None = None,
        upper: int | None = None,
        spare: Server | None = None,
        sealed: Sequence[str] = (),
    ) -> Server:
        """Start an episode server in place of the one numbered `replaces`, or take the `spare`
        one; return its number and a socket when it is ready.

        `upper` is the descriptor of a folder whose files the episode begins with; for `sealed` see
        `Sandbox.seal`.
        """
        about: dict[str, Any] = {"op": "start", "cwd": cwd or self.cwd, "sealed": list(sealed)}
        about["replaces"] = replaces
        files = () if upper is None else (upper,)
        for pause in _PAUSES:
            time.sleep(pause)
            if spare:
                try:
                    with self._lock:
                        self._send({"op": "start", "number": spare[0], "replaces": replaces})
                except BaseException:
                    spare[1].close()
                    raise
            number, sock = spare or self._request_episode(about, *files)
            missing = self._await_ready(sock)
            if not missing:
                return number, sock
            spare = None
            about["replaces"] = number
        self.end_episode(number)
        raise SandboxUnavailable(
            f"this machine has no room for another sandbox ({missing}): "
            "agents have too many processes or descriptors, "
            "or the limit is too low (`ulimit -u`, `ulimit -n`; of a container, its pids limit)"
        )

    def request_spare(self, *, beside: int, sealed: Sequence[str]) -> Server:
        """Ask for an episode server that starts when the episode numbered `beside` is quiet, or
        when `start_episode` needs it."""
        about = {"op": "spare", "cwd": self.cwd, "beside": beside, "sealed": list(sealed)}
        return self._request_episode(about)

    def _request_episode(self, about: dict[str, Any], *files: int) -> Server:
        with room_left():
            sock, guest_end = socket.socketpair()
        with guest_end, self._lock:
            self._number += 1
            try:
                self._send({"number": self._number, **about}, guest_end.fileno(), *files)
            except BaseException:
                sock.close()
                raise
            return self._number, sock

    def _await_ready(self, sock: socket.socket) -> str:
        """Wait for a new episode server; return "", or, with `sock` closed, what the machine has no
        room for now."""
        try:
            sock.settimeout(30)
            head, _ = wire.receive(sock, 0)
        except (OSError, EOFError, wire.WireError):
            sock.close()
            raise self._death() from None
        self.copies = bool(head.get("copied"))
        if "ready" in head:
            return ""
        sock.close()
        if "failed" in head:
            raise SandboxUnavailable(
                f"a sandbox could not be set up: {head['failed']}; run `intercode doctor`"
            )
        return str(head["later"])

    def end_episode(self, number: int) -> None:
        with self._lock:
            self._send({"op": "end", "number": number})

    def close(self) -> None:
        """End everything inside and wait until it is gone."""
        if os.getpid() != self._pid:
            return
        self._control.close()
        try:
            self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._errors.close()

    def _kill(self) -> None:
        self._process.kill()

    @property
    def closed(self) -> bool:
        return self._control.fileno() < 0

    def error_text(self) -> str:
        """Return the error output of the supervisor or of the program that started it."""
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        return self._errors.read(4096).decode(errors="replace").strip()

    def _configure(
        self, mounts: tuple[Any, ...], pod: tuple[Any, ...] | None = None, fds: tuple[int, ...] = ()
    ) -> None:
        """Send the supervisor the settings of its episodes.

        `mounts` are the fields of `MountConfig` in `guest/mounts.py`, `pod` those of `PodConfig` in
        `guest/pod.py`.
        """
        limits = self.options.limits
        network = self.options.network != "none"
        disabled = self.options.disabled or DisabledProtections()
        variables = dict(self.options.environment)
        texts = []
        if self.options.program == "python":
            # imports all that an interpreter needs
            from intercode_sandbox.guest.python_interpreter import MODULES

            # these make an image's own python3 a session
            texts = [(name, GUEST.joinpath(name + ".py").read_text("utf-8")) for name in MODULES]
            variables |= PYTHON_VARIABLES
        config = {
            "mounts": mounts,
            "env": variables,
            "persistent": self.options.session == "persistent",
            "program": self.options.program,
            "lent": "/usr" in mounts[1],
            "own_network": not network and pod is None,
            "sockets": network,
            "pod": pod,
            "texts": texts,
            **asdict(limits),
            "hits": limits.hits(),
            "payload": 1 << 30,
            "disabled": sorted(disabled.steps),
            "rlimits": {
                **shared_limits(limits),
                "CORE": 0,
                "MSGQUEUE": 819_200,
                "MEMLOCK": 1 << 16,
                "SIGPENDING": 1024,
            },
        }
        filters = seccomp.programs(
            leave_out=disabled.calls, shared=pod is not None, sockets=network
        )
        config["filters"] = list(map(len, filters))
        try:
            wire.send(self._control, config, b"".join(filters), fds)
        except OSError:
            error = self._death()
            self.close()
            raise error from None

    def _send(self, head: dict[str, Any], *fds: int) -> None:
        require_open(self._pid, closed=self.closed)
        try:
            wire.send(self._control, head, b"", fds)
        except OSError:
            raise self._death() from None

    def _death(self) -> SandboxUnavailable | SandboxDied:
        """Return the error for a host that ended: at the start, since this machine cannot run one,
        or later."""
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return SandboxDied("the sandbox's supervisor does not answer")
        text = self.error_text()
        if text:
            return SandboxUnavailable(
                f"the sandbox could not start: {text}; run `intercode doctor`"
            )
        return SandboxDied(f"the sandbox's host process ended (status {self._process.returncode})")


def require_open(pid: int, *, closed: bool) -> None:
    """Raise `UsageError` for a sandbox that another process made, or that is closed."""
    if os.getpid() != pid:
        raise UsageError(
            "this sandbox belongs to the process that made it; "
            "make one in each process after forking"
        )
    if closed:
        raise UsageError("the sandbox is closed")


def shared_limits(limits: Limits) -> dict[str, int]:
    """Return the resource limits of each of an agent's processes, which this machine must allow."""
    return {
        "NPROC": limits.processes,
        "NOFILE": limits.open_files,
        "FSIZE": limits.file_size,
        "DATA": limits.memory,
        "STACK": _STACK,
    }


def start_clean(command: list[str], **options: Any) -> Process:
    """Start a program that inherits no signals, signal mask or umask from this process that could
    change what agents do.

    Ignored signals are inherited by all that a program starts, and only code that runs in between
    can reset them.
    """
    inherited = map(signal.getsignal, signal.valid_signals() - _RESTORED)
    if signal.SIG_IGN in inherited:
        command = [guest_python()[0], "-I", "-S", "-c", _RESET, *command]
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        return subprocess.Popen(
            command,
            cwd="/",
            umask=0o022,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            **options,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def guest_python() -> tuple[str, list[str]]:
    """Return an interpreter that the sandboxes' user can reach, and the folders outside /usr that
    it needs."""
    if os.access("/usr/bin/python3", os.X_OK):
        return "/usr/bin/python3", []
    base = os.path.realpath(sys.base_prefix)
    if os.getuid() == 0 and not identity().reaches(Path(base)):
        raise SandboxUnavailable(
            f"the sandbox's user cannot reach the Python at {base}; run: apt-get install python3"
        )
    outside = [base] if not base.startswith("/usr") else []
    return os.path.join(base, "bin", "python3"), outside


def _close_after_fork() -> None:
    """In a forked child, close the sockets of the parent's hosts, so that the hosts end with the
    parent."""
    for host in list(_hosts):
        host._control.close()


os.register_at_fork(after_in_child=_close_after_fork)
