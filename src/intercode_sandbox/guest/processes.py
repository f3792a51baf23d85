"""The agent's processes, seen from the supervisor's /proc: which live, their memory, when they
started; and how to stop them.

The agent's processes are recognized by their pid namespace, or, if a process lets nobody see its
namespace (`PR_SET_DUMPABLE`, a program that cannot be read), by their parents. Pids are the
supervisor's; `inner_pid` gives the pid that the agent sees.

A process started after a `Mark` if its pid is above the last pid then given out, or (when pids
wrapped around) its start tick is later. Processes that die during a scan are left out. A process
whose first thread has ended looks like a zombie, and reports no memory under its own pid, as long
as other threads of it go on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from . import kernel
from .light import NamedTuple, signal
from .room import require_room

_TICKS = os.sysconf("SC_CLK_TCK")
_MEMORY_LINES = (b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")
_LOOKS, _LOOK_EVERY, _FIRST_SAVED = 10, 0.001, 10
_DOUBT = 0.03
_STOPPED, _STOPPING = b"TtZX", 2.0
_EXITING = 4  # the kernel's PF_EXITING
_MOST_ATTACHED, _SHARE_OF_WATCHES = 1 << 18, 16
SOCKET_BUFFER = 212_992  # the default size


class Mark(NamedTuple):
    pid: int
    tick: int

    def precedes(self, process: Process) -> bool:
        return process.pid > self.pid or process.tick > self.tick


class Process(NamedTuple):
    pid: int
    parent: int
    name: str
    tick: int


class ProcessTable:
    """`proc` is a descriptor of the supervisor's /proc, `init` the process that is pid 1 for the
    agent, `link` a link to its pid namespace."""

    def __init__(self, proc: int, init: int, link: str = "") -> None:
        self.proc, self._init = proc, init
        self._last_pid = os.open("sys/kernel/ns_last_pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self._namespace = os.readlink(link or f"{init}/ns/pid", dir_fd=proc)

    def mark(self) -> Mark:
        return Mark(self.last_pid(), int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS))

    def last_pid(self) -> int:
        """Return the pid that was given out last."""
        return int(os.pread(self._last_pid, 32, 0))

    def all(self) -> list[Process]:
        """Return every living process but init; a zombie lives until its last thread has ended."""
        outside = {self._init, os.getpid()}
        alive, tops = list[Process](), set(outside)
        for pid in sorted(map(int, filter(str.isdigit, os.listdir(self.proc)))):
            is_inside = pid not in outside and self._is_inside(pid)
            if is_inside:
                tops.add(pid)
            if is_inside is not False and (process := self._process(pid)):
                alive.append(process)
        # the rest hide their namespace: init adopts orphans, and this process starts the shell
        inside = with_descendants(alive, tops)
        return [process for process in alive if process.pid in inside]

    def _is_inside(self, pid: int) -> bool | None:
        """Return None if the process lets nobody see its namespace."""
        try:
            return os.readlink(f"{pid}/ns/pid", dir_fd=self.proc) == self._namespace
        except PermissionError:
            return None
        except OSError:
            return False

    def _process(self, pid: int) -> Process | None:
        text = self._read(f"{pid}/stat")
        if not text:
            return None
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        if fields[0] in (b"Z", b"X") and int(fields[17]) < 2:
            return None
        name = head.partition(b"(")[2].decode(errors="replace")
        return Process(pid, int(fields[1]), name, int(fields[19]))

    def started_since(self, mark: Mark) -> list[Process]:
        return self.look_again(lambda: list(filter(mark.precedes, self.all())))

    def look_again(self, look: Callable[[], list[Process]]) -> list[Process]:
        """Return the processes that `look` finds. If it finds none while others start, look again:
        each may start the next and end."""
        until = time.monotonic() + _DOUBT
        while True:
            before = self.last_pid()
            if (processes := look()) or self.last_pid() == before or time.monotonic() > until:
                return processes

    def init_is_ending(self) -> bool:
        """Return True while init has ended but is still there: until all others inside are gone,
        and their parents know it."""
        words = self._read(f"{self._init}/stat").rpartition(b")")[2].split()
        return bool(words) and bool(int(words[6]) & _EXITING)

    def init_status(self) -> int:
        """Return the status that the parent of init gets, once init has ended."""
        return int(self._read(f"{self._init}/stat").split()[-1])

    def inner_pid(self, pid: int) -> int:
        for line in self._status(str(pid)):
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
        return pid

    @contextlib.contextmanager
    def pause_all(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop` and wait until all processes have stopped. At the end, continue those that
        were not stopped before.

        A process that waits for a child to execute a program (vfork) is paused with the child.
        """
        before = {p.pid for p in self.all() if self._threads_are(p.pid, _STOPPED)}
        stop()
        try:
            until = time.monotonic() + _STOPPING
            while time.monotonic() < until and not self._have_stopped():
                time.sleep(_LOOK_EVERY)
            yield
        finally:  # children first: then no shell sees a job of its own stopped
            send([p for p in reversed(self.all()) if p.pid not in before], signal.SIGCONT)

    def _have_stopped(self) -> bool:
        alive = self.all()
        parents = {process.parent for process in alive}
        for pid, *_ in alive:
            states = _STOPPED
            if pid in parents:
                states += b"D"
            if not self._threads_are(pid, states):
                return False
        return True

    def _threads_are(self, pid: int, states: bytes) -> bool:
        """Return True if each thread of the process is in one of these states, or gone."""
        threads = (self._read(f"{pid}/task/{thread}/stat") for thread in self._threads(pid))
        return all(text.rpartition(b")")[2][1:2] in states for text in threads)

    def memory(self, alive: list[Process]) -> int:
        """Return the bytes held by these processes, by System V objects and by socket buffers, as
        if all buffers were full.

        A process's private and shared pages (once for each process), swap and page tables count,
        not the pages of files.
        """
        used = 0
        for process in alive:  # threads share memory: take the first that has not ended
            pid = process.pid
            threads = (f"{pid}/task/{thread}" for thread in self._threads(pid))
            for folder in chain([str(pid)], threads):
                size = 0
                for line in self._status(folder):
                    if line.startswith(_MEMORY_LINES):
                        size += int(line.split()[1]) << 10
                if size:
                    used += size
                    break
        return used + self._shared_memory(alive)

    def _shared_memory(self, alive: list[Process]) -> int:
        """Return the bytes of System V objects and socket buffers."""
        words = self._read(f"{self._init}/net/sockstat").split(maxsplit=3)
        return kernel.ipc_size() + (int(words[2]) if len(words) > 2 else 0) * SOCKET_BUFFER

    @property
    def most_attached(self) -> int:
        """The most epoll watches and record locks of an episode: each takes some 200 bytes of the
        kernel's memory, and all sandboxes of a user share a number of watches."""
        watches = int(self._read("sys/fs/epoll/max_user_watches") or _MOST_ATTACHED)
        return min(_MOST_ATTACHED, watches // _SHARE_OF_WATCHES)

    def attached(self, alive: list[Process]) -> int:
        """Return how many epoll watches and record locks hang on these processes' descriptors; the
        count stops beyond `most_attached`. It costs about 6 µs for each descriptor.

        Descriptors that are in flight or in a table of a single thread are not seen.
        """
        attached, most = 0, self.most_attached
        for process in alive:
            with contextlib.suppress(OSError), self._folder(f"{process.pid}/fdinfo") as folder:
                for fd in os.listdir(folder):
                    text = self._read(f"{process.pid}/fdinfo/{fd}")
                    attached += text.count(b"\ntfd:") + text.count(b"\nlock:")
                    if attached > most:
                        return attached
        return attached

    def ipc_objects(self) -> list[tuple[str, int]]:
        """Return kind (`shm`, `msg` or `sem`) and number of all System V objects of this
        namespace."""
        objects = []
        for kind in ("shm", "msg", "sem"):
            for line in self._read(f"sysvipc/{kind}").splitlines()[1:]:
                objects.append((kind, int(line.split()[1])))
        return objects

    def cwd(self, pid: int) -> str | None:
        try:
            return os.readlink(f"{pid}/cwd", dir_fd=self.proc)
        except OSError:
            return None

    def foreign_descriptors(self, pid: int, pipes: Iterable[int]) -> list[str]:
        """Return the descriptors of a shell that the agent opened, as text for a message; `pipes`
        are this process's ends of the shell's own.

        A shell's own are the first three and the pipes to the episode server, as they are while the
        shell waits, and the copies of these that bash saves from 10 on. A bash that has just been
        spawned still has the episode server's for a moment, and one that was busy still closes what
        it opened: look again.
        """
        allowed = {"/dev/null"}
        for fd in pipes:
            allowed.add(os.readlink(f"{os.getpid()}/fd/{fd}", dir_fd=self.proc))
        for _ in range(_LOOKS):
            foreign = []
            try:
                with self._folder(f"{pid}/fd") as folder:
                    for fd in sorted(map(int, os.listdir(folder))):
                        with contextlib.suppress(FileNotFoundError):
                            target = os.readlink(str(fd), dir_fd=folder)
                            if target not in allowed or 3 <= fd < _FIRST_SAVED:
                                foreign.append(f"descriptor {fd} ({target})")
            except PermissionError:
                return ["descriptors that cannot be inspected"]
            if not foreign:
                break
            time.sleep(_LOOK_EVERY)
        return foreign

    def _status(self, folder: str) -> list[bytes]:
        """Return the lines after the name, which the agent chooses: the kernel escapes its newlines
        and nothing else."""
        return self._read(f"{folder}/status").split(b"\n")[1:]

    def _threads(self, pid: int) -> Iterator[str]:
        """Yield the numbers of a process's threads; nothing is listed until the first is needed."""
        with contextlib.suppress(OSError), self._folder(f"{pid}/task") as folder:
            yield from os.listdir(folder)

    @contextlib.contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        folder = kernel.open_folder(path, self.proc)
        try:
            yield folder
        finally:
            os.close(folder)

    def _read(self, path: str) -> bytes:
        """Return the content of a file of /proc, or nothing if it cannot be read: the process has
        ended."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except OSError as error:
            require_room(error)
            return b""
        try:
            return kernel.read_all(fd)
        except OSError:
            return b""
        finally:
            os.close(fd)


class Tree(ProcessTable):
    """The processes below this one, for a /proc that also shows many that are not the agent's.

    A process whose parent ends becomes this one's child (`kernel.adopt_orphans`), or init's.
    """

    def all(self) -> list[Process]:
        return sorted(filter(None, map(self._process, self._descendants())))

    def _descendants(self) -> Iterator[int]:
        """Yield the pids of all processes below this one but init."""
        waiting = [os.getpid()]
        for pid in waiting:
            for thread in self._threads(pid):
                for child in map(int, self._read(f"{pid}/task/{thread}/children").split()):
                    waiting.append(child)
                    if child != self._init:
                        yield child


def with_descendants(alive: list[Process], tops: Iterable[int]) -> set[int]:
    """Return these pids, and those of the processes below them."""
    pids = set(tops)
    while below := {process.pid for process in alive if process.parent in pids} - pids:
        pids |= below
    return pids


def send(processes: Iterable[Process], number: int) -> None:
    for process in processes:
        kill(process.pid, number)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
