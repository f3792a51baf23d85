"""Files that are copied for each episode where an overlay on a tmpfs cannot mark folders: before
Linux 6.6.

    the template's files ── once ──► Copies: attributes, targets of links, content of small files
                                       ├─ make: a copy for an episode
                                       └─ is_same: whether a file of the copy is as it was

An overlay must mark an upper folder that hides one of the template's. Copied files hide nothing.
"""

from __future__ import annotations

import os
import stat

from . import kernel, layers
from .light import NamedTuple

_SMALL = 1 << 16  # bytes of the largest file whose content is kept in memory


class Entry(NamedTuple):
    """`text` is the target of a link, `first` another path of the same file, `position` where the
    content is kept."""

    info: os.stat_result
    text: str = ""
    first: str = ""
    position: int = -1


class Copies:
    """Names in the folder `source`, and everything below them. Paths are relative to it."""

    def __init__(self, source: int) -> None:
        self.names: set[str] = set()
        self.bytes = 0
        """The bytes that the copied contents occupy on a tmpfs."""
        self._source, self._content, self._end = source, os.memfd_create("content"), 0
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, name: str, limit: int) -> bool:
        """Note everything to be copied under a name. Return False if it is nested too deep,
        contains devices, or exceeds `limit`.

        The limit is in bytes, for all names together; each file's entry counts as a page.
        """
        entries, paths = dict[str, Entry](), dict[tuple[int, int], str]()
        size, waiting = self.bytes, [name]
        while waiting:
            path = waiting.pop()
            info = os.stat(path, dir_fd=self._source, follow_symlinks=False)
            first = paths.setdefault((info.st_dev, info.st_ino), path)
            if stat.S_ISDIR(info.st_mode):
                folder = kernel.open_folder(path, self._source)
                waiting += [f"{path}/{child}" for child in os.listdir(folder)]
                os.close(folder)
            elif first == path:
                size += layers.filled_size(self._source, path, info)
            entries[path] = Entry(info, first="" if first == path else first)
            too_large = size + (len(self) + len(entries)) * layers.PAGE > limit
            is_device = stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode)
            if too_large or is_device or path.count("/") >= layers.DEPTH:
                return False
        self.bytes = size
        self.names.add(name)
        for path, entry in entries.items():
            self._entries[path] = self._with_content(path, entry)
        return True

    def _with_content(self, path: str, entry: Entry) -> Entry:
        info = entry.info
        if stat.S_ISLNK(info.st_mode):
            return entry._replace(text=os.readlink(path, dir_fd=self._source))
        if not stat.S_ISREG(info.st_mode) or entry.first or info.st_size > _SMALL:
            return entry
        content = layers.read_begin(self._source, path, _SMALL)
        position, self._end = self._end, self._end + os.pwrite(self._content, content, self._end)
        return entry._replace(position=position)

    def make(self, target: int, owner: int | None) -> None:
        """Copy everything into the empty folder `target`, as `layers.copy` does."""
        for path, (info, text, first, position) in self._entries.items():
            if first:
                os.link(first, path, src_dir_fd=target, dst_dir_fd=target, follow_symlinks=False)
                continue
            if text:
                os.symlink(text, path, dir_fd=target)
            elif stat.S_ISDIR(info.st_mode):
                os.mkdir(path, dir_fd=target)
            elif position >= 0:
                fd = os.open(path, layers.NEW, 0o600, dir_fd=target)
                os.sendfile(fd, self._content, position, info.st_size)
                os.close(fd)
            else:
                layers.copy_entry(self._source, target, path, info)
            layers.copy_attributes(target, path, info, owner)
        for path, (info, *_) in self._entries.items():
            if stat.S_ISDIR(info.st_mode):  # filling the folder has changed its time
                os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=target)
        layers.copy_stat(target, os.fstat(self._source))

    def is_same(self, path: str, now: os.stat_result, folder: int) -> bool:
        """Return whether a link or a small file in the open `folder` is as it was copied; False if
        that takes more work to find out."""
        entry = self._entries.get(path[1:])
        if entry is None or now.st_mode != entry.info.st_mode or now.st_size != entry.info.st_size:
            return False
        name = path.rpartition("/")[2]
        try:
            if entry.text:
                return os.readlink(name, dir_fd=folder) == entry.text
            if entry.position < 0:
                return False
            content = os.pread(self._content, now.st_size, entry.position)
            return layers.read_begin(folder, name, _SMALL) == content
        except OSError:
            return False
