"""Overlay layers as data: what an upper folder changes against the folder below it, and a faithful copy of one.

Overlay's own marks are read as the kernel documents them (Documentation/filesystems/overlayfs.rst): a character device
0:0 hides the name below, and so does an empty file with `user.overlay.whiteout` in a folder with `user.overlay.opaque=x`; a
folder with `user.overlay.opaque=y` hides all below. Nothing here follows a link or leaves the two given folders.
Folders nested deeper than `DEPTH` are reported as one change of type "other" and not copied; so is what cannot
be read, or changes while one looks.
"""

from __future__ import annotations

import errno
import os
import stat
from _blake2 import blake2b
from collections.abc import Iterator
from typing import Any

DEPTH = 100
OPAQUE = "user.overlay.opaque"
WHITEOUT = "user.overlay.whiteout"
_MARKED_FILES = (6, 8)
"""The first Linux that reads the latter."""
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
_CHUNK, _PAGE = 1 << 20, 4096
_ZEROS = bytes(_PAGE)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Changes = dict[str, dict[str, Any]]
OTHER: dict[str, Any] = {"type": "other", "mode": 0}


def diff(upper: int, lower: int, tree: str) -> Changes:
    """Absolute path → {kind, type, mode, digest, target} for all that the agent would see differ, below the folder `tree`."""
    found, digests = Changes(), Digests()
    now, before = open_folder(upper, tree), open_folder(lower, tree)
    try:
        if now is not None and before is not None:
            info = os.fstat(now)
            mode = stat.S_IMODE(info.st_mode)
            if mode != stat.S_IMODE(os.fstat(before).st_mode):
                found["/"] = {"kind": "changed", "type": "dir", "mode": mode}
            _compare_folders(now, before, "", found, digests, 0)
            if not _same(info, os.fstat(now)):
                found["/"] = {"kind": "changed", **OTHER}
    finally:
        close(now, before)
    return found


def _compare_folders(upper: int, lower: int | None, path: str, found: Changes, digests: Digests, depth: int) -> None:
    names = os.listdir(upper)
    for name in names:
        _compare(upper, lower, name, f"{path}/{name}", found, digests, depth)
    if lower is not None and _opaque(upper):
        for name in set(os.listdir(lower)).difference(names):
            _removed(lower, name, f"{path}/{name}", found)


def _compare(upper: int, lower: int | None, name: str, path: str, found: Changes, digests: Digests, depth: int) -> None:
    now, before = look(upper, name), look(lower, name)
    kind = "added" if before is None else "changed"
    if now is not None and _whiteout(now):
        if before is not None:
            _removed(lower, name, path, found)
        return
    entry = describe_entry(upper, name, now, digests)
    if before is None or entry != describe_entry(lower, name, before, digests):
        found[path] = {"kind": kind, **entry}
    _compare_below(upper, lower, name, path, found, digests, depth)
    if entry == OTHER or not _same(now, look(upper, name)):
        found[path] = {"kind": kind, **OTHER}


def _compare_below(upper: int, lower: int | None, name: str, path: str, found: Changes, digests: Digests, depth: int) -> None:
    inside, below = open_folder(upper, name), open_folder(lower, name)
    try:
        if inside is None and below is not None:
            _removed_below(below, path, found)
        elif inside is not None and depth >= DEPTH:
            found[path] = {"kind": "added", **OTHER}
        elif inside is not None:
            _compare_folders(inside, below, path, found, digests, depth + 1)
    finally:
        close(inside, below)


def _removed(lower: int | None, name: str, path: str, found: Changes) -> None:
    before = look(lower, name)
    if before is None:
        return
    found[path] = {"kind": "removed", "type": _TYPES.get(stat.S_IFMT(before.st_mode), "other")}
    below = open_folder(lower, name)
    if below is not None:
        _removed_below(below, path, found)
        os.close(below)


def _removed_below(lower: int, path: str, found: Changes) -> None:
    for name in os.listdir(lower):
        _removed(lower, name, f"{path}/{name}", found)


def _same(before: os.stat_result | None, now: os.stat_result | None) -> bool:
    """Whether nothing has changed between the two: the kernel alone sets the time of a change."""
    if before is None or now is None:
        return False
    return (before.st_ino, before.st_ctime_ns) == (now.st_ino, now.st_ctime_ns)


def describe_entry(folder: int | None, name: str, info: os.stat_result | None, digests: Digests) -> dict[str, Any]:
    """`OTHER` for what is gone or cannot be read."""
    if info is None:
        return OTHER
    kind = _TYPES.get(stat.S_IFMT(info.st_mode), "other")
    entry: dict[str, Any] = {"type": kind, "mode": stat.S_IMODE(info.st_mode)}
    try:
        if kind == "file":
            entry["digest"] = digests.of(folder, name, info)
        elif kind == "link":
            entry["target"] = os.readlink(name, dir_fd=folder)
    except OSError:
        return OTHER
    return entry


