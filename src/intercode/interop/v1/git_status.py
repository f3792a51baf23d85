"""Compute the output of `git status --short` for a repository at `/` without git, as a pure
function of the changes.

InterCode v1 commits the whole tree at `/` with a `.gitignore` (`IGNORED`) and reads the status
after an action.

    tracked path     gone → " D"           link for file, or back → " T"
                                           other content or owner's x bit → " M"
    any other path   ignored → nothing     file or link → "??", as its topmost folder without
                                           tracked files

A folder in place of a tracked file is only " D". Empty folders, sockets, pipes and everything in a
folder named `.git` are invisible; a folder with its own repository is one entry. Left out, since a
list of changes does not show it: an index or a `.gitignore` that the agent changed (`git add`, `git
commit`), `.git` files that point elsewhere, and a `.git` with an invalid HEAD.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from intercode.types import Change

Changes = Mapping[str, Change]
_NAMES = "bin boot dev etc home lib media opt proc root run sbin srv sys usr var .dockerenv"
IGNORED = frozenset(_NAMES.split(" "))
"""The names in InterCode v1's `.gitignore`; each is ignored at any depth, with everything below
it."""
UNSEEN = IGNORED | {".git"}
"""Names that git never tracks."""

_ESCAPES = {
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}


class Entry(NamedTuple):
    """A line of the status: the two letters without spaces (M, D, T, ??), and the path relative to
    `/`, not quoted."""

    status: str
    path: str


def status(changes: Changes, tracked: Changes) -> list[Entry]:
    """Return the entries in git's order: tracked ones, then untracked ones, each sorted by the
    bytes of the path.

    `changes` maps absolute paths to changes against the template; `tracked` maps the absolute paths
    of the template's files and links outside `UNSEEN` to their state in the template.
    """
    entries = []
    for path, then in tracked.items():
        if letter := _letter(path, then, changes):
            entries.append(Entry(letter, path[1:]))
    return sorted(entries, key=_bytes) + sorted(_untracked(changes, tracked), key=_bytes)


def text(entries: Iterable[Entry]) -> str:
    """Return the entries as git prints them, names quoted as with `core.quotePath` on."""
    return "".join(f"{entry.status:>2} {quoted(entry.path)}\n" for entry in entries)


def quoted(path: str) -> str:
    """Return a path as git prints it: in double quotes with C escapes if it contains a space, a
    quote, or bytes outside ASCII."""
    raw = path.encode(errors="surrogateescape")
    escaped = "".join(
        _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw
    )
    if escaped != path or " " in path:
        return f'"{escaped}"'
    return path


def ignored(path: str) -> bool:
    """Return whether git ignores an absolute path: at or below an ignored name, or inside
    `.git`."""
    return not UNSEEN.isdisjoint(path.split("/"))


def _letter(path: str, then: Change, changes: Changes) -> str:
    """Return the letter of a tracked path; "" if git sees no difference."""
    for folder in _folders(path):
        above = changes.get(folder)
        if above and (above.kind == "removed" or above.type != "dir"):
            return "D"
    now = changes.get(path)
    if now is None:
        return ""
    if now.kind == "removed" or now.type == "dir":
        return "D"
    if (then.type == "link") != (now.type == "link"):
        return "T"
    same = (then.digest, then.target, _runs(then)) == (now.digest, now.target, _runs(now))
    if same:
        return ""
    return "M"


def _runs(change: Change) -> bool:
    return change.type == "file" and bool(change.mode & 0o100)


def _untracked(changes: Changes, tracked: Collection[str]) -> set[Entry]:
    tracked_folders = set(chain.from_iterable(map(_folders, tracked)))
    paths = []
    for path in _repositories(changes):
        if path not in tracked_folders:
            paths.append(f"{path}/")
    for path, change in changes.items():
        if _is_file(change) and path not in tracked:
            paths.append(path)
    entries = set()
    for path in paths:
        if ignored(path):
            continue
        # print the topmost folder above each path that contains no tracked file
        for folder in _folders(path):
            if folder not in tracked_folders:
                path = f"{folder}/"
                break
        if path.rstrip("/") not in tracked:
            entries.add(Entry("??", path[1:]))
    return entries


def _is_file(change: Change) -> bool:
    return change.kind != "removed" and change.type in ("file", "link")


def _repositories(changes: Changes) -> Iterator[str]:
    """Yield the folders in which `git init` was run."""
    for path, change in changes.items():
        top, head, rest = path.rpartition("/.git/HEAD")
        is_head = head and top and not rest and _is_file(change)
        if is_head and {f"{top}/.git/objects", f"{top}/.git/refs"} <= changes.keys():
            yield top


def _folders(path: str) -> Iterator[str]:
    """Yield the folders above a path, topmost first: `/a` and `/a/b` for `/a/b/c`."""
    end = path.find("/", 1)
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)


def _bytes(entry: Entry) -> bytes:
    return entry.path.encode(errors="surrogateescape")
