"""Read what strangers wrote: folders and files entry by entry, and files within bounds.

    entries ─► read_entries ─► values            an entry that cannot be read hides no others
    path, root ─► a plain file inside root ─► bytes, at most so many ─► text ─► JSON, TOML

An entry that cannot be read is left out, and named in a warning, `EntryLeftOut`. The command line
prints it in one line, and ends with status 3.

Links are followed inside the root alone; pipes, devices and folders are refused before anything is
read. A value is at most `DEEPEST` levels deep. Whatever is wrong becomes a `DataError` that names
the file.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from intercode.errors import DataError, EntryLeftOut, IntercodeError, UsageError

Entry = TypeVar("Entry")
Value = TypeVar("Value")

_NAMED = 20
"""The most entries that are named of those which are read together."""


LARGEST = 1 << 30
"""The most bytes of a file of records."""
LARGEST_TEXT = 16 << 20
"""The most bytes of a script, an instruction or a description of one task."""
DEEPEST = 100
"""The most levels of lists and objects in a value."""
_QUOTES = re.compile(r"['‘’“”„«»]")
_PYTHON_WORD = re.compile(r"(?:None|True|False|nan|inf|undefined)\b")


def leave_out(why: object) -> None:
    """Name an entry in a warning; `why` begins with its path, or is an `OSError`."""
    if isinstance(why, OSError) and why.filename:
        why = f"{os.fsdecode(why.filename)}: {why.strerror}"
    warnings.warn(f"left out: {why}", EntryLeftOut, stacklevel=2)


def leave_all_out(reasons: Sequence[str]) -> None:
    """Name entries in warnings: the first twenty, and how many more there are."""
    for reason in reasons[:_NAMED]:
        leave_out(reason)
    if more := reasons[_NAMED:]:
        leave_out(f"{len(more)} more")


def read_entries(entries: Iterable[Entry], read: Callable[[Entry], Value]) -> Iterator[Value]:
    """Yield what `read` returns for each entry; leave out those for which it raises
    `IntercodeError`. Raises the first error if no entry can be read."""
    reasons, sound = list[str](), 0
    first: IntercodeError | None = None
    for entry in entries:
        try:
            value = read(entry)
        except IntercodeError as error:
            first = first or error
            reasons.append(str(error))
        else:
            sound += 1
            yield value
    if first and not sound:
        raise first
    leave_all_out(reasons)


def listed(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder by name; none for a file, or a folder that is gone. Names a
    folder that cannot be read, and a link that leads nowhere."""
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError) and not os.path.islink(folder)
        if not is_gone and not isinstance(error, NotADirectoryError):
            leave_out(error)
        return []


def files_below(folder: str | Path) -> Iterator[Path]:
    """Yield the files and links below a folder, in order; links are not followed."""
    for entry in listed(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path)
        else:
            yield Path(entry.path)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def present(path: str | Path) -> str:
    """Return what is at a path: "file", "folder", "other" (a pipe, a device), or "" for nothing.

    Raises `UsageError` for a path that cannot be looked at: one in a closed folder, or too long.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        if error.errno == errno.ELOOP:
            return ""
        raise UsageError(f"{path}: cannot be looked at ({error.strerror})") from error
    except ValueError as error:
        raise UsageError(f"{path!r}: is not a path ({error})") from error
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def open_plain(path: str | Path, root: str | Path | None = None) -> BufferedReader:
    """Open a plain file for reading.

    Raises `DataError` for one outside of the root, and for whatever is no plain file or cannot be
    read; without a root, where the caller has named the file, `UsageError`.
    """
    if root is not None:
        require_inside(path, root)
    wrong = UsageError if root is None else DataError
    place = os.path.realpath(path)
    try:
        # without waiting for who writes into a pipe
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise wrong(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise wrong(f"{path!r}: is not a path ({error})") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise wrong(f"{path}: is {what}, not a file")
    return open(descriptor, "rb")


def require_inside(path: str | Path, root: str | Path) -> None:
    """Raise `DataError` for a path that leads out of its data's root."""
    if not Path(os.path.realpath(path)).is_relative_to(root_of(root)):
        raise DataError(
            f"{path}: leads out of {root}, where the files of this data must lie; "
            "copy them there (cp -rL)"
        )


