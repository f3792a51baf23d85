"""The public data sets: list them, fetch one into the cache, find one that was fetched.

    catalog.toml ─► list_entries ─► get NAME ─► CACHE/data/NAME/{tasks.json, tree.tar, dump.sql, …}
                 ─► downloaded

A file is complete when its hash is right, so a file that the user put there is as good as a fetched
one.

Left out: resuming a download (the largest file is 1 MB), deleting and updating (remove the folder),
searching.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.sandbox.cache import root_path

CATALOG = Path(__file__).with_name("catalog.toml")
LONGEST_WAIT = 60.0
"""The most seconds between two tries, whatever a server asks for."""
Progress = Callable[[int, int], None]
"""Called with the bytes so far and the bytes in all."""
_CUT = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a data set: its address, its SHA-256 and size, and its path in the data set's
    folder."""

    url: str
    sha256: str
    bytes: int
    path: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set. `checked` says whether its addresses worked when the catalog was written."""

    name: str
    env: str
    description: str
    count: int
    licence: str
    checked: bool
    files: tuple[RemoteFile, ...]


def list_entries() -> list[Entry]:
    """Return all data sets of the catalog, in its order. Raises `DataError` if the catalog is
    malformed."""
    try:
        fields = ("name", "env", "description", "count", "licence", "checked")
        return [
            Entry(
                **{field: table[field] for field in fields}, files=tuple(map(_file, table["files"]))
            )
            for table in tomllib.loads(CATALOG.read_text(encoding="utf-8"))["entry"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{CATALOG}: is not a catalog ({type(error).__name__}: {error})") from error


def _file(table: dict[str, Any]) -> RemoteFile:
    path = Path(table["as"])
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} leaves the data set's folder")
    return RemoteFile(table["url"], table["sha256"].lower(), table["bytes"], str(path))


def find(name: str) -> Entry:
    """Return the entry of this name. Raises `UsageError` with the known names."""
    entries = {entry.name: entry for entry in list_entries()}
    if name not in entries:
        raise UsageError(
            f"no data set is called {name!r}, nor is there such a file or folder; "
            f"`intercode data get NAME` fetches one of: {', '.join(entries)}"
        )
    return entries[name]


def get(name: str, *, progress: Progress | None = None) -> Path:
    """Fetch the files of a data set that are missing or wrong, and return its folder.

    `progress` counts over all files of the data set.
    Raises `UsageError` for an unknown name, `DataError` if a file cannot be fetched.
    """
    entry, folder = find(name), root_path() / "data" / name
    total, before = sum(file.bytes for file in entry.files), 0
    for file in entry.files:
        step = progress and partial(_report_file, progress, before, total)
        fetch(file.url, folder / file.path, sha256=file.sha256, size=file.bytes, progress=step)
        before += file.bytes
        if progress:
            progress(before, total)
    return folder


def downloaded(name: str) -> Path | None:
    """Return the folder of a data set if each of its files has the right hash, else None."""
    entry, folder = find(name), root_path() / "data" / name
    complete = all(digest_of(folder / file.path) == file.sha256 for file in entry.files)
    return folder if complete else None


def digest_of(path: Path) -> str | None:
    """Return the hex SHA-256 of a file's bytes, or None if there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _report_file(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def fetch(
    url: str,
    dest: Path,
    *,
    sha256: str,
    size: int,
    tries: int = 5,
    timeout: float = 30.0,
    backoff: float = 0.5,
    progress: Progress | None = None,
) -> Path:
    """Fetch the file of `size` bytes with this hash to `dest`, complete or not at all, and return
    `dest`.

    A file that already exists is not requested. `timeout` (seconds) bounds connecting and each wait
    for data. After the n-th failure the wait is `backoff` × 2ⁿ seconds, or the server's
    Retry-After, and a minute at most. Raises `DataError` if the server does not deliver these
    bytes, `UsageError` if `dest` cannot be written.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{url}: only http:// and https:// addresses can be fetched")
    part = dest.with_name(f"{dest.name}.{os.getpid()}-{threading.get_ident()}.part")
    failure, wait = "", 0.0
    try:
        for attempt in range(tries):
            if digest_of(dest) == sha256:
                return dest
            time.sleep(min(wait, LONGEST_WAIT))
            wait = backoff * 2**attempt
            dest.parent.mkdir(parents=True, exist_ok=True)
            try:
                digest = _receive(url, part, size, timeout, progress)
            except urllib.error.HTTPError as error:
                with error:
                    failure = f"HTTP {error.code} {error.reason}"
                    if error.code not in (408, 425, 429) and error.code < 500:
                        raise DataError(f"{url}: {failure}; has the file moved?") from error
                    # may also be a date, which is ignored
                    after = str(error.headers.get("Retry-After"))
                    wait = int(after) if after.isdecimal() else wait
            except _CUT as error:
                failure = f"the connection failed ({error})"
            else:
                if digest == sha256:
                    part.replace(dest)
                    return dest
                failure = f"the SHA-256 of what arrives is {digest}, not {sha256}"
    except OSError as error:
        raise UsageError(
            f"{dest}: cannot be written ({error}); is the disk full? INTERCODE_CACHE moves it"
        ) from error
    finally:
        if part.exists():
            part.unlink()
    raise DataError(
        f"{url}: {failure} (tried {tries} times). If you have the right file, put it at {dest}"
    )


def _receive(url: str, part: Path, size: int, timeout: float, progress: Progress | None) -> str:
    """Write what the server sends to `part`, and return its SHA-256. Raises `ConnectionError` if it
    is shorter than `size`."""
    request = urllib.request.Request(url, headers={"User-Agent": "intercode"})
    state, done = hashlib.sha256(), 0
    with urllib.request.urlopen(request, timeout=timeout) as response, part.open("wb") as file:
        # the hash of a longer file is wrong anyway
        while done <= size and (block := response.read1(2**16)):
            file.write(block)
            state.update(block)
            done += len(block)
            if progress:
                progress(done, size)
        os.fsync(file.fileno())
    if done < size:
        raise ConnectionError(f"cut after {done} of {size} bytes")
    return state.hexdigest()
