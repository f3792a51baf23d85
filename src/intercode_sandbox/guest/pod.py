"""The supervisor where no namespaces can be made, as root in an ordinary container: it isolates an
agent by a user, a root and a filter.

    host ══ frames ══► supervisor
      ├─ fork ──► episode server: chroot to the slot's root, Landlock, filter
      │             └─ fork ──► setuid to the slot's user ──► the agent's shell and programs
      └─ fork, once a slot ──► warden: signals all processes of the slot's user, at the latest when
                               the supervisor ends

A slot is a root folder with a user of its own, for one episode at a time. Nobody else runs as that
user: so the user's processes are the episode's, and `OwnFiles` puts back everything that the user
may write. Slots stay on disk for the next supervisor; a lock says which are in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from . import kernel, layers, namespaces, own_files, processes, supervisor, wire
from .light import Message, NamedTuple, signal, socket
from .own_files import OwnFiles

_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}

_DYING = 0.0005
_LAST_DEATH = 5.0
_DISK_SHARE = 10
"""After measuring how much an agent has written, wait this many times as long as that took."""
_FEW = 16
_STRIDE = 64


class PodConfig(NamedTuple):
    """The host's settings. The slots' users are `first_user`, `first_user` + 2, …, those of the
    wardens are between them."""

    slots: str
    """A folder for slots."""
    start: str
    """The folder of files with which an agent begins."""
    userland: list[tuple[str, str]]
    """Names in the agent's /, and the folders whose files the agent can read there."""
    first_user: int
    most: int
    disk: int


class Slot:
    """A root folder and a user for one episode at a time."""

    def __init__(self, folder: str, user: int, config: PodConfig) -> None:
        self.root, self.user = f"{folder}/root", user
        self.init = _start_warden(user)
        self.table = UserProcesses(kernel.open_folder("/proc"), user)
        self.end_processes(self.table.any_elsewhere)
        fixed = {name for name, _ in config.userland}.union(wire.POD_FOLDERS)
        _prepare_root(folder, self.root, config.userland)
        self.files = OwnFiles(config.start, self.root, user, fixed)

    def put_back(self) -> None:
        """Restore the root to its state when the slot was new."""
        self.files.put_back()
        _set_device_times(self.root)

    def close(self) -> None:
        """End the warden."""
        os.close(self.init.line)
        os.waitpid(self.init.pid, 0)

    def end_processes(self, any_left: Callable[[], object]) -> None:
        """End all processes of the slot's user; `any_left` returns whether any are left."""
        until = time.monotonic() + _LAST_DEATH
        while True:
            self.init.signal_all(signal.SIGKILL)
            if not any_left():
                break
            if time.monotonic() > until:
                raise OSError(f"processes of user {self.user} do not end")
            time.sleep(_DYING)


class PodWorld(namespaces.EpisodeWorld):
    """The world of an episode in a slot."""

    def __init__(self, slot: Slot, disk: int, limits: dict[str, int]) -> None:
        self.table, self.init = slot.table, slot.init
        self.files = self.below_seals = slot.files.root
        self._slot, self._disk, self._limits, self._next_look = slot, disk, limits, 0.0

    def diff(self) -> layers.Changes:
        return self._slot.files.changes()

    def export(self, target: int) -> None:
        self._slot.files.export(target)

    def memory_used(self) -> int:
        return 0

    def disk_is_full(self) -> bool:
        """Return False: other files on the machine's disk may have filled it."""
        return False

    def disk_exceeded(self) -> bool:
        """Measure so seldom that measuring takes a small part of the time."""
        began = time.monotonic()
        if began < self._next_look:
            return False
        exceeded = self._slot.files.growth() > self._disk
        now = time.monotonic()
        self._next_look = now + _DISK_SHARE * (now - began)
        return exceeded

    def as_agent(self) -> contextlib.AbstractContextManager[None]:
        return _as_user(self._slot.user)

    def become_agent(self, *, executes: bool) -> None:
        """In a child of the episode server: give up all rights that the agent does not have."""
        namespaces.set_limits(self._limits)
        user = self._slot.user
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        kernel.die_with_parent()
        kernel.let_be_seen()


