"""Which processes a process started, told from other people's sandboxes, which run as the same
user; how they are ended."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Process = tuple[int, int]
"""A pid and its start in clock ticks, which together name a process for good."""


OVERWRITE_INIT = r"""
while read -r range permissions _; do
    case $permissions in r-xp)
        start=$((16#${range%-*})) end=$((16#${range#*-}))
        dd if=/dev/zero of=/proc/1/mem bs=4096 seek=$((start / 4096)) \
            count=$(((end - start) / 4096)) conv=notrunc 2>/dev/null
    esac
done < /proc/1/maps
(sleep 0.01 &)
sleep 0.3
"""
"""Pid 1 is a program of the agent's own rights: its code is overwritten, and a dead orphan makes it
run."""


def wait_until(true: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether it comes true within the time."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.005)
    return True


def family(pid: int) -> set[Process]:
    """The descendants of a process that live now."""
    children: dict[int, list[int]] = {}
    for each in all_pids():
        if (fields := stat(each)) is not None:
            children.setdefault(int(fields[1]), []).append(each)
    found: set[Process] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            todo.append(child)
            if (fields := stat(child)) is not None:
                found.add((child, int(fields[19])))
    return found


def alive(processes: set[Process]) -> set[Process]:
    """Those that have not ended; a zombie that nobody has waited for yet counts as ended."""
    known = ((each, stat(each[0])) for each in processes)
    return {
        each for each, fields in known if fields and int(fields[19]) == each[1] and fields[0] != "Z"
    }


@dataclass(frozen=True)
class Traces:
    """By which the processes that a process started are known after its death: themselves, and
    their pid namespaces."""

    processes: set[Process]
    spaces: set[str]
    until: float

    @classmethod
    def of(cls, pid: int) -> Traces:
        """As it is now; stop the process first, or it goes on."""
        return cls(family(pid), spaces(pid), _ticks())

    def left(self) -> set[Process]:
        """Who of them lives."""
        return alive(self.processes | _older(self.spaces, self.until))


def spaces(pid: int) -> set[str]:
    """The pid namespaces below a process, by which its sandboxes are told from others of the same
    user."""
    return {namespace(each) for each, _ in family(pid)} - {namespace(os.getpid()), ""}


def left_in(spaces: set[str], seconds: float = 10.0) -> set[Process]:
    """The processes of these namespaces that do not go away."""
    now = _ticks()
    wait_until(lambda: not _older(spaces, now), seconds)
    return _older(spaces, now)


def _older(spaces: set[str], moment: float) -> set[Process]:
    """The processes in these namespaces that began before. The kernel gives a namespace's number
    out again."""
    found = {
        (pid, int(fields[19]))
        for pid in all_pids()
        if namespace(pid) in spaces and (fields := stat(pid))
    }
    return {each for each in found if each[1] <= moment}


def _ticks() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")


def commands(pid: int) -> list[str]:
    """The command lines of a process's descendants."""
    return [arguments(each) for each, _ in family(pid)]


def walls() -> list[int]:
    """The bwrap processes that this process started."""
    children = [
        pid
        for pid, _ in family(os.getpid())
        if (fields := stat(pid)) and int(fields[1]) == os.getpid()
    ]
    return [pid for pid in children if "--die-with-parent" in arguments(pid)]


@contextlib.contextmanager
def killing_the_wall_at(word: str, times: int) -> Iterator[list[int]]:
    """While the block runs, kills the wall around each new process of ours with `word` in its
    arguments, so often.

    A wall is in the list when nothing of it lives any more.
    """

    def kill(killed: list[int]) -> None:
        for wall in walls():
            inside = family(wall)
            if wall not in killed and any(word in arguments(pid) for pid, _ in inside):
                os.kill(wall, signal.SIGKILL)
                wait_until(lambda inside=inside: not alive(inside))
                killed.append(wall)
                return

    with _repeating(kill, times) as killed:
        yield killed


@contextlib.contextmanager
def killing_all_at(command: str) -> Iterator[set[int]]:
    """Kill the wall around each process with this command line, as one that its agent ends."""
    over, killed = threading.Event(), set[int]()

    def kill() -> None:
        while not over.wait(0.01):
            parents = {pid: int(fields[1]) for pid in all_pids() if (fields := stat(pid))}
            for pid in [pid for pid in parents if arguments(pid).strip() == command]:
                while parents.get(pid, os.getpid()) != os.getpid():
                    pid = parents[pid]
                if pid in parents and pid not in killed:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def killing_the_parent_of(command: str, times: int) -> Iterator[list[int]]:
    """While the block runs, kills whoever started each new process of ours with this command line,
    so often."""
    seen: set[Process] = set()  # an orphan has another parent

    def kill(killed: list[int]) -> None:
        for process in family(os.getpid()) - seen:
            if arguments(process[0]).strip() == command and (fields := stat(process[0])):
                seen.add(process)
                os.kill(int(fields[1]), signal.SIGKILL)
                killed.append(int(fields[1]))
                return

    with _repeating(kill, times) as killed:
        yield killed


@contextlib.contextmanager
def _repeating(kill: Callable[[list[int]], None], times: int) -> Iterator[list[int]]:
    """Calls it, meanwhile, until it has put so many pids on its list."""
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while len(killed) < times and not over.wait(0.005):
            kill(killed)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def arguments(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")


def _read(pid: int, name: str) -> str:
    """A file of /proc/PID; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name: state, parent, …; None if it is gone."""
    return _read(pid, "stat").rpartition(")")[2].split() or None


def mounts() -> list[str]:
    """But for those of containers and their networks, which a daemon makes and ends in its own
    time."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [
        line
        for line in lines
        if "/docker/" not in line and "/containers/" not in line and " nsfs " not in line
    ]


WAYS = ("wall", "supervisor", "group", "servers", "server", "inside first", "one by one")
"""How whoever kills sandboxes from outside may kill one."""


def kill_sandbox(wall: int, way: str, chance: random.Random) -> None:
    """Kill the sandboxes of one wall. `group`: the supervisor's process group; `server`: one
    episode server; `inside first`: the agent's processes, then outwards; `one by one`: all, in any
    order, with pauses."""
    supervisors = _children([wall])
    servers = _children(supervisors)
    if way == "group":
        for pid in supervisors:
            with contextlib.suppress(OSError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
        return
    pids = {
        "wall": [wall],
        "supervisor": supervisors,
        "servers": servers,
        "server": servers and [chance.choice(servers)],
        "inside first": [*_children(servers), *servers, *supervisors, wall],
        "one by one": [wall, *sorted(pid for pid, _ in family(wall))],
    }[way]
    if way == "one by one":
        chance.shuffle(pids)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        if way == "one by one":
            time.sleep(0.002)


def _children(parents: list[int]) -> list[int]:
    below = ((pid, stat(pid)) for pid in all_pids())
    return [pid for pid, fields in below if fields and int(fields[1]) in parents]