class Digests:
    """Of files' contents: a file with many names is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], str] = {}

    def of(self, folder: int | None, name: str, info: os.stat_result) -> str:
        if info.st_nlink == 1:
            return digest_of(folder, name)
        key = info.st_dev, info.st_ino
        if key not in self._known:
            self._known[key] = digest_of(folder, name)
        return self._known[key]


def digest_of(folder: int | None, name: str) -> str:
    """Holes cost nothing; pages of zeros count alike however they came to be."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    state, gaps, end = blake2b(digest_size=16), [], 0
    try:
        for place, data in _filled(fd):
            if place != end:
                gaps.append((end, place))
            state.update(data)
            end = place + len(data)
        return blake2b(repr((state.digest(), gaps, os.fstat(fd).st_size)).encode(), digest_size=16).hexdigest()
    finally:
        os.close(fd)


def _filled(fd: int) -> Iterator[tuple[int, bytes]]:
    """Where pages lie that are not all zeros, and what they hold; the last one is filled up with zeros."""
    place = 0
    while (begin := _seek(fd, place, os.SEEK_DATA)) is not None:
        place = begin - begin % _PAGE
        length = (_seek(fd, begin, os.SEEK_HOLE) or begin) - place
        data = os.pread(fd, min(_CHUNK, length + -length % _PAGE), place)
        if not data:
            return
        data += bytes(-len(data) % _PAGE)
        if _ZEROS not in data:
            yield place, data
        else:
            pages = ((place + at, data[at : at + _PAGE]) for at in range(0, len(data), _PAGE))
            yield from (page for page in pages if page[1] != _ZEROS)
        place += len(data)


def _seek(fd: int, place: int, whence: int) -> int | None:
    """None where nothing more comes."""
    try:
        return os.lseek(fd, place, whence)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def copy(source: int, target: int) -> None:
    """Everything in `source` into the empty `target`: marks, modes, times, hard links and all."""
    _copy_folder(source, target, target, "", {}, 0)
    stamp(target, os.fstat(source))


def stamp(folder: int | str, info: os.stat_result) -> None:
    """Give it this mode and these times."""
    os.chmod(folder, stat.S_IMODE(info.st_mode))
    os.utime(folder, ns=(info.st_atime_ns, info.st_mtime_ns))


def _copy_folder(source: int, target: int, root: int, path: str, links: dict[int, str], depth: int) -> None:
    if _opaque(source):
        os.setxattr(target, OPAQUE, b"y")
    for name in os.listdir(source):
        info = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            if depth < DEPTH:
                _copy_child(source, target, root, name, f"{path}{name}/", links, depth)
        elif info.st_nlink > 1 and info.st_ino in links and not _whiteout(info):
            os.link(links[info.st_ino], name, src_dir_fd=root, dst_dir_fd=target, follow_symlinks=False)
            continue
        else:
            copy_entry(source, target, name, info)
            links[info.st_ino] = path + name
        copy_marks(target, name, info)


def _copy_child(source: int, target: int, root: int, name: str, path: str, links: dict[int, str], depth: int) -> None:
    os.mkdir(name, dir_fd=target)
    inside, made = open_folder(source, name), open_folder(target, name)
    try:
        if inside is not None and made is not None:
            _copy_folder(inside, made, root, path, links, depth + 1)
    finally:
        close(inside, made)


def copy_entry(source: int, target: int, name: str, info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    elif stat.S_ISREG(info.st_mode):
        read = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
        write = os.open(name, _NEW, 0o600, dir_fd=target)
        try:
            while os.sendfile(write, read, None, 1 << 24):
                pass
        finally:
            close(read, write)
    elif _whiteout(info):
        _copy_whiteout(target, name, info)
    else:
        os.mknod(name, info.st_mode, info.st_rdev, dir_fd=target)


def _copy_whiteout(target: int, name: str, info: os.stat_result) -> None:
    """A file system that is itself an overlay, as a container's is, refuses the device; there a marked file takes its place."""
    try:
        os.mknod(name, info.st_mode, info.st_rdev, dir_fd=target)
    except PermissionError:
        if tuple(map(int, os.uname().release.partition("-")[0].split(".")[:2])) < _MARKED_FILES:
            raise
        fd = os.open(name, _NEW, 0o600, dir_fd=target)
        try:
            os.setxattr(fd, WHITEOUT, b"y")
        finally:
            os.close(fd)
        os.setxattr(target, OPAQUE, b"x")


def copy_marks(target: int, name: str, info: os.stat_result) -> None:
    if not stat.S_ISLNK(info.st_mode) and not _whiteout(info):
        os.chmod(name, stat.S_IMODE(info.st_mode), dir_fd=target)
    os.utime(name, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=target, follow_symlinks=False)


def look(folder: int | None, name: str) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def open_folder(folder: int | None, name: str) -> int | None:
    if folder is None:
        return None
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None


def _whiteout(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def close(*fds: int | None) -> None:
    for fd in fds:
        if fd is not None:
            os.close(fd)
