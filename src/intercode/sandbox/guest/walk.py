"""What changed in a file system without layers: all files are looked at before the agent comes, and again.

    look_at_all ── path → hash of (mode, size, times, inode number) ──┐
                                                                      ├─► changed: path → state now, None if it is gone
    the agent acts; nothing that it does leaves a signature as it was ┘

Whether a changed signature is a change for the agent is told by comparing with an untouched container (`describe`). The change
time is the kernel's and cannot be set. /proc and /sys are left out, and what lies in folders nested deeper than `DEPTH`; of
/dev only names, owners and modes count, since to use a device changes its times.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

from .layers import DEPTH, Digests, close, describe_entry, look, open_folder

LEFT_OUT = frozenset(("/dev", "/proc", "/sys"))
_TOO_DEEP = {"type": "other", "mode": 0}
INODE = 2048
"""What one file more costs, as bytes of disk."""
_NONE: frozenset[str] = frozenset()

State = dict[str, Any]
Signatures = dict[str, int]
Sign = Callable[[os.stat_result], int]


def look_at_all(root: int, skip: frozenset[str] = _NONE) -> Signatures:
    """All but what is called, or lies below, a name in `skip`."""
    found = {"/": _signature(os.fstat(root))}
    _look_below(root, "", skip, found, _signature)
    return found


def look_at_devices() -> Signatures:
    """What stands in /dev, shared memory and message queues among it."""
    found: Signatures = {}
    folder = os.open("/dev", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _look_below(folder, "", _NONE, found, _device)
    os.close(folder)
    return found


def changed(root: int, known: Signatures) -> dict[str, State | None]:
    now = look_at_all(root)
    paths = [path for path, seen in now.items() if known.get(path) != seen]
    paths += known.keys() - now.keys()
    return describe(root, paths)


def written(root: int, known: Signatures) -> int:
    """Bytes on disk of all that is new or changed, `INODE` for each of them among it."""
    paths = [path for path, seen in look_at_all(root).items() if known.get(path) != seen]
    return sum(found.st_blocks * 512 + INODE for found in map(look_at, paths) if found)


def files(root: int, skip: frozenset[str]) -> dict[str, State]:
    """The state of all but folders."""
    found = describe(root, look_at_all(root, skip))
    return {path: state for path, state in found.items() if state and state["type"] != "dir"}


def describe(root: int, paths: Iterable[str]) -> dict[str, State | None]:
    """Of each type, mode, digest, target; None if nothing is there. No link is followed."""
    digests = Digests()
    return {path: _described(root, path, digests) for path in paths}


def _described(root: int, path: str, digests: Digests) -> State | None:
    *folders, name = path[1:].split("/")
    at: int | None = os.dup(root)
    for each in folders:
        inside = open_folder(at, each)
        close(at)
        at = inside
    info = look(at, name or ".")
    try:
        return None if at is None or info is None else _state(at, name or ".", path, info, digests)
    finally:
        close(at)


def look_at(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _look_below(folder: int, path: str, skip: frozenset[str], found: Signatures, sign: Sign) -> None:
    for name in os.listdir(folder):
        place = f"{path}/{name}"
        info = None if place in LEFT_OUT or name in skip else look(folder, name)
        if info is None:
            continue
        found[place] = sign(info)
        if stat.S_ISDIR(info.st_mode) and place.count("/") <= DEPTH:
            inside = open_folder(folder, name)
            if inside is not None:
                _look_below(inside, place, skip, found, sign)
                os.close(inside)


def _signature(info: os.stat_result) -> int:
    return hash((info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino))


def _device(info: os.stat_result) -> int:
    return hash((info.st_mode, info.st_uid, info.st_gid, info.st_rdev, info.st_ino))


def _state(folder: int, name: str, path: str, info: os.stat_result, digests: Digests) -> State:
    if stat.S_ISDIR(info.st_mode) and path.count("/") > DEPTH:
        return _TOO_DEEP
    return describe_entry(folder, name, info, digests)
