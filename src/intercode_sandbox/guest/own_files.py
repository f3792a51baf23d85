"""The files that an agent may change, in a container where nothing can be mounted: created,
compared and put back by their stamps.

    start (nobody's) ── copy ──► root (the agent's), with a stamp for each file: inode, ctime, atime
      ├─ changes: the files whose stamp is another, compared with the start
      └─ put_back: the same files are made anew, then all files get new times, in the same order: so
                   no time shows what was written before. Reading changes none (`NEVER_READ`)

Files that the agent cannot change (`fixed`: userland and devices) are in the root as well, and are
never looked at. `put_back` and `adopt` need a root without processes; `changes`, `export` and
`size` follow no link out of the root.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator

from . import kernel, layers, mounts

SHM = "/dev/shm"
_MODES = {"": 0o1775, SHM: 0o1777}
"""Root's folders that the agent's group may write to. They are sticky: the agent cannot rename
root's files in them."""
_ACCOUNTS = {
    "/etc/passwd": (rb"(?m)^root:x:\d+:\d+:", b"root:x:%(user)d:%(user)d:"),
    "/etc/group": (rb"(?m)^root:x:\d+:", b"root:x:%(user)d:"),
}
"""Files that name users and groups: the agent is called root."""
_COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE, from which the kernel takes the times of files
_BLOCK = 512
_TOO_DEEP = 1 << 60  # the bytes counted for a folder that is nested too deep to be looked into
_LARGEST = 1 << 20  # the size in bytes of the largest account file that is read

NEVER_READ = 2_145_916_800
"""The first second of 2038, every file's access time: the kernel leaves an access time in the
future as it is (mount option `relatime`, the default), whoever reads the file."""


