"""Overlay layers as data: what an upper folder changes relative to the folder below it, and a
faithful copy of a layer.

The marks of an overlay are read as the kernel documents them
(Documentation/filesystems/overlayfs.rst): a character device 0:0 (a whiteout) hides the name below,
and so does an empty file with `user.overlay.whiteout` in a folder with `user.overlay.opaque=x`; a
folder with `user.overlay.opaque=y` hides all below. Nothing here follows a link or leaves the two
folders. Folders nested deeper than `DEPTH` are reported as one change of type "other" and not
copied; the same holds for files that cannot be read, or that change during the comparison.
"""

from __future__ import annotations

import errno
import os
import stat
from _blake2 import blake2b
from collections.abc import Callable, Collection, Iterator

from .light import Message
from .room import require_room

DEPTH = 100
OPAQUE = "user.overlay.opaque"
WHITEOUT = "user.overlay.whiteout"
_LINUX_WITH_WHITEOUT = (6, 8)  # the first Linux that reads the attribute
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
_CHUNK, PAGE, _BLOCK = 1 << 20, 4096, 512
_ZEROS = bytes(PAGE)
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

SAME = -1
"""As `owner` of a copy: keep the user and group of each copied file."""
Changes = dict[str, Message]
Digests = dict[tuple[int, int], str]
"""Device and inode → digest of the content: a file with many names is read once."""
OTHER: Message = {"type": "other", "mode": 0}


Known = Callable[[str, os.stat_result, int], bool | None]
"""Returns whether the entry at a path, in an open folder, is the same as in the lower folder; None
leaves the entry out."""


def diff(
    upper: int,
    lower: int,
    tree: str,
    is_same: Known | None = None,
    names: Collection[str] | None = None,
) -> Changes:
    """Return the changes that the agent sees below the folder `tree`: absolute path → {kind, type,
    mode, digest, target}.

    With `is_same`, the upper folder holds all that the agent sees, not only what was written;
    entries that `is_same` calls equal are not compared again, and the mode of the folder itself is
    not compared. With `names` as well, this holds only for these names in the folder.
    """
    changes = Changes()
    now, before = open_folder(upper, tree), open_folder(lower, tree)
    try:
        if now >= 0 and before >= 0:
            info = os.fstat(now)
            mode = stat.S_IMODE(info.st_mode)
            compares_mode = not is_same or names is not None
            if compares_mode and mode != stat.S_IMODE(os.fstat(before).st_mode):
                changes["/"] = {"kind": "changed", "type": "dir", "mode": mode}
            _compare_folders(now, before, "", changes, Digests(), is_same, names)
            if not _is_unchanged(info, os.fstat(now)):
                changes["/"] = {"kind": "changed", **OTHER}
    finally:
        _close(now, before)
    return changes


def _compare_folders(
    upper: int,
    lower: int,
    path: str,
    changes: Changes,
    digests: Digests,
    is_same: Known | None,
    whole: Collection[str] | None = None,
) -> None:
    names = os.listdir(upper)
    for name in names:
        check = is_same if whole is None or name in whole else None
        _compare(upper, lower, name, f"{path}/{name}", changes, digests, check)
    if whole is None:
        whole = ()
        if lower >= 0 and (is_same or _is_opaque(upper)):
            whole = os.listdir(lower)
    for name in set(whole).difference(names):
        _report_removed(lower, name, f"{path}/{name}", changes)


def _compare(
    upper: int,
    lower: int,
    name: str,
    path: str,
    changes: Changes,
    digests: Digests,
    is_same: Known | None,
) -> None:
    now = stat_entry(upper, name)
    if now and is_same:
        same = is_same(path, now, upper)
        if same is None or (same and not stat.S_ISDIR(now.st_mode)):
            return
    elif now and _is_whiteout(now):
        _report_removed(lower, name, path, changes)
        return
    before = stat_entry(lower, name)
    kind = "changed" if before else "added"
    entry = describe_entry(upper, name, now, digests)
    if entry != describe_entry(lower, name, before, digests):
        changes[path] = {"kind": kind, **entry}
    inside = open_folder(upper, name)
    if inside < 0:
        _report_content_removed(lower, name, path, changes)
    elif path.count("/") > DEPTH:
        changes[path] = {"kind": "added", **OTHER}
        os.close(inside)
    else:
        below = open_folder(lower, name)
        try:
            _compare_folders(inside, below, path, changes, digests, is_same)
        finally:
            _close(inside, below)
    if entry == OTHER or not _is_unchanged(now, stat_entry(upper, name)):
        changes[path] = {"kind": kind, **OTHER}


