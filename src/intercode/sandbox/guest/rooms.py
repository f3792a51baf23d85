"""The file system of one episode, built by the cell before the agent's first process starts.

    /layers/0 … n   read-only template, bottom first        ┐
    /cell (tmpfs)   up/ and work/, gone with the episode     ├─ overlay ─► its folder tree/ is the agent's /
    /usr, /dev      lent from the wall, read-only            ┘  + /proc, /dev/pts and /dev/shm of its own

The agent's / is a folder in the overlay, not the overlay itself: so it keeps the template's size and times until it is changed.

The keeper calls `prepare` once; a cell calls `build` in its new namespaces and then lives in the result.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from . import kernel, layers

MERGED = "/merged"
TREE = "tree"
"""The folder of a layer that holds its files."""
_ROOT = f"/cell/all/{TREE}"

_INODE_SHARE = 2048
"""Bytes of disk for each file that may be made."""


class Plan(NamedTuple):
    """What the host asked for: how many layers, which host folders are lent and covered again, sizes in bytes."""

    layers: int
    lent: list[str]
    covered: list[str]
    disk: int


class Handles(NamedTuple):
    """Descriptors to what the agent cannot name: its changes, and the template below them."""

    upper: int
    lower: int


def prepare(plan: Plan) -> None:
    """Once for the wall: freeze /dev, and show the layers as one tree for comparing."""
    kernel.mount("none", "/dev", flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | kernel.NOSUID)
    os.mkdir("/cell")
    os.mkdir(MERGED)
    if plan.layers == 1:
        kernel.mount("/layers/0", MERGED, flags=kernel.BIND)
    else:
        kernel.mount("overlay", MERGED, "overlay", kernel.RDONLY, f"lowerdir={_lower(plan)},userxattr")


def build(plan: Plan, inherited: int | None) -> Handles:
    """Mount everything but /proc. `inherited` is another cell's upper folder, to be copied first."""
    _own_tmpfs(plan.disk)
    handles = Handles(_folder("/cell/up"), _folder(MERGED))
    if inherited is not None:
        layers.copy(inherited, handles.upper)
    kernel.mount("overlay", "/cell/all", "overlay", kernel.NOSUID | kernel.NODEV, _overlay(plan))
    kernel.mount(_ROOT, _ROOT, flags=kernel.BIND)
    for path in plan.lent:
        kernel.bind(path, _ROOT + path)
    for path in plan.covered:
        _cover(path)
    _devices()
    return handles


def _own_tmpfs(size: int) -> None:
    kernel.mount(
        "tmpfs", "/cell", "tmpfs", kernel.NOSUID | kernel.NODEV, f"size={size},nr_inodes={size // _INODE_SHARE},mode=755"
    )
    for name in ("up", "work", "all"):
        os.mkdir("/cell/" + name)


def _lower(plan: Plan) -> str:
    return ":".join(f"/layers/{number}" for number in reversed(range(plan.layers)))


def _overlay(plan: Plan) -> str:
    return f"lowerdir={_lower(plan)},upperdir=/cell/up,workdir=/cell/work,userxattr"


def own_proc() -> None:
    """From the agent's pid namespace: its /proc, less a folder that nobody may read.

    The kernel allows it only while the wall's own /proc is in sight, so before `enter`.
    """
    kernel.mount("proc", _ROOT + "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    kernel.mount("tmpfs", _ROOT + "/proc/tty/driver", "tmpfs", kernel.RDONLY, "size=0,mode=555")


def enter() -> None:
    """Make the agent's root this process's root, and that of all in its mount namespace."""
    kernel.enter_root(_ROOT)


def freeze_settings() -> None:
    """Make /proc/sys read-only: the agent's root owns the settings of its own namespaces."""
    settings = _ROOT + "/proc/sys"
    kernel.bind(settings, settings)
    locked = kernel.NOSUID | kernel.NODEV | kernel.NOEXEC
    kernel.mount("none", settings, flags=kernel.BIND | kernel.REMOUNT | kernel.RDONLY | locked)


def _cover(path: str) -> None:
    """An empty folder over one that the agent must not see; one that is below such a folder is gone already."""
    if os.path.isdir(_ROOT + path):
        kernel.mount("tmpfs", _ROOT + path, "tmpfs", kernel.RDONLY, "size=0,mode=755")


def _devices() -> None:
    kernel.bind("/dev", _ROOT + "/dev")
    kernel.mount("devpts", _ROOT + "/dev/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, "newinstance,ptmxmode=0666")
    kernel.mount("tmpfs", _ROOT + "/dev/shm", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=64m,mode=1777")


def _folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
