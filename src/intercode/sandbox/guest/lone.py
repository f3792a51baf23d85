"""The cell of a container that has no rooms: pid 1 in there, with the agent's processes beside it and nothing above.

    host ══ attached stdin, stdout ══► this, pid 1 ── snapshot of all files, then serves as any cell
                                        └── bash ── what the agent starts

`Caged` is one too, that of a tree: it says for itself how it is started, what its agent may touch and how it erases.

It builds no rooms and drops no rights: the container is the wall, and what erases is a new one; system calls are filtered as
behind the other wall. The agent is root beside it, so it sees to it that it cannot be touched. The kernel lets nobody kill
pid 1 from inside; `kernel.hide` closes its memory and its descriptors to others, and the filter its limits. What is left is to
starve it, which ends the container: the agent's fault.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, cast

from . import entry, kernel, places, processes, rooms, walk, wire
from .cell import Cell, Config
from .output import Output
from .shell import Job

_FIRST_NUMBER, _MOST_NUMBERS = 40, 4000
"""The runtime's threads use up some process numbers, now more, now fewer; the agent's begin with the same each time."""
_SHELLS = "bash", "sh"


class Line:
    """The two attached pipes as one socket; what stood at 0 and 1 is out of the agent's reach."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1):
            os.dup2(nothing, fd)
        os.close(nothing)

    def fileno(self) -> int:
        return self._in

    def recv(self, size: int) -> bytes:
        return os.read(self._in, size)

    def send(self, data: bytes) -> int:
        return os.write(self._out, data)

    def sendall(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._out, data) :]


class Itself(entry.Anchor):
    """Pid 1 of the agent's processes, which here is the cell."""

    def kill_all(self) -> None:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Everyone(processes.Table):
    """All in the container but the cell; users whose /proc entries are closed to it among them."""

    def _inside(self, pid: int) -> bool:
        return True


class Lone(Cell):
    lends = False

    def __init__(self, sock: socket.socket, config: Config, room: entry.Room) -> None:
        self._free, self._most, self._standing = _free(), config["disk"], _standing()
        self._known, self._devices = walk.look_at_all(_root()), walk.look_at_devices()
        super().__init__(sock, config, room)
        self._table.close()
        self._table = self._people(room)

    def _police(self) -> None:
        """As in a cell, but files on the container's disk are not memory; they have a limit of their own."""
        alive = self._table.all()
        self._watching = any(self._job is None or process.pid != self._job.pid for process in alive)
        if self._memory(alive) > self._config["memory"]:
            self._evict(f"memory limit of {self._config['memory'] >> 20} MiB")
        elif len(alive) >= self._config["processes"]:
            self._evict(f"limit of {self._config['processes']} processes")
        elif self._overfull():
            self._evict(f"disk limit of {self._config['disk'] >> 20} MiB")

    def _people(self, room: entry.Room) -> processes.Table:
        return Everyone(room.proc, room.anchor.pid)

    def _memory(self, alive: list[processes.Process]) -> int:
        return self._table.memory(alive) + _used("/dev/shm")

    def _overfull(self) -> bool:
        """The disk is shared with others: only when much of it has gone is it worth counting what was written here.

        What is there may stay, so that the agent can go on and remove it; nothing more may come.
        """
        limit = self._config["disk"]
        if self._most == limit and self._free - _free() <= limit:
            return False
        self._free, written = _free(), walk.written(self._root, self._known)
        over = bool(written > self._most)
        self._most = max(limit, written)
        return over

    def _op_diff(self, head: dict[str, Any], payload: bytes) -> None:
        """All that may have changed, as it is now; what is gone is None."""
        wire.send(self._sock, {"now": walk.changed(self._root, self._known)})

    def _op_renew(self, head: dict[str, Any], payload: bytes) -> None:
        """A new session, if nothing of the old one is left but used-up process numbers: those up to `number`, at least.

        Else `renewed` is false, and nothing is promised. It is decided when nobody is left who could change anything.
        """
        self._kill_all()
        renewed = _last_number() < _MOST_NUMBERS and self._untouched()
        _use_up(head["number"])
        last = _last_number()
        if renewed:
            self._begin_anew()
        wire.send(self._sock, {"renewed": renewed, "last_number": last})

    def _untouched(self) -> bool:
        if self._table.objects() or walk.look_at_devices() != self._devices or _standing() != self._standing:
            return False
        return walk.look_at_all(self._root) == self._known

    def _begin_anew(self, cwd: str | None = None) -> None:
        if self._job is not None:
            self._job.close()
        self._output.drain(self._out)
        self._output, self._cwd = Output(self._config["output"]), cwd or self._config["cwd"]
        self._watching, self._lost, self._status = False, False, 0
        self._job = self._shell() if self._config["persistent"] else None

    def _op_describe(self, head: dict[str, Any], payload: bytes) -> None:
        wire.send(self._sock, {"states": walk.describe(self._root, head["paths"])})

    def _op_files(self, head: dict[str, Any], payload: bytes) -> None:
        wire.send(self._sock, {"files": walk.files(self._root, frozenset(head["skip"]))})

    def _op_snapshot(self, head: dict[str, Any], payload: bytes) -> None:
        """There are no live copies; what would stand in the way of one stands in the way of a second execution too."""
        wire.send(self._sock, {"blockers": self._blockers()})


def _used(path: str) -> int:
    info = os.statvfs(path)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def _standing() -> tuple[Any, ...]:
    """What root beside this process may change of it (how it is scheduled, whom the kernel ends first), and connections."""
    told = [_told(f"/proc/self/{name}") for name in ("autogroup", "oom_score_adj")]
    lines = [_told(f"/proc/net/{name}").count("\n") for name in ("tcp", "tcp6")]
    return (*told, *lines, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0))


def _told(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _free() -> int:
    info = os.statvfs("/")
    return info.f_bfree * info.f_frsize + info.f_ffree * walk.INODE


def lacks_shell(path: str) -> bool:
    """Whether the image has none at all; one without bash is lent one."""
    found = [name for name in _SHELLS if any(os.access(f"{folder}/{name}", os.X_OK) for folder in path.split(":"))]
    if "bash" not in found:
        Job.bash = places.lent_bash(places.BUNDLE)
    return not found


def _hide() -> None:
    kernel.hide()
    with open("/proc/self/comm", "w") as name:
        name.write("init")


def _root() -> int:
    return os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _last_number() -> int:
    with open("/proc/sys/kernel/ns_last_pid") as last:
        return int(last.read())


def _use_up(number: int) -> None:
    """Process numbers up to this one."""
    while _last_number() < number:
        try:
            os.posix_spawn("/", ["/"], {})  # a folder: never executed, but it takes a number
        except OSError:
            continue


def main() -> None:
    sock = cast(socket.socket, Line())
    config, filter_program = wire.receive(sock, 1 << 20)
    if lacks_shell(config["env"].get("PATH", os.defpath)):
        wire.send(sock, {"shell": False})
        return
    entry.limit(config["rlimits"])
    _hide()
    kernel.install_filter(filter_program)
    _use_up(_FIRST_NUMBER)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    line, _ = socket.socketpair()
    cell = Lone(sock, config, entry.Room(rooms.Handles(-1, -1), proc, Itself(os.getpid(), line.fileno())))
    wire.send(sock, {"ready": True})
    try:
        cell.serve()
    finally:
        os._exit(0)
