"""The agent's processes, seen from pid 1 of its own pid namespace: who lives, what they weigh, who was born when.

A process was born since a `Mark` if its pid is above the last one given out then, or (when pids wrapped around) its
start tick is later. Processes that die while one looks are passed over.
"""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Mark(NamedTuple):
    pid: int
    tick: int


class Process(NamedTuple):
    pid: int
    name: str
    state: str
    tick: int


class Table:
    """A view of /proc that stays valid whatever is mounted or removed later."""

    def __init__(self) -> None:
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._last = os.open("/proc/sys/kernel/ns_last_pid", os.O_RDONLY)

    def mark(self) -> Mark:
        return Mark(int(os.pread(self._last, 32, 0)), int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS))

    def all(self) -> list[Process]:
        """Every living process but pid 1; zombies are dead."""
        pids = [int(name) for name in os.listdir(self._proc) if name.isdigit() and name != "1"]
        found = [self._look(pid) for pid in pids]
        return [process for process in found if process and process.state not in "ZX"]

    def born_since(self, mark: Mark) -> list[Process]:
        return [process for process in self.all() if process.pid > mark.pid or process.tick > mark.tick]

    def memory(self) -> int:
        """Bytes resident in all processes and in System V shared memory. Shared pages count once for each process."""
        resident = sum(self._resident(process.pid) for process in self.all())
        return resident + self._shared_segments()

    def cwd(self, pid: int) -> str | None:
        try:
            return os.readlink(f"{pid}/cwd", dir_fd=self._proc)
        except OSError:
            return None

    def descriptors(self, pid: int) -> dict[int, str]:
        folder = f"/proc/{pid}/fd"
        return {int(name): os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}

    def _look(self, pid: int) -> Process | None:
        text = self._read(f"{pid}/stat")
        if not text:
            return None
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        return Process(pid, head.partition(b"(")[2].decode(errors="replace"), fields[0].decode(), int(fields[19]))

    def _resident(self, pid: int) -> int:
        text = self._read(f"{pid}/statm")
        return int(text.split()[1]) * _PAGE if text else 0

    def _shared_segments(self) -> int:
        lines = self._read("sysvipc/shm").splitlines()[1:]
        return sum(int(line.split()[14]) for line in lines)

    def _read(self, path: str) -> bytes:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return os.read(fd, 1 << 16)
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
