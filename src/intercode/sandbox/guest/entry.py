"""From a fresh clone to a locked room: what a cell does before it serves, and the anchor that holds the agent's processes.

    keeper ── clone (user, mount, ipc, uts) ──► cell ── builds the rooms, enters them
                                                      │ unshare(pid)
                                                      ├─ spawn ─► anchor: pid 1 in there; mounts /proc, waits (anchor.py)
                                                      └─ spawn ─► the agent's shell and programs (parent: 0, as in docker exec)

The cell itself stays outside of the agent's pid namespace: the agent cannot see, signal or trace it. The anchor has no more
rights than the agent; if the agent makes it exit, the kernel ends all its processes, and the cell with them.

`left_open` in the configuration names doors that a test leaves open to see an attack succeed (`Weakened`): userns, settings,
capabilities, network (one that the agent's root owns).
"""

from __future__ import annotations

import os
import resource
import select
import signal
from _socket import socketpair
from collections.abc import Collection
from typing import Any, NamedTuple

from . import kernel, rooms, spawn

_KEPT = (kernel.DAC_OVERRIDE, kernel.DAC_READ_SEARCH, kernel.FOWNER, kernel.KILL, kernel.SYS_PTRACE)
_FILES = {kernel.CHOWN, kernel.DAC_OVERRIDE, kernel.FOWNER, kernel.FSETID}
_ROOTS = frozenset({*_FILES, kernel.KILL, kernel.SETGID, kernel.SETUID, kernel.NET_BIND_SERVICE})
"""The agent's in a container, where there are other users to whom files can be given, and whose files are read."""
_NAMESPACES = kernel.NEWNS | kernel.NEWIPC | kernel.NEWUTS
_OWN_PROCESSES = 2
_SENDING = 2.0
_ANCHOR, _CALLED = "/guest/bash", "/bin/bash"

Config = dict[str, Any]


class Anchor(NamedTuple):
    """Pid 1 of the agent's processes. It does as its socket says, which the agent cannot open."""

    pid: int
    line: int

    def kill_all(self) -> None:
        """End every process in there but the anchor, at one stroke."""
        self._send(signal.SIGKILL)

    def stop_all(self) -> None:
        """Stop them; `Table.still` waits until they are."""
        self._send(signal.SIGSTOP)

    def _send(self, number: int) -> None:
        """Return when the signal was sent: a late one would hit the next action's process, or the cell's while it spawns."""
        try:
            os.write(self.line, bytes([number]))
            if select.select([self.line], [], [], _SENDING)[0]:
                os.read(self.line, 1)
        except OSError:
            pass


class Room(NamedTuple):
    """What a cell holds on to: its files from below, the wall's /proc, and the anchor."""

    files: rooms.Handles
    proc: int
    anchor: Anchor


def namespaces(config: Config) -> int:
    """What a cell is cloned into; its network namespace the keeper makes, and its processes' is made later."""
    network = kernel.NEWNET if "network" in config["left_open"] else 0
    return _NAMESPACES | network | (0 if config["plan"].contained else kernel.NEWUSER)


def move_in(config: Config, filter_program: bytes, inherited: int | None) -> Room:
    plan: rooms.Plan = config["plan"]
    if not plan.contained:
        for name, line in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
            _write(f"/proc/self/{name}", line)
    if "userns" not in config["left_open"]:
        _write("/proc/sys/user/max_user_namespaces", "0")
    _write("/proc/self/oom_score_adj", "1000")
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    files = rooms.build(plan, inherited)
    _bound(config)
    kernel.unshare(kernel.NEWPID)
    ours, theirs = (end.detach() for end in socketpair())
    try:
        anchor = Anchor(spawn.spawn(lambda: _weigh_anchor(config, filter_program, theirs), _ANCHOR, _CALLED), ours)
    finally:
        os.close(theirs)
    rooms.enter()
    _lock(config, filter_program, {*_KEPT, *_rights(config)})
    return Room(files, proc, anchor)


def _weigh_anchor(config: Config, filter_program: bytes, line: int) -> None:
    """In the new pid namespace. What it mounts, this cell sees as well."""
    kernel.die_with_parent()
    os.setsid()  # the scheduler's group is the session's, and the agent may slow the one that it sees here
    plan: rooms.Plan = config["plan"]
    rooms.own_proc(plan)
    if not plan.contained and "settings" not in config["left_open"]:
        for path in ("/proc/sys", "/proc/1/mem", "/proc/1/task/1/mem"):  # this one, rewritten, could die as if from outside
            rooms.freeze(path)
    os.dup2(line, 0)
    os.closerange(1, 3)
    kernel.ignore(signal.SIGCHLD)  # then nobody needs to wait for orphans
    _lock(config, filter_program, _rights(config))


def _rights(config: Config) -> frozenset[int]:
    return _ROOTS if config["plan"].contained else frozenset()


def _bound(config: Config) -> None:
    """Bound this process and all that it starts, by at most what the machine or the container allows."""
    if "capabilities" not in config["left_open"]:
        kernel.bound_capabilities(_rights(config))
    for name, value in config["rlimits"].items():
        number = getattr(resource, "RLIMIT_" + name)
        value += _OWN_PROCESSES if name == "NPROC" else 0
        _, most = resource.getrlimit(number)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (value, value))


def _lock(config: Config, filter_program: bytes, kept: Collection[int]) -> None:
    """Mounting is over: keep these capabilities alone, and filter system calls."""
    if "capabilities" not in config["left_open"]:
        kernel.drop_capabilities(kept)
    kernel.install_filter(filter_program)


def give_up_rights(config: Config) -> None:
    """For a clone of the cell that becomes the agent's: what executing a program would take from it."""
    if "capabilities" not in config["left_open"]:
        kernel.drop_capabilities(())


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())
    os.close(fd)
