"""The file system of one episode, built by the cell before the agent's first process starts.

    /layers/0 … n   read-only template, bottom first        ┐
    /cell (tmpfs)   up/ and work/, gone with the episode     ├─ overlay ─► the agent's /
    /usr, /dev      lent from the wall, read-only            ┘  + /proc, /dev/pts and /dev/shm of its own

The keeper calls `prepare` once; a cell calls `build` in its new namespaces and then lives in the result.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from . import kernel, layers

MERGED = "/merged"


class Plan(NamedTuple):
    """What the host asked for: how many layers, which host folders are lent, sizes in bytes."""

    layers: int
    lent: list[str]
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
    """Mount everything and move into it. `inherited` is another cell's upper folder, to be copied first."""
    _own_tmpfs(plan.disk)
    handles = Handles(_folder("/cell/up"), _folder(MERGED))
    if inherited is not None:
        layers.copy(inherited, handles.upper)
    kernel.mount("overlay", "/cell/root", "overlay", kernel.NOSUID | kernel.NODEV, _overlay(plan))
    for path in plan.lent:
        kernel.bind(path, "/cell/root" + path)
    _devices("/cell/root")
    kernel.enter_root("/cell/root")
    return handles


def _own_tmpfs(size: int) -> None:
    kernel.mount("tmpfs", "/cell", "tmpfs", kernel.NOSUID | kernel.NODEV, f"size={size},nr_inodes=200k,mode=755")
    for name in ("up", "work", "root"):
        os.mkdir("/cell/" + name)
    os.chmod("/cell/up", os.stat(MERGED).st_mode & 0o7777)


def _lower(plan: Plan) -> str:
    return ":".join(f"/layers/{number}" for number in reversed(range(plan.layers)))


def _overlay(plan: Plan) -> str:
    return f"lowerdir={_lower(plan)},upperdir=/cell/up,workdir=/cell/work,userxattr"


def _devices(root: str) -> None:
    kernel.mount("proc", root + "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
    kernel.bind("/dev", root + "/dev")
    kernel.mount("devpts", root + "/dev/pts", "devpts", kernel.NOSUID | kernel.NOEXEC, "newinstance,ptmxmode=0666")
    kernel.mount("tmpfs", root + "/dev/shm", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=64m,mode=1777")


def _folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
