"""The public data sets by name: what there is, fetching one into the cache, finding one that was fetched.

    catalog.toml ─► list_entries ─► get NAME ─► CACHE/data/NAME/{tasks.json, tree.tar, dump.sql, …} ─► downloaded

A file counts as there when its hash is right, however it came to be there: one put in place by hand is as good.
Left out: deleting and updating (remove the folder), searching.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.tasks.download import Progress, cache_folder, digest_of, fetch

CATALOG = Path(__file__).with_name("catalog.toml")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a data set: where it is, what it must hash to, and its path in the data set's folder."""

    url: str
    sha256: str
    bytes: int
    path: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One data set. `checked` says whether its addresses were seen to work when the catalog was written."""

    name: str
    env: str
    description: str
    count: int
    licence: str
    checked: bool
    files: tuple[RemoteFile, ...]


def list_entries(catalog: Path | None = None) -> list[Entry]:
    """All data sets of the catalog, in its order. Raises `DataError` when it is malformed."""
    catalog = catalog or CATALOG
    try:
        fields = ("name", "env", "description", "count", "licence", "checked")
        return [
            Entry(**{field: table[field] for field in fields}, files=tuple(map(_file, table["files"])))
            for table in tomllib.loads(catalog.read_text(encoding="utf-8"))["entry"]
        ]
    except OSError as error:
        raise UsageError(f"{catalog}: cannot be read ({error.strerror})") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{catalog}: is not a catalog ({type(error).__name__}: {error})") from error


def find(name: str, catalog: Path | None = None) -> Entry:
    """The entry of this name. Raises `UsageError`, which lists the names there are."""
    entries = {entry.name: entry for entry in list_entries(catalog)}
    if name not in entries:
        raise UsageError(
            f"no data set is called {name!r}, nor is there such a file or folder; `intercode data get NAME` fetches "
            f"one of: {', '.join(entries)}"
        )
    return entries[name]


def get(name: str, *, cache: Path | None = None, catalog: Path | None = None, progress: Progress | None = None) -> Path:
    """Fetches what is missing of a data set, verifies all of it, and returns its folder.

    `progress` is called with the bytes so far and in all, counted over all files of the data set.
    Raises `UsageError` for an unknown name, `DataError` when a file cannot be had.
    """
    entry, folder = find(name, catalog), _folder(name, cache)
    total, before = sum(file.bytes for file in entry.files), 0
    for file in entry.files:
        fetch(
            file.url,
            folder / file.path,
            sha256=file.sha256,
            size=file.bytes,
            progress=progress and (lambda done, _, before=before: progress(before + done, total)),  # type: ignore[misc]
        )
        before += file.bytes
        if progress:
            progress(before, total)
    return folder


def downloaded(name: str, *, cache: Path | None = None, catalog: Path | None = None) -> Path | None:
    """The folder of a data set if every file of it is there with the right hash, else None."""
    entry, folder = find(name, catalog), _folder(name, cache)
    whole = all(digest_of(folder / file.path) == file.sha256 for file in entry.files)
    return folder if whole else None


def _file(table: dict[str, Any]) -> RemoteFile:
    path = Path(table["as"])
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} leaves the data set's folder")
    return RemoteFile(table["url"], table["sha256"].lower(), table["bytes"], str(path))


def _folder(name: str, cache: Path | None) -> Path:
    return (cache or cache_folder()) / "data" / name