def _report_removed(lower: int, name: str, path: str, changes: Changes) -> None:
    if before := stat_entry(lower, name):
        kind = _TYPES.get(stat.S_IFMT(before.st_mode), "other")
        changes[path] = {"kind": "removed", "type": kind}
        _report_content_removed(lower, name, path, changes)


def _report_content_removed(lower: int, name: str, path: str, changes: Changes) -> None:
    below = open_folder(lower, name)
    if below >= 0:
        for child in os.listdir(below):
            _report_removed(below, child, f"{path}/{child}", changes)
        os.close(below)


def _is_unchanged(before: os.stat_result | None, now: os.stat_result | None) -> bool:
    """Return whether a file has not changed in between: only the kernel sets ctime."""
    if before is None or now is None:
        return False
    return (before.st_ino, before.st_ctime_ns) == (now.st_ino, now.st_ctime_ns)


def walk(folder: int, name: str, path: str) -> Iterator[tuple[str, Message]]:
    """Yield path, type, mode and target of an entry of a folder, which is called `path`, and of all
    that is below it."""
    yield path, describe_entry(folder, name, stat_entry(folder, name), None)
    inside = open_folder(folder, name)
    if inside >= 0:
        try:
            for child in os.listdir(inside):
                yield from walk(inside, child, f"{path}/{child}")
        finally:
            os.close(inside)


def describe_entry(
    folder: int | None, name: str, info: os.stat_result | None, digests: Digests | None
) -> Message:
    """Return type, mode, and digest (with `digests`) or link target of a file; `OTHER` if it is
    gone or cannot be read."""
    if info is None:
        return OTHER
    kind = _TYPES.get(stat.S_IFMT(info.st_mode), "other")
    entry: Message = {"type": kind, "mode": stat.S_IMODE(info.st_mode)}
    try:
        if kind == "file" and digests is not None:
            key = info.st_dev, info.st_ino
            digest = digests.get(key) or _digest(folder, name)
            if info.st_nlink > 1:
                digests[key] = digest
            entry["digest"] = digest
        elif kind == "link":
            entry["target"] = os.readlink(name, dir_fd=folder)
    except OSError as error:
        require_room(error)
        return OTHER
    return entry


def _digest(folder: int | None, name: str) -> str:
    """Return the digest of a file's content. Holes cost nothing. Pages of zeros count the same,
    written or not."""
    fd = _open(name, os.O_NONBLOCK, folder)
    state, gaps, end = blake2b(digest_size=16), [], 0
    try:
        for position, data in _filled(fd):
            if position != end:
                gaps.append((end, position))
            state.update(data)
            end = position + len(data)
        content = repr((state.digest(), gaps, os.fstat(fd).st_size))
        return blake2b(content.encode(), digest_size=16).hexdigest()
    finally:
        os.close(fd)


def read_begin(folder: int, name: str, size: int) -> bytes:
    """Return the first `size` bytes of a file's content."""
    fd = _open(name, os.O_NONBLOCK, folder)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def _filled(fd: int) -> Iterator[tuple[int, bytes]]:
    """Yield position and content of the pages that are not all zeros; the last page is padded with
    zeros."""
    position = 0
    while (begin := _seek(fd, position, os.SEEK_DATA)) is not None:
        position = begin - begin % PAGE
        length = (_seek(fd, begin, os.SEEK_HOLE) or begin) - position
        data = os.pread(fd, min(_CHUNK, length + -length % PAGE), position)
        if not data:
            return
        data += bytes(-len(data) % PAGE)
        if _ZEROS not in data:
            yield position, data
        else:
            for start in range(0, len(data), PAGE):
                page = data[start : start + PAGE]
                if page != _ZEROS:
                    yield position + start, page
        position += len(data)


def _seek(fd: int, position: int, whence: int) -> int | None:
    """Return the position of the next data or hole, or None at the end."""
    try:
        return os.lseek(fd, position, whence)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def copy(source: int, target: int, *, skip: Collection[str] = (), owner: int | None = None) -> None:
    """Copy everything in `source` except the names in `skip` into `target`, with marks, modes,
    times and hard links.

    The names must not exist there. The copies belong to the user and group `owner`, or to those of
    the source (`SAME`).
    """
    _copy_folder(source, target, target, "", {}, skip, owner)
    copy_stat(target, os.fstat(source))


def copy_stat(folder: int | str, info: os.stat_result) -> None:
    """Give a folder the mode and the times of `info`."""
    os.chmod(folder, stat.S_IMODE(info.st_mode))
    os.utime(folder, ns=(info.st_atime_ns, info.st_mtime_ns))