class UserProcesses(processes.Tree):
    """The processes of a user."""

    def __init__(self, proc: int, user: int) -> None:
        self.proc, self._user, self._init = proc, user, 0
        self._last_pid = os.open("sys/kernel/ns_last_pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self._needle = b"\nUid:\t%d\t" % user

    def _descendants(self) -> Iterator[int]:
        return (
            pid for pid in super()._descendants() if self._needle in self._read(f"{pid}/status")
        )

    def any_elsewhere(self) -> bool:
        """Return whether the user has processes that are not below this one, as an earlier
        supervisor may have left some."""
        for pid in map(int, filter(str.isdigit, os.listdir(self.proc))):
            if self._needle in self._read(f"{pid}/status") and self._process(pid):
                return True
        return False

    def _shared_memory(self, alive: list[processes.Process]) -> int:
        """Count every descriptor as a socket, except a few of each process. There are no System V
        objects."""
        descriptors = 0
        for process in alive:
            with contextlib.suppress(OSError), self._folder(f"{process.pid}/fd") as folder:
                descriptors += max(len(os.listdir(folder)) - _FEW, 0)
        return descriptors * processes.SOCKET_BUFFER

    def ipc_objects(self) -> list[tuple[str, int]]:
        return []

    def cwd(self, pid: int) -> str | None:
        with _as_user(self._user):
            return super().cwd(pid)

    def attached(self, alive: list[processes.Process]) -> int:
        with _as_user(self._user):
            return super().attached(alive)

    def foreign_descriptors(self, pid: int, pipes: Iterable[int]) -> list[str]:
        with _as_user(self._user):
            return super().foreign_descriptors(pid, pipes)


class PodSupervisor(supervisor.Supervisor):
    """See `Supervisor` for the requests."""

    def _prepare(self) -> None:
        self._pod = PodConfig(*self._config["pod"])
        self._used, self._free = dict[int, Slot](), list[Slot]()
        self._names = list[socket.socket]()
        """Sockets named after the users in use: a lock in one cache does not hold in another."""
        os.setgroups([])
        os.umask(0o022)

    def serve(self) -> None:
        super().serve()
        for number in list(self._used):
            self._kill(number)
        for slot in self._free:
            slot.close()

    def _clone(self, head: Message, inherited: int | None = None) -> int:
        slot = self._used[head["number"]] = self._free.pop() if self._free else self._new_slot()
        if inherited is not None:
            slot.files.adopt(inherited)
        slot.files.seal(head["sealed"])
        return os.fork()

    def _kill(self, number: int) -> None:
        """End an episode and put its slot back."""
        if number not in self._used:
            return
        slot = self._used.pop(number)
        if pid := self._pids.pop(number, None):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        try:
            slot.end_processes(lambda: self._any_left(slot))
            slot.put_back()
        except OSError:  # such as a full disk: its lock keeps the slot from others
            slot.close()
            return
        self._free.append(slot)

    def _reap(self) -> None:
        """Do nothing: `_kill` has waited for the processes."""

    def _any_left(self, slot: Slot) -> bool:
        """Return whether processes of a slot live, and reap those that do not."""
        alive = slot.table.all()
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._forget([pid])
        return bool(alive)

    def _new_slot(self) -> Slot:
        """Lock the first folder and user that nobody uses, for as long as this process lives.

        Each container begins with another user: the kernel counts a user's processes in all
        containers together.
        """
        begin = os.stat("/proc/self/ns/pid").st_ino * _STRIDE
        for number in range(self._pod.most):
            folder = f"{self._pod.slots}/{number}"
            user = self._pod.first_user + 2 * ((begin + number) % self._pod.most)
            os.makedirs(folder, exist_ok=True)
            lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            name = socket.socket(socket.AF_UNIX)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                name.bind(f"\0intercode-pod-{user}")
            except OSError:  # another process uses the folder, or the user with another cache
                os.close(lock)
                name.close()
                continue
            self._names.append(name)
            return Slot(folder, user, self._pod)
        raise OSError(
            f"all {self._pod.most} users that this container may have for sandboxes are in use"
        )

    def _enter(self, config: Message, inherited: int | None = None) -> PodWorld:
        """In the episode server: leave for the slot's root, and give up what is not needed any
        more."""
        slot = self._used[config["number"]]
        kernel.adopt_orphans()
        namespaces.write("/proc/self/oom_score_adj", "1000")
        os.chroot(slot.root)
        os.chdir("/")
        kernel.drop_capabilities(namespaces.USER_RIGHTS)
        writable = [slot.files.root]
        if config["export"] is not None:
            writable.append(config["export"])
        readable = [slot.table.proc, slot.files.start]
        kernel.confine(writable, readable, sockets=config["sockets"])
        kernel.install_filter(self._seccomp)
        return PodWorld(slot, self._pod.disk, config["rlimits"])


def main() -> None:
    """Run as root, with the control socket as descriptor 0."""
    supervisor.main(PodSupervisor)


def _start_warden(user: int) -> namespaces.Init:
    """Start the warden of a user.

    The warden's real user is another one (the next), and it has the agent's rights only while it
    signals: so the agent can neither signal nor slow it.
    """
    line, warden_end = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(warden_end.fileno(), 0)
            os.closerange(1, 1 << 16)
            os.setresuid(user + 1, 0, 0)
            while number := os.read(0, 1):
                _kill_all(user, number[0])
                os.write(0, number)
        finally:
            _kill_all(user, signal.SIGKILL)
            os._exit(0)
    warden_end.close()
    return namespaces.Init(pid, line.detach())


def _kill_all(user: int, number: int) -> None:
    """Send a signal to all processes of a user, in one system call. Only for a process whose real
    user nobody else has."""
    os.seteuid(user)
    with contextlib.suppress(OSError):  # there are none
        os.kill(-1, number)
    os.seteuid(0)


def _prepare_root(folder: str, root: str, userland: list[tuple[str, str]]) -> None:
    """Fill a slot's root with the files that agents cannot change, unless they are there
    already."""
    content = repr((userland, own_files.NEVER_READ))
    with contextlib.suppress(FileNotFoundError), open(f"{folder}/made", encoding="utf-8") as file:
        if file.read() == content:
            return
    _run("rm", "-rf", "--", root, f"{folder}/made")
    os.mkdir(root)
    touch = f"-exec touch -h -a -d @{own_files.NEVER_READ} {{}} +"
    chmod = "! -type l -perm -o+w -exec chmod o-w {} +"
    for name, source in userland:
        _run("cp", "-al", "--remove-destination", "-T", "--", source, f"{root}/{name}")
        _run("find", f"{root}/{name}", *touch.split(), *chmod.split())
    for name in wire.POD_FOLDERS:
        os.mkdir(f"{root}/{name}")
    os.mkdir(root + own_files.SHM)
    for name, numbers in _DEVICES.items():
        os.mknod(f"{root}/dev/{name}", stat.S_IFCHR, os.makedev(*numbers))
        os.chmod(f"{root}/dev/{name}", 0o666)
    _set_device_times(root)
    with open(f"{folder}/made", "w", encoding="utf-8") as file:
        file.write(content)


def _set_device_times(root: str) -> None:
    """Give devices and the folders in `POD_FOLDERS` the time of /usr, the same in all slots."""
    time = os.stat(f"{root}/usr").st_mtime_ns
    for name in (*wire.POD_FOLDERS, *(f"dev/{name}" for name in _DEVICES)):
        os.utime(f"{root}/{name}", ns=(time, time))


def _run(*words: str) -> None:
    if os.spawnvp(os.P_WAIT, words[0], words):
        raise OSError(f"{' '.join(words)} failed")


@contextlib.contextmanager
def _as_user(user: int) -> Iterator[None]:
    """Use only the rights of a user within the block."""
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        kernel.die_with_parent()  # the kernel forgets this when a process changes its user
