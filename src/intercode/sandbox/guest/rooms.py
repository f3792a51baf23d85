"""The file system of one episode, built by the cell before the agent's first process starts.

    /layers/0 … n   read-only template, bottom first        ┐
    /cell (tmpfs)   up/ and work/, gone with the episode     ├─ overlay ─► its folder tree/ is the agent's /
    /usr, /dev      lent from the wall, read-only            ┘  + /proc, /dev/pts and /dev/shm of its own

The agent's / is a folder in the overlay, not the overlay itself: so it keeps the template's size and times until it is changed.

The keeper calls `prepare` once; a cell calls `build` in its new namespaces and then lives in the result.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from . import kernel, layers

MERGED = "/merged"
TREE = "tree"
"""The folder of a layer that holds its files."""
_ROOT = f"/cell/all/{TREE}"

_MASKED = ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats")

_INODE_SHARE = 2048
"""Bytes of disk for each file that may be made."""


class Plan(NamedTuple):
    """What the host asked for: how many layers, which host folders are lent and covered again, sizes in bytes."""

    layers: int
    lent: tuple[str, ...]
    covered: tuple[str, ...]
    disk: int
    contained: bool
    """Whether the wall is a container: the image's tree is a mount then, and root in there owns files of the machine."""

    @property
    def top(self) -> str:
        """An overlay is of the layers, or, as it does not show what is mounted in there, of their trees."""
        return f"/{TREE}" if self.contained else ""


class Handles(NamedTuple):
    """Descriptors to what the agent cannot name: its changes, and the template below them; both with a folder `tree`."""

    upper: int
    lower: int
    tree: str = TREE


def prepare(plan: Plan) -> None:
    """Once for the wall: freeze /dev, and show the layers as one tree for comparing."""
    kernel.mount("none", "/dev", flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | kernel.NOSUID)
    os.mkdir("/cell")
    os.makedirs(MERGED + plan.top)
    lower = _lower(plan)  # here, so that each cell is born with it
    if plan.layers == 1:
        kernel.mount("/layers/0", MERGED, flags=kernel.BIND)
    else:
        kernel.mount("overlay", MERGED + plan.top, "overlay", kernel.RDONLY, f"lowerdir={lower},userxattr")


def build(plan: Plan, inherited: int | None) -> Handles:
    """Mount everything but /proc. `inherited` is another cell's upper folder, to be copied first."""
    _own_tmpfs(plan)
    handles = Handles(_folder("/cell/up" + plan.top), _folder(MERGED + plan.top), "." if plan.top else TREE)
    if inherited is not None:
        layers.copy(inherited, handles.upper)
    overlay = f"lowerdir={_lower(plan)},upperdir=/cell/up{plan.top},workdir=/cell/work,userxattr"
    kernel.mount("overlay", "/cell/all" + plan.top, "overlay", kernel.NOSUID | kernel.NODEV, overlay)
    kernel.mount(_ROOT, _ROOT, flags=kernel.BIND)
    for path in plan.lent:
        kernel.bind(path, _ROOT + path)
    for path in plan.covered:
        if os.path.isdir(_ROOT + path):  # what is below such a folder is gone already
            kernel.mount("tmpfs", _ROOT + path, "tmpfs", kernel.RDONLY, "size=0,mode=755")
    kernel.bind("/dev", _ROOT + "/dev")
    kernel.mount("devpts", _ROOT + "/dev/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, "newinstance,ptmxmode=0666")
    kernel.mount("tmpfs", _ROOT + "/dev/shm", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=64m,mode=1777")
    return handles


def _own_tmpfs(plan: Plan) -> None:
    size = f"size={plan.disk},nr_inodes={plan.disk // _INODE_SHARE},mode=755"
    kernel.mount("tmpfs", "/cell", "tmpfs", kernel.NOSUID | kernel.NODEV, size)
    for name in ("up", "work", "all"):
        os.mkdir("/cell/" + name)
    if plan.contained:
        os.mkdir(_ROOT)
        os.mkdir(f"/cell/up/{TREE}")
        layers.stamp(f"/cell/up/{TREE}", os.stat(f"{MERGED}/{TREE}"))


@cache
def _lower(plan: Plan) -> str:
    return ":".join(f"/layers/{number}{plan.top}" for number in reversed(range(plan.layers)))


def own_proc(plan: Plan) -> None:
    """From the agent's pid namespace: its /proc, less a folder that nobody may read.

    The kernel allows it only while the wall's own /proc is in sight, so before `enter`. In a container, whose root is one to
    the machine's switches too, nothing there can be written, and what containers hide is hidden.
    """
    fixed = kernel.RDONLY if plan.contained else 0
    kernel.mount("proc", _ROOT + "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC | fixed)
    for name in ("tty/driver", *(_MASKED if plan.contained else ())):
        path = f"{_ROOT}/proc/{name}"
        if os.path.isdir(path):
            kernel.mount("tmpfs", path, "tmpfs", kernel.RDONLY, "size=0,mode=555")
        elif os.path.exists(path):
            kernel.mount("/dev/null", path, flags=kernel.BIND)


def enter() -> None:
    """Make the agent's root this process's root, and that of all in its mount namespace."""
    kernel.enter_root(_ROOT)


def freeze(path: str) -> None:
    """Make a part of /proc read-only: of the settings of its own namespaces the agent's root is the owner."""
    path = _ROOT + path
    kernel.bind(path, path)
    locked = kernel.NOSUID | kernel.NODEV | kernel.NOEXEC
    kernel.mount("none", path, flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | locked)


def used(path: str) -> int:
    """Bytes that a tmpfs holds, with what the kernel keeps for each file below an overlay, about."""
    info = os.statvfs(path)
    return (info.f_blocks - info.f_bfree) * info.f_frsize + (info.f_files - info.f_ffree) * _INODE_SHARE


def _folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
