"""The cell of a tree that its agent cannot leave: no namespaces, so it has what a user of its own and `chroot` give.

    host ══ socket ══► this, root, in the tree ── takes stock of all files, then serves as any cell
                        └── bash ── what the agent starts: an unprivileged user that nobody else on the machine is

The agent's processes are those of its user, wherever they went; so they are found, and ended at one stroke. It can touch
none of root's, this one among them, and has no /proc to see them in. What was changed is made as it was from the template.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from . import entry, kernel, mend, processes, rooms, walk, wire
from .cell import Cell
from .lone import Lone
from .shell import Job

HANGMEN = 90
"""What the user that ends another user's processes is above that one: nobody of those may touch it."""


class Hangman(entry.Anchor):
    """Ends all processes of `uid` at one stroke: as their user it reaches no others, its real one is out of their reach."""

    uid: int

    def kill_all(self) -> None:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                _end_all(self.uid)
            os._exit(0)
        os.waitpid(pid, 0)


def _end_all(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid + HANGMEN, uid, uid + HANGMEN)
    os.kill(-1, signal.SIGKILL)


class Kin(processes.Table):
    """All processes of one user."""

    def __init__(self, proc: int, anchor: int, uid: int) -> None:
        super().__init__(proc, anchor)
        self._uid = b"\nUid:\t%d\t" % uid
        self._as_user = partial(_as_user, uid)

    def _inside(self, pid: int) -> bool:
        return self._uid in self._read(f"{pid}/status")

    def cwd(self, pid: int) -> str | None:
        with self._as_user():
            return super().cwd(pid)

    def descriptors(self, pid: int) -> dict[int, str]:
        with self._as_user():
            return super().descriptors(pid)

    def objects(self) -> list[processes.Object]:
        """The filter refuses to make any."""
        return []

    def memory(self, alive: list[processes.Process]) -> int:
        """Sockets are counted for the machine only."""
        return sum(self._held(process.pid) for process in alive)


@contextlib.contextmanager
def _as_user(uid: int) -> Iterator[None]:
    """What only the owner may see, in containers whose root may not trace others; what only the owner should be able to do."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Caged(Lone):
    heritage: int

    def __init__(self, sock: socket.socket, config: dict[str, Any], room: entry.Room) -> None:
        super().__init__(sock, config, room)
        self._unseen = _unseen()

    def _people(self, room: entry.Room) -> processes.Table:
        return Kin(room.proc, room.anchor.pid, self._config["uid"])

    def _memory(self, alive: list[processes.Process]) -> int:
        return self._table.memory(alive)

    def _op_write(self, head: dict[str, Any], payload: bytes) -> None:
        with _as_user(self._config["uid"]):
            super()._op_write(head, payload)

    def _op_diff(self, head: dict[str, Any], payload: bytes) -> None:
        found = walk.changed(self._root, self._known)
        before = walk.describe(self._files.lower, found)
        changes = {path: _change(before[path], now) for path, now in found.items() if before[path] != now}
        wire.send(self._sock, {"changes": changes})

    def _op_reset(self, head: dict[str, Any], payload: bytes) -> None:
        self._kill_all()
        self._put_back()
        _empty("/dev/shm")
        if paths := walk.changed(self._root, self._known):
            mend.mend(self._root, self._files.lower, paths, self._config["uid"])
            self._known = walk.look_at_all(self._root)
        self._begin_anew()
        wire.send(self._sock, {})

    def _put_back(self) -> None:
        """The folders that are not looked at: the one above them is the agent's, who can put others in their place."""
        now = _unseen()
        if now["/dev"] != self._unseen["/dev"]:
            raise SystemExit("/dev was replaced: this tree cannot be mended")
        for path in [path for path, seen in now.items() if seen != self._unseen[path]]:
            if now[path]:
                mend.remove(self._root, path[1:])
            os.mkdir(path, 0o755)
        self._unseen = _unseen()

    def _op_settle(self, head: dict[str, Any], payload: bytes) -> None:
        """Nothing but files is left; what stands outlives the cell."""
        self._kill_all()
        wire.send(self._sock, {})

    def _op_snapshot(self, head: dict[str, Any], payload: bytes) -> None:
        Cell._op_snapshot(self, head, payload)

    def _op_changed(self, head: dict[str, Any], payload: bytes) -> None:
        """What a copy has to take from here."""
        wire.send(self._sock, {"paths": list(walk.changed(self._root, self._known))})

    def _op_inherit(self, head: dict[str, Any], payload: bytes) -> None:
        """These paths as the tree has them that came with the configuration, and a new session in a folder of it."""
        self._kill_all()
        mend.mend(self._root, self.heritage, head["paths"], self._config["uid"])
        self._begin_anew(head["cwd"])
        wire.send(self._sock, {})