def root_of(folder: str | Path) -> Path:
    """Return the folder in which the files of a data set lie: the data's own, or the repository of
    a hub's cache, whose snapshots consist of links."""
    root = Path(os.path.realpath(folder))
    for shelf in root.parents:
        # REPOSITORY/snapshots/COMMIT/FILE is a link to REPOSITORY/blobs/HASH
        if shelf.name == "snapshots" and shelf.with_name("blobs").is_dir():
            return shelf.parent if "--" in shelf.parent.name else root
    return root


def real_file(path: Path) -> Path:
    """Return the file for which a link in a hub's cache stands, and other paths as they are."""
    place = Path(os.path.realpath(path))
    shelf = root_of(path.parent) / "blobs"
    return place if path.is_symlink() and place.is_relative_to(shelf) else path


def read_bytes(
    path: str | Path, root: str | Path | None = None, *, most: int = LARGEST_TEXT
) -> bytes:
    """Return the content of a plain file. Raises `DataError` as `open_plain` does, and for one with
    more than `most` bytes."""
    content = bytearray()
    with open_plain(path, root) as file:
        try:
            while len(content) <= most and (piece := file.read(1 << 20)):
                content += piece
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if len(content) > most:
        raise DataError(f"{path}: has more than {most >> 20} MiB")
    return bytes(content)


def read_text(path: str | Path, root: str | Path | None = None, *, most: int = LARGEST_TEXT) -> str:
    """Return the text of a file, without a byte order mark. Raises `DataError` as `read_bytes`
    does, and for text that is not UTF-8."""
    return decoded(read_bytes(path, root, most=most), path)


def read_files(path: Path, root: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and mode of a file by its name, or of the files below a folder by their paths
    there, without caches of Python; links that lead nowhere are named. Raises `DataError`."""
    require_inside(path, root)
    if present(path) != "folder":
        content = read_bytes(path, root, most=LARGEST)
        return {path.name: (content, path.stat().st_mode & 0o777)}
    files = {}
    for file in files_below(path):
        kind = present(file)
        if not kind:
            leave_out(f"{file}: the link leads nowhere")
        elif kind != "folder" and "__pycache__" not in file.parts:
            content = read_bytes(file, root, most=LARGEST)
            files[str(file.relative_to(path))] = content, file.stat().st_mode & 0o777
    return files


def decoded(content: bytes, path: str | Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8"
        ) from error


def read_json(path: str | Path, root: str | Path | None = None) -> Any:
    return parse_json(read_text(path, root, most=LARGEST), path)


def parse_json(text: str, path: str | Path, first_line: int = 1) -> Any:
    """Return the value of a JSON text, which begins in this line of a file. Raises `DataError`."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {first_line + error.lineno - 1}, column {error.colno}"
        raise DataError(
            f"{path}: {place}: is not JSON ({error.msg}); {_advice(text, error.pos)}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: line {first_line}: JSON that cannot be read ({error})") from error
    require_shallow(value, f"{path}: line {first_line}")
    return value


def _advice(text: str, at: int) -> str:
    """Return what to do about the first character of a text that is not JSON."""
    rest = text[at:].lstrip()
    if not rest:
        return "was the file cut short?"
    if _QUOTES.match(rest):
        return f'write straight double quotes, "…", in place of {rest[0]}'
    if rest[0] in "}]" and text[:at].rstrip().endswith(","):
        return f"remove the comma before {rest[0]}"
    if rest[0] == "," and text[at + 1 :].lstrip()[:1] in ("}", "]"):
        return "remove the comma after the last value"
    if word := _PYTHON_WORD.match(rest):
        return f"{word[0]} is no word of JSON, which has null, true and false"
    return f"what comes there is {rest[:20]!r}"


def read_toml(path: str | Path, root: str | Path | None = None) -> dict[str, Any]:
    """Return the table of a TOML file. Raises `DataError`."""
    try:
        table = tomllib.loads(read_text(path, root))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path}: is not TOML ({error})") from error
    require_shallow(table, str(path))
    return table


def require_shallow(value: object, where: str) -> None:
    """Raise `DataError` for a value that is nested too deeply to be written again."""
    level = [value]
    for _ in range(DEEPEST):
        inner = list[Any]()
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
    if level:
        raise DataError(f"{where}: is nested more than {DEEPEST} levels deep")