class OwnFiles:
    """The files of the user `uid` below the folder `root`, which begin as those of the folder
    `start`."""

    def __init__(self, start: str, root: str, uid: int, fixed: Collection[str]) -> None:
        self._start_path, self._root, self._uid = start, root, uid
        self._fixed = frozenset(fixed)
        """Names in /."""
        self.root, self.start = kernel.open_folder(root), kernel.open_folder(start)
        self._stamps = dict[str, tuple[int, int, int]]()
        self._times = dict[str, int]()
        """Each file's modification time in the start."""
        self._links = dict[str, list[str]]()
        """All names of a file that has several, by each of them."""
        self._names = {SHM: set[str]()}
        self._list_start("")
        self.put_back()
        self._first_size = self._size()

    def put_back(self) -> None:
        """Make the files equal to the start's."""
        self._copies, self._touched = dict[int, list[str]](), False
        for folder in _MODES:
            self._touched |= self._stamps.get(folder) != _stamp(os.lstat(self._root + folder))
            self._restore(folder)
        self._join_links()
        for names in self._copies.values():
            self._links |= dict.fromkeys(names, names)
        if self._touched:
            for folder in _MODES:
                self._set_attributes(folder)
            self._renew_times()

    def _renew_times(self) -> None:
        """Set all files' times as in the start, and note the stamps."""
        for path, modified in self._times.items():
            os.utime(self._root + path, ns=(NEVER_READ * 10**9, modified), follow_symlinks=False)
        newest = 0
        for path in self._times:
            info = os.lstat(self._root + path)
            self._stamps[path] = _stamp(info)
            newest = max(newest, info.st_ctime_ns)
        # otherwise a change could leave the ctime as it is
        while time.clock_gettime_ns(_COARSE_CLOCK) <= newest:
            time.sleep(0.001)

    def seal(self, paths: Iterable[str]) -> None:
        """Give files, and folders, whose paths end with /, to root, and make what is missing. The
        folders above become sticky: the agent cannot rename root's files in them."""
        for path in paths:
            *above, place = mounts.make_places(self._root, path)
            for folder in above:
                os.chown(folder, 0, self._uid)
                os.chmod(folder, 0o1775)
            for change in (["chown", "-hR", "0:0"], ["chmod", "-R", "go-w"]):
                os.spawnvp(os.P_WAIT, change[0], [*change, "--", place])

    def changes(self) -> layers.Changes:
        """Return the changes, as `layers.diff` does."""
        changed = layers.diff(self.root, self.start, ".", self._is_same)
        for path in changed.keys() & _ACCOUNTS:
            info = layers.stat_entry(self.start, path[1:])
            mode = info and stat.S_IMODE(info.st_mode)
            same = {**changed[path], "kind": "changed", "type": "file", "mode": mode}
            before = _number_root(_read(self.start, path), path, self._uid)
            if changed[path] == same and before and _read(self.root, path) == before:
                del changed[path]
        return changed

    def growth(self) -> int:
        """Return how many bytes the files take beyond those of the start."""
        return self._size() - self._first_size

    def export(self, target: int) -> None:
        """Copy the files into the folder `target` as a layer, whose folders hide those of the
        layers below."""
        os.mkdir("tree", dir_fd=target)
        tree = kernel.open_folder("tree", target)
        layers.copy(self.root, tree, skip=self._fixed)
        _rewrite_accounts(tree, 0)
        names = os.listdir(tree)
        for name in names:
            layers.hide_below(tree, name)
        for name in self._names[""].difference(names):
            layers.make_whiteout(tree, name)
        os.close(tree)

    def adopt(self, source: int) -> None:
        """Replace the files by those of another root, which is the folder `source`."""
        names = set(os.listdir(self.root)) - self._fixed
        _remove([f"{self._root}/{name}" for name in names])
        layers.copy(source, self.root, skip=self._fixed, owner=self._uid)
        _rewrite_accounts(self.root, self._uid)
        above = kernel.open_folder(SHM[1:], source)
        below = kernel.open_folder(SHM[1:], self.root)
        layers.copy(above, below, owner=self._uid)
        os.close(above)
        os.close(below)

    def _size(self) -> int:
        size = sum(_sizes(self.root, ".", self._fixed))
        return size + sum(_sizes(self.root, SHM[1:]))

    def _list_start(self, path: str) -> None:
        with os.scandir(self._start_path + path) as entries:
            is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        self._names[path] = {name for name in is_folder if path or name not in self._fixed}
        for name in self._names[path]:
            if is_folder[name]:
                self._list_start(f"{path}/{name}")

    def _is_same(self, path: str, info: os.stat_result, folder: int = -1) -> bool | None:
        if path[1:] in self._fixed:
            return None
        return self._stamps.get(path, ())[:2] == _stamp(info)[:2]

    # -- copying from the start --------------------------------------------------------------------

    def _restore(self, path: str) -> None:
        unchanged, doomed = set(), []
        folder = os.open(self._root + (path or "/"), os.O_RDONLY | os.O_NOATIME | os.O_CLOEXEC)
        entries = {
            name: os.stat(name, dir_fd=folder, follow_symlinks=False) for name in os.listdir(folder)
        }
        os.close(folder)
        for name, info in entries.items():
            child = f"{path}/{name}"
            if child[1:] in self._fixed:
                continue
            self._touched |= self._stamps.get(child) != _stamp(info)
            # a changed folder is removed as a whole, since its size and flags would stay
            if not self._is_same(child, info):
                doomed.append(self._root + child)
                continue
            unchanged.add(name)
            if child in self._names:
                self._restore(child)
        _remove(doomed)
        self._copy(path, self._names[path] - unchanged)

    def _join_links(self) -> None:
        """Make files with several names anew if the names no longer lead to one file."""
        for names in {id(names): names for names in self._links.values()}.values():
            if len({os.lstat(self._root + name).st_ino for name in names}) > 1:
                self._copies.pop(os.lstat(self._start_path + names[0]).st_ino, None)
                for name in names:
                    os.unlink(self._root + name)
                for path in names:
                    folder, _, name = path.rpartition("/")
                    self._copy(folder, {name})

    def _copy(self, path: str, names: Collection[str]) -> None:
        """Copy these entries of a folder, with all that is below them."""
        if not names:
            return
        above = kernel.open_folder(self._start_path + path)
        below = kernel.open_folder(self._root + path)
        for name in names:
            child, info = f"{path}/{name}", os.stat(name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                os.mkdir(self._root + child)
                self._copy(child, self._names[child])
            elif paths := self._copies.get(info.st_ino):
                os.link(self._root + paths[0], self._root + child, follow_symlinks=False)
                paths.append(child)
            else:
                layers.copy_entry(above, below, name, info)
                if child in _ACCOUNTS:
                    _rewrite_accounts(self.root, self._uid, [child])
                if info.st_nlink > 1:
                    self._copies[info.st_ino] = [child]
            self._set_attributes(child)
        os.close(above)
        os.close(below)

    def _set_attributes(self, path: str) -> None:
        """Give a file or folder the attributes that it has in the start, except its times."""
        target = self._root + path
        info = os.lstat(self._start_path + path.removeprefix(SHM))
        self._times[path] = info.st_mtime_ns
        owner = 0 if path in _MODES else self._uid
        os.chown(target, owner, self._uid, follow_symlinks=False)
        if not stat.S_ISLNK(info.st_mode):
            os.chmod(target, _MODES.get(path) or stat.S_IMODE(info.st_mode))
            for name in os.listxattr(target):
                os.removexattr(target, name)


def _number_root(text: bytes, path: str, user: int) -> bytes:
    """Return the text of an account file with another number for the user called root."""
    before, after = _ACCOUNTS[path]
    return re.sub(before, after % {b"user": user}, text, count=1)


def _rewrite_accounts(root: int, user: int, paths: Iterable[str] = _ACCOUNTS) -> None:
    """Give the user called root this number in the account files below the folder `root`."""
    for path in paths:
        if text := _read(root, path):
            flags = os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK
            fd = kernel.open_inside(root, path, flags, links=False)
            os.write(fd, _number_root(text, path, user))
            os.close(fd)


def _read(root: int, path: str) -> bytes:
    """Return the content of an account file, or nothing if the path is a link, a device, or a file
    that is too large."""
    try:
        fd = kernel.open_inside(root, path, os.O_RDONLY | os.O_NONBLOCK, links=False)
    except OSError:
        return b""
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _LARGEST:
            return b""
        return kernel.read_all(fd)
    finally:
        os.close(fd)


def _remove(paths: list[str]) -> None:
    folders = []
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            folders.append(path)
    if folders:  # perhaps nested deeper than Python can go
        os.spawnvp(os.P_WAIT, "rm", ["rm", "-rf", "--", *folders])


def _sizes(folder: int, name: str, skip: Collection[str] = (), depth: int = 0) -> Iterator[int]:
    """Yield the bytes that each file below a folder takes on disk, without names in `skip`."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NOATIME | os.O_CLOEXEC
    try:
        inside = os.open(name, flags, dir_fd=folder)
    except OSError:
        return
    try:
        for child in os.listdir(inside):
            if child not in skip and (info := layers.stat_entry(inside, child)):
                yield max(info.st_blocks * _BLOCK, mounts.INODE_SHARE)
                if not stat.S_ISDIR(info.st_mode):
                    continue
                if depth < layers.DEPTH:
                    yield from _sizes(inside, child, depth=depth + 1)
                else:
                    yield _TOO_DEEP
    finally:
        os.close(inside)


def _stamp(info: os.stat_result) -> tuple[int, int, int]:
    """Return inode, ctime and atime. Only the kernel sets a ctime."""
    return info.st_ino, info.st_ctime_ns, info.st_atime_ns
