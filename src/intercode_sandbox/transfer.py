"""Carry the files that one sandbox has changed over to an untouched sandbox of the same start.

    source.diff() ── without what `is_left_out` ──► a tar, written by this process ──► target

Nothing in the source is executed. The contents may not exceed the source's limit of disk, holes
and further names of a file included. Files keep their content, mode and links; they get the time of
the transfer, hard links become separate files, and FIFOs, sockets and unreadable files stay behind.
"""

from __future__ import annotations

import io
import mmap
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import IO, cast

from intercode_sandbox.base import Sandbox
from intercode_sandbox.errors import SandboxError
from intercode_sandbox.results import Change

_ARCHIVE, _GONE, _FOLDERS = "/.changes.tar", "/.changes.gone", "/.changes.folders"
_LARGEST = 1 << 30
_SECONDS = 300.0
_UNPACK = f"""
modes=()
while IFS= read -rd '' folder; do # which may be read-only
    if [[ -d $folder && ! -w $folder ]]; then
        modes+=("$(stat -c %a -- "$folder")" "$folder")
        chmod u+rwx -- "$folder"
    fi
done <{_FOLDERS}
xargs -0r rm -fd -- <{_GONE} 2>/dev/null
tar -xpof {_ARCHIVE} -C /
status=$?
for ((i = 0; i < ${{#modes[@]}}; i += 2)); do chmod "${{modes[i]}}" -- "${{modes[i + 1]}}"; done
rm -f {_ARCHIVE} {_GONE} {_FOLDERS}
exit $status
"""


class TooLarge(Exception):
    """The changed files are too large to be carried over."""


def carry_over(
    source: Sandbox, target: Sandbox, is_left_out: Callable[[str, Change], bool]
) -> tuple[dict[str, Change], list[str]]:
    """Give `target` the changes of `source`, except the paths that are left out; return the changes
    given and the paths left out.

    `is_left_out` gets a path and its change. No process may be running in the source
    (`Sandbox.end_processes`). Raises `TooLarge`, and `SandboxError` if the target cannot unpack
    the files.
    """
    changes = source.diff()
    left_out = [path for path, change in changes.items() if is_left_out(path, change)]
    for path in left_out:
        del changes[path]
    if not changes:
        return {}, left_out
    replaced = [path for path, change in changes.items() if change.kind != "added"]
    _write_names(target, _GONE, sorted(replaced, reverse=True))  # what is inside a folder first
    parents = {path.rpartition("/")[0] for path in changes} - changes.keys() - {""}
    _write_names(target, _FOLDERS, sorted(parents))
    with tempfile.TemporaryFile() as archive:
        _pack(source, changes, archive)
        with mmap.mmap(archive.fileno(), 0, access=mmap.ACCESS_READ) as data:
            target.write(_ARCHIVE, cast(bytes, data))
    result = target.exec("", argv=["bash", "-c", _UNPACK], cwd="/", timeout=_SECONDS)
    if result.exit_code is None or "tar: command not found" in result.output:
        why = result.output.strip()[-300:]
        if result.timed_out:
            why = "time ran out"
        raise SandboxError(f"the agent's files cannot be carried over for the tests: {why}")
    return changes, left_out


def _write_names(target: Sandbox, path: str, names: Iterable[str]) -> None:
    target.write(path, "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape"))


def _pack(source: Sandbox, changes: dict[str, Change], file: IO[bytes]) -> None:
    """Write a tar. A folder comes before its files, writable, and a second time after all files
    with its own mode."""
    present = []
    for path, change in changes.items():
        if change.kind != "removed" and change.type != "other" and path != "/":
            present.append((path, change))
    files = [path for path, change in present if change.type == "file"]
    contents = source.read_many(files, limit=_LARGEST)
    room = source.limits.disk
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        now = time.time()

        def add(path: str, kind: bytes, mode: int, content: bytes = b"", target: str = "") -> None:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode, entry.mtime = kind, mode, now
            entry.size = len(content)
            entry.linkname = target
            archive.addfile(entry, io.BytesIO(content))

        for path, change in present:
            if change.type == "dir":
                add(path, tarfile.DIRTYPE, change.mode | 0o700)
            elif change.type == "link":
                add(path, tarfile.SYMTYPE, change.mode, target=change.target or "")
            else:
                content = next(contents)
                if content is None:
                    continue
                room -= len(content)
                if room < 0:
                    raise TooLarge(f"more than {source.limits.disk >> 20} MiB were changed")
                add(path, tarfile.REGTYPE, change.mode, content)
        for path, change in reversed(present):
            if change.type == "dir":
                add(path, tarfile.DIRTYPE, change.mode)
    file.flush()
