"""Makes paths of one tree as they are in another: what erases an episode where nothing vanishes by itself, and what copies one.

Nobody else may be at work in either tree. Paths are taken in sorted order, so that each folder is a true one again before
anything below it is touched, and no link is followed. Left out: what lies below a folder that is not among the paths itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from .layers import close, copy_entry, copy_marks, look, open_folder


def mend(target: int, source: int, paths: Iterable[str], owner: int) -> None:
    """`paths` in the tree `target` become what they are in `source`, and belong to `owner`; what is not there is removed."""
    links: dict[int, str] = {}
    wanted = sorted(set(paths))
    for path in wanted:
        _mend(target, source, path, owner, links)
    for path in sorted({*wanted, *map(os.path.dirname, wanted)} - {""}, reverse=True):  # whatever was done in them is over
        _mark_folder(target, source, path)


def _mend(target: int, source: int, path: str, owner: int, links: dict[int, str]) -> None:
    below, above, name = _parent(target, path), _parent(source, path), os.path.basename(path) or "."
    try:
        now, then = look(below, name), look(above, name)
        both_folders = now and then and stat.S_ISDIR(now.st_mode) and stat.S_ISDIR(then.st_mode)
        if below is None or both_folders:
            return
        if now:
            remove(below, name)
        if then and above is not None:
            _make(target, below, above, name, path, then, owner, links)
    finally:
        close(below, above)


def _make(
    target: int, below: int, above: int, name: str, path: str, then: os.stat_result, owner: int, links: dict[int, str]
) -> None:
    if then.st_nlink > 1 and then.st_ino in links:
        os.link(links[then.st_ino], name, src_dir_fd=target, dst_dir_fd=below, follow_symlinks=False)
        return
    if stat.S_ISDIR(then.st_mode):
        os.mkdir(name, dir_fd=below)
    else:
        copy_entry(above, below, name, then)
        links[then.st_ino] = path[1:]
    os.chown(name, owner, owner, dir_fd=below, follow_symlinks=False)
    copy_marks(below, name, then)


def _mark_folder(target: int, source: int, path: str) -> None:
    below, above, name = _parent(target, path), _parent(source, path), os.path.basename(path) or "."
    try:
        now, then = look(below, name), look(above, name)
        if below is not None and now and then and stat.S_ISDIR(now.st_mode) and stat.S_ISDIR(then.st_mode):
            _clear(below, name)
            copy_marks(below, name, then)
    finally:
        close(below, above)


def _clear(folder: int, name: str) -> None:
    """Of attributes that a folder's owner can give it; a copied tree has none."""
    inside = open_folder(folder, name)
    if inside is not None:
        for attribute in os.listxattr(inside):
            if attribute.startswith(("user.", "system.posix_acl_")):
                os.removexattr(inside, attribute)
    close(inside)


def remove(folder: int, name: str) -> None:
    """And all below it, however deep: what is found in a folder comes up before the folder goes."""
    pending, mark = [name], os.urandom(8).hex()
    number = 0
    while pending:
        each = pending.pop()
        inside = open_folder(folder, each)
        if inside is None:
            os.unlink(each, dir_fd=folder)
            continue
        for found in _entries(inside):
            number += 1
            os.rename(found, f"{mark}{number}", src_dir_fd=inside, dst_dir_fd=folder)
            pending.append(f"{mark}{number}")
        os.close(inside)
        os.rmdir(each, dir_fd=folder)


def _entries(folder: int) -> Iterator[str]:
    """Its folders, while the rest of what is in it is removed."""
    for name in os.listdir(folder):
        info = look(folder, name)
        if info is None or not stat.S_ISDIR(info.st_mode):
            os.unlink(name, dir_fd=folder)
        else:
            yield name


def _parent(root: int, path: str) -> int | None:
    """A descriptor of the folder that holds `path`; None if there is none. No link is followed."""
    at: int | None = os.dup(root)
    for each in filter(None, path.split("/")[1:-1]):
        inside = open_folder(at, each)
        close(at)
        at = inside
    return at
