"""Read folders and files entry by entry: one bad entry hides no others.

An entry that cannot be read is left out, and named in a warning, `EntryLeftOut`. The command line
prints it in one line, and ends with status 3.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from intercode.errors import EntryLeftOut, IntercodeError

Entry = TypeVar("Entry")
Value = TypeVar("Value")

_NAMED = 20
"""The most entries that are named of those which are read together."""


def leave_out(why: object) -> None:
    """Name an entry in a warning; `why` begins with its path, or is an `OSError`."""
    if isinstance(why, OSError) and why.filename:
        why = f"{os.fsdecode(why.filename)}: {why.strerror}"
    warnings.warn(f"left out: {why}", EntryLeftOut, stacklevel=2)


def read_entries(entries: Iterable[Entry], read: Callable[[Entry], Value]) -> Iterator[Value]:
    """Yield what `read` returns for each entry; leave out those for which it raises
    `IntercodeError`. Raises the first error if no entry can be read."""
    reasons, bad, sound = list[str](), 0, 0
    first: IntercodeError | None = None
    for entry in entries:
        try:
            value = read(entry)
        except IntercodeError as error:
            bad, first = bad + 1, first or error
            reasons += [str(error)] if bad <= _NAMED else []
        else:
            sound += 1
            yield value
    if first and not sound:
        raise first
    for reason in reasons:
        leave_out(reason)
    if bad > _NAMED:
        leave_out(f"{bad - _NAMED} more")


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