def _copy_folder(
    source: int,
    target: int,
    root: int,
    path: str,
    links: dict[int, str],
    skip: Collection[str],
    owner: int | None,
) -> None:
    if _is_opaque(source):
        os.setxattr(target, OPAQUE, b"y")
    for name in set(os.listdir(source)).difference(skip):
        info = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            if path.count("/") < DEPTH:
                os.mkdir(name, dir_fd=target)
                inside, copied = open_folder(source, name), open_folder(target, name)
                try:
                    if inside >= 0 and copied >= 0:
                        _copy_folder(inside, copied, root, f"{path}{name}/", links, (), owner)
                finally:
                    _close(inside, copied)
        elif info.st_nlink > 1 and info.st_ino in links and not _is_whiteout(info):
            os.link(
                links[info.st_ino], name, src_dir_fd=root, dst_dir_fd=target, follow_symlinks=False
            )
            continue
        else:
            copy_entry(source, target, name, info)
            links[info.st_ino] = path + name
        copy_attributes(target, name, info, owner)


def copy_entry(source: int, target: int, name: str, info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    elif stat.S_ISREG(info.st_mode):
        read = _open(name, os.O_NONBLOCK, source)
        write = os.open(name, NEW, 0o600, dir_fd=target)
        try:
            _copy_content(read, write)
        finally:
            _close(read, write)
    elif _is_whiteout(info):
        hide(target, name)
    else:
        os.mknod(name, info.st_mode, info.st_rdev, dir_fd=target)


def _filled_ranges(fd: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part of a file that is not a hole."""
    end = 0
    while (begin := _seek(fd, end, os.SEEK_DATA)) is not None:
        end = _seek(fd, begin, os.SEEK_HOLE) or begin
        yield begin, end


def copy_attributes(folder: int, name: str, info: os.stat_result, owner: int | None) -> None:
    """Give a file the mode, the times and the `owner` (as in `copy`)."""
    if owner is not None:
        user, group = (info.st_uid, info.st_gid) if owner == SAME else (owner, owner)
        os.chown(name, user, group, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode) and not _is_whiteout(info):
        os.chmod(name, stat.S_IMODE(info.st_mode), dir_fd=folder)
    os.utime(name, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=folder, follow_symlinks=False)


def filled_size(folder: int, path: str, info: os.stat_result) -> int:
    """Return the bytes of the pages that a file fills on a tmpfs."""
    if not stat.S_ISREG(info.st_mode):
        return 0
    ranges = [(0, info.st_size)]
    if info.st_blocks * _BLOCK < info.st_size:
        fd = _open(path, 0, folder)
        try:
            ranges = list(_filled_ranges(fd))
        finally:
            os.close(fd)
    return sum(end + -end % PAGE - begin // PAGE * PAGE for begin, end in ranges)


def cover(folder: int, names: Collection[str]) -> None:
    """Make a layer, which is complete under these names, hide what the layers below contain
    there."""
    for name in names:
        if stat_entry(folder, name):
            hide_below(folder, name)
        else:
            hide(folder, name)


def hide(folder: int, name: str) -> None:
    """Hide the name in the folders below with a whiteout.

    An overlay, such as a container's file system, refuses whiteouts: a marked file then takes its
    place.
    """
    try:
        os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)
    except PermissionError:
        linux = tuple(map(int, os.uname().release.partition("-")[0].split(".")[:2]))
        if linux < _LINUX_WITH_WHITEOUT:
            raise
        make_whiteout(folder, name)


def _copy_content(source: int, target: int) -> None:
    """Copy the content of a file into an empty one; holes stay holes."""
    size = os.fstat(source).st_size
    for position, end in _filled_ranges(source):
        os.lseek(target, position, os.SEEK_SET)
        while position < end and (sent := os.sendfile(target, source, position, end - position)):
            position += sent
    os.ftruncate(target, size)


def make_whiteout(folder: int, name: str) -> None:
    """Hide the name in the folders below with a marked file."""
    fd = os.open(name, NEW, 0o600, dir_fd=folder)
    try:
        os.setxattr(fd, WHITEOUT, b"y")
    finally:
        os.close(fd)
    os.setxattr(folder, OPAQUE, b"x")


def hide_below(folder: int, name: str) -> None:
    """Hide what the layers below contain in this folder's folder `name`, if it exists."""
    inside = open_folder(folder, name)
    if inside >= 0:
        os.setxattr(inside, OPAQUE, b"y")
        os.close(inside)


def stat_entry(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        require_room(error)
        return None


def open_folder(folder: int, name: str) -> int:
    """Return a descriptor; -1 if this is no folder, or if the one above is -1 itself."""
    try:
        return _open(name, os.O_DIRECTORY, folder)
    except OSError as error:
        require_room(error)
        return -1


def _open(name: str, flags: int, folder: int | None) -> int:
    """Open a file or folder for reading, which leaves its time of access as it was."""
    flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=folder)
    except PermissionError:  # the file is not ours
        return os.open(name, flags, dir_fd=folder)


def _is_whiteout(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)
