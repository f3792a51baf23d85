"""What changed in a file system without layers: all files are looked at before the agent comes, and again.

    signatures ── path → hash of (mode, size, times, inode number) ──┐
                                                                     ├─► changed: path → state now, None if it is gone
    the agent acts; nothing that it does leaves a signature as it was ┘

Whether a changed signature is a change for the agent is told by comparing with an untouched container (`describe`). The change
time is the kernel's and cannot be set. /dev, /proc and /sys are left out, as are files in folders nested deeper than `DEPTH`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from .layers import DEPTH, close, describe_entry, look, open_folder

_LEFT_OUT = frozenset(("/dev", "/proc", "/sys"))
_TOO_DEEP = {"type": "other", "mode": 0}
_Entry = tuple[int, str, str, os.stat_result]

State = dict[str, Any]


def signatures() -> dict[str, int]:
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return {path: _signature(info) for _, _, path, info in _all(root)}
    finally:
        os.close(root)


def changed(root: int, known: dict[str, int]) -> dict[str, State | None]:
    found: dict[str, State | None] = dict.fromkeys(known)
    for folder, name, path, info in _all(root):
        if known.get(path) == _signature(info):
            del found[path]
        else:
            found[path] = _state(folder, name, path, info)
    return found


def describe(root: int, path: str) -> State | None:
    """Type, mode, digest, target; None if nothing is there. No link is followed."""
    *folders, name = path[1:].split("/")
    at: int | None = os.dup(root)
    for each in folders:
        inside = open_folder(at, each)
        close(at)
        at = inside
    info = look(at, name or ".")
    try:
        return None if at is None or info is None else _state(at, name or ".", path, info)
    finally:
        close(at)


def files(root: int, skip: frozenset[str]) -> dict[str, State]:
    """The state of all but folders, less what is called, or lies below, a name in `skip`."""
    found = _all(root, skip)
    return {path: _state(at, name, path, info) for at, name, path, info in found if not stat.S_ISDIR(info.st_mode)}


def _all(root: int, skip: frozenset[str] = frozenset()) -> Iterator[_Entry]:
    yield root, ".", "/", os.fstat(root)
    yield from _below(root, "", skip)


def _below(folder: int, path: str, skip: frozenset[str]) -> Iterator[_Entry]:
    for name in os.listdir(folder):
        place = f"{path}/{name}"
        info = None if place in _LEFT_OUT or name in skip else look(folder, name)
        if info is None:
            continue
        yield folder, name, place, info
        if stat.S_ISDIR(info.st_mode) and place.count("/") <= DEPTH:
            yield from _inside(folder, name, place, skip)


def _inside(folder: int, name: str, path: str, skip: frozenset[str]) -> Iterator[_Entry]:
    inside = open_folder(folder, name)
    if inside is None:
        return
    try:
        yield from _below(inside, path, skip)
    finally:
        os.close(inside)


def _signature(info: os.stat_result) -> int:
    return hash((info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino))


def _state(folder: int, name: str, path: str, info: os.stat_result) -> State:
    if stat.S_ISDIR(info.st_mode) and path.count("/") > DEPTH:
        return _TOO_DEEP
    return describe_entry(folder, name, info)