def _change(before: dict[str, Any] | None, now: dict[str, Any] | None) -> dict[str, Any]:
    if now is None:
        return {"kind": "removed", "type": (before or {})["type"]}
    return {"kind": "changed" if before else "added", **now}


def _unseen() -> dict[str, tuple[int, int, int] | None]:
    """Which folders stand where `walk` does not look; None for one that is not there."""
    found = {path: walk.look_at(path) for path in walk.LEFT_OUT}
    return {path: (info.st_ino, info.st_mode, info.st_uid) if info else None for path, info in found.items()}


def _empty(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    for name in os.listdir(folder):
        mend.remove(folder, name)
    os.close(folder)


def _start(
    config: dict[str, Any],
    filter_program: bytes,
    proc: int,
    program: str,
    argv: list[str],
    env: dict[str, str],
    *,
    file_actions: list[tuple[Any, ...]],
    setsigdef: list[int],
    **_: Any,
) -> int:
    """As `os.posix_spawnp` in a new session, but what it starts has the agent's user, limits and filter."""
    trouble, failed = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            _dress(file_actions, setsigdef)
            _become(config, filter_program, proc)
            os.execvpe(program, argv, env)
        except OSError as error:
            os.write(failed, bytes([error.errno or 1]))
        finally:
            os._exit(127)
    os.close(failed)
    with open(trouble, "rb") as words:
        said = words.read()
    if said:
        os.waitpid(pid, 0)
        raise OSError(said[0], os.strerror(said[0]))
    return pid


def _dress(file_actions: list[tuple[Any, ...]], default: list[int]) -> None:
    os.setsid()
    for number in default:
        signal.signal(number, signal.SIG_DFL)
    for action, *words in file_actions:
        if action == os.POSIX_SPAWN_DUP2:
            os.dup2(*words)
        else:
            fd, path, flags, mode = words
            os.dup2(os.open(path, flags, mode), fd)


def _become(config: dict[str, Any], filter_program: bytes, proc: int) -> None:
    with open(os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=proc), "w") as score:
        score.write("1000")
    entry.limit(config["rlimits"])
    os.setgroups([])
    os.setresgid(*[config["uid"]] * 3)
    os.setresuid(*[config["uid"]] * 3)
    kernel.install_filter(filter_program)


def sweep(uid: int) -> None:
    """End what is left of a cage whose cell could not do it itself."""
    with contextlib.suppress(ProcessLookupError):
        _end_all(uid)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=os.dup(0))
    config, filter_program, fds = wire.receive_with_fds(sock, 1 << 20)
    home, template, *heritage = fds
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    hangman = Hangman(os.getpid(), sock.fileno())
    hangman.uid = config["uid"]
    hangman.kill_all()
    _settle_down(home)
    Job.start = staticmethod(partial(_start, config, filter_program, proc))
    files = rooms.Handles(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), template)
    cell = Caged(sock, config, entry.Room(files, proc, hangman))
    cell.heritage = heritage[0] if heritage else template
    wire.send(sock, {"ready": True})
    try:
        cell.serve()
    finally:
        hangman.kill_all()
        _bury()
        os._exit(0)


def _bury() -> None:
    """All of them, else they stay with a pid 1 that may reap nobody, and count as their user's for the next cell."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _settle_down(home: int) -> None:
    """From here on nothing is imported: this process is root among the agent's files."""
    kernel.adopt_orphans()
    sys.path.clear()
    sys.meta_path.clear()
    os.umask(0o022)
    os.fchdir(home)
    os.chroot(".")
