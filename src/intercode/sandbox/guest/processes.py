"""The agent's processes, seen from the wall's /proc: who lives, what they weigh, who was born when; and how they are stopped.

They are told from others by their pid namespace, and where one lets nobody see it (`PR_SET_DUMPABLE`, a program that cannot
be read) by its parents. Numbers are the wall's; `inner_pid` gives the one that the agent sees.

A process was born since a `Mark` if its pid is above the last one given out then, or (when pids wrapped around) its
start tick is later. Processes that die while one looks are passed over. One whose first thread has ended looks like a
zombie, and holds no memory by its own number, for as long as others of its threads go on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from . import kernel

_TICKS = os.sysconf("SC_CLK_TCK")
_HELD = (b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")
_LOOKS, _BRIEF, _SAVED = 10, 0.001, 10
_DOUBT = 0.03
_STOPPED, _WAITING, _STOPPING = b"TtZX", b"TtZXD", 2.0
_EXITING = 4  # the kernel's PF_EXITING
_SOCKET = 212_992  # the default size of its buffer


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


class Table:
    """`proc` is a descriptor of the wall's /proc, `anchor` the process that is pid 1 for the agent."""

    def __init__(self, proc: int, anchor: int) -> None:
        self._proc, self._anchor = proc, anchor
        self._last = os.open("sys/kernel/ns_last_pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self._space = os.readlink(f"{anchor}/ns/pid", dir_fd=proc)

    def mark(self) -> Mark:
        return Mark(self.newest(), int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS))

    def all(self) -> list[Process]:
        """Every living process but the anchor; zombies are dead when their last thread is."""
        pids = sorted(int(name) for name in os.listdir(self._proc) if name.isdigit())
        inside = {pid: self._inside(pid) for pid in pids if pid not in (self._anchor, os.getpid())}
        found = [process for pid, is_inside in inside.items() if is_inside is not False and (process := self._look(pid))]
        return self._kin(found, {pid for pid, is_inside in inside.items() if is_inside})

    def anchor_ends(self) -> bool:
        """Whether it was ended, but is still there: until all others inside are gone, and their parents know it."""
        words = self._read(f"{self._anchor}/stat").rpartition(b")")[2].split()
        return bool(words) and bool(int(words[6]) & _EXITING)

    def name(self, fd: int) -> str:
        """What one of this process's own descriptors is called in /proc."""
        return os.readlink(f"{os.getpid()}/fd/{fd}", dir_fd=self._proc)

    def inner_pid(self, pid: int) -> int:
        lines = self._status(str(pid))
        numbers = [int(line.split()[-1]) for line in lines if line.startswith(b"NSpid:")]
        return numbers[0] if numbers else pid

    def newest(self) -> int:
        """The pid that was given out last."""
        return int(os.pread(self._last, 32, 0))

    def _inside(self, pid: int) -> bool | None:
        """None where it lets nobody see."""
        try:
            return os.readlink(f"{pid}/ns/pid", dir_fd=self._proc) == self._space
        except PermissionError:
            return None
        except OSError:
            return False

    def _kin(self, found: list[Process], inside: set[int]) -> list[Process]:
        """Those that are inside, or descend from one that is: the anchor adopts orphans, this process has the shell."""
        roots = {self._anchor, os.getpid()}
        while more := {each.pid for each in found if each.parent in inside | roots} - inside:
            inside = inside | more
        return [each for each in found if each.pid in inside]

    def born_since(self, mark: Mark) -> list[Process]:
        return self.settled(lambda: [process for process in self.all() if mark.precedes(process)])

    def settled(self, look: Callable[[], list[Process]]) -> list[Process]:
        """What `look` finds. That it finds nobody is doubted while others are born: one may start the next and end."""
        until = time.monotonic() + _DOUBT
        while True:
            before = self.newest()
            if (found := look()) or self.newest() == before or time.monotonic() > until:
                return found

    @contextlib.contextmanager
    def still(self, stop: Callable[[], None]) -> Iterator[None]:
        """`stop` them all, and wait until they stand. In the end continue those that were not stopped before."""
        before = {each.pid for each in self.all() if self._stands(each.pid, _STOPPED)}
        stop()
        try:
            self._come_to_stand()
            yield
        finally:  # children first: then no shell sees a job of its own stopped
            send([each for each in reversed(self.all()) if each.pid not in before], signal.SIGCONT)

    def _come_to_stand(self) -> None:
        """Wait until all do, or time is up. One that waits for a child to execute a program (vfork) stands with the child."""
        until = time.monotonic() + _STOPPING
        while time.monotonic() < until:
            alive = self.all()
            parents = {each.parent for each in alive}
            if all(self._stands(each.pid, _WAITING if each.pid in parents else _STOPPED) for each in alive):
                return
            time.sleep(_BRIEF)

    def _stands(self, pid: int, states: bytes) -> bool:
        """Whether each of its threads is in one of these states, or gone."""
        threads = (self._read(f"{pid}/task/{thread}/stat") for thread in self._threads(pid))
        return all(text.rpartition(b")")[2][1:2] in states for text in threads)

    def memory(self, alive: list[Process]) -> int:
        """Bytes held by these processes, by System V objects and by socket buffers, were they all filled.

        Of a process count its own and shared pages (once for each process), swap and page tables, not those of files.
        """
        held = sum(self._held(process.pid) for process in alive)
        words = self._read(f"{self._anchor}/net/sockstat").split(maxsplit=3)
        return held + kernel.objects_size() + (int(words[2]) if len(words) > 2 else 0) * _SOCKET

    def objects(self) -> list[tuple[str, int]]:
        """Kind (`shm`, `msg` or `sem`) and number of all System V objects of this namespace."""
        rows = [(kind, line) for kind in ("shm", "msg", "sem") for line in self._read(f"sysvipc/{kind}").splitlines()[1:]]
        return [(kind, int(line.split()[1])) for kind, line in rows]

    def cwd(self, pid: int) -> str | None:
        try:
            return os.readlink(f"{pid}/cwd", dir_fd=self._proc)
        except OSError:
            return None

    def descriptors(self, pid: int) -> dict[int, str]:
        with self._folder(f"{pid}/fd") as folder:
            found = {}
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):  # a shell that was busy a moment ago still closes what it opened
                    found[int(name)] = os.readlink(name, dir_fd=folder)
        return found

    def opened(self, pid: int, own: set[str]) -> list[str]:
        """Descriptors of the agent's in a shell whose `own` are called so, as words for a message.

        A shell's own are its first three and its lines to the cell, as they are while it waits, and the copies of these that
        bash saves from 10 on. A bash that has just been spawned still has the cell's for a moment: look again.
        """
        found: list[str] = []
        for _ in range(_LOOKS):
            try:
                held = sorted(self.descriptors(pid).items())
            except PermissionError:
                return ["descriptors that nobody may see"]
            found = [f"descriptor {fd} ({to})" for fd, to in held if to not in own or 3 <= fd < _SAVED]
            if not found:
                break
            time.sleep(_BRIEF)
        return found

    def _look(self, pid: int) -> Process | None:
        text = self._read(f"{pid}/stat")
        if not text:
            return None
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        if fields[0] in (b"Z", b"X") and int(fields[17]) < 2:
            return None
        return Process(pid, int(fields[1]), head.partition(b"(")[2].decode(errors="replace"), int(fields[19]))

    def _held(self, pid: int) -> int:
        """As the first of its threads says that has not ended: they share it."""
        folders = chain([str(pid)], (f"{pid}/task/{thread}" for thread in self._threads(pid)))
        told = (sum(int(line.split()[1]) << 10 for line in self._status(each) if line.startswith(_HELD)) for each in folders)
        return next(filter(None, told), 0)

    def _status(self, folder: str) -> list[bytes]:
        """Its lines after the first, the name, which the agent chooses: the kernel escapes its newlines, and nothing else."""
        return self._read(f"{folder}/status").split(b"\n")[1:]

    def _threads(self, pid: int) -> Iterator[str]:
        """Their numbers, listed when they are asked for."""
        with contextlib.suppress(OSError), self._folder(f"{pid}/task") as folder:
            yield from os.listdir(folder)

    @contextlib.contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            yield folder
        finally:
            os.close(folder)

    def _read(self, path: str) -> bytes:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return kernel.rest(fd)
        except OSError:
            return b""
        finally:
            os.close(fd)


def send(processes: list[Process], number: int) -> None:
    for process in processes:
        kill(process.pid, number)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
