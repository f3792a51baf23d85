"""The public data sets: list them, fetch one into the cache, find one that was fetched.

    catalog.toml ─► list_entries ─► get NAME ─► CACHE/data/NAME/{tasks.json, setup.sh, dump.sql, …}
    catalog.tsv                  ─► downloaded

The files are those of one commit of InterCode v1's repository. A file is complete when its hash is
right, so a file that the user put there is as good as a fetched one.

Left out: resuming in the middle of a file, deleting and updating (remove the folder), searching.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import ssl
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from intercode.errors import DataError, UsageError, did_you_mean, did_you_mean_file
from intercode_sandbox.cache import root_path

CATALOG = Path(__file__).with_name("catalog.toml")
LONGEST_WAIT = 60.0
"""The most seconds between two tries, whatever a server asks for."""
LARGEST = 2**30
"""The most bytes of a file of unknown size."""
BLOB_DIGITS = 40
JOINED = "tasks.json"
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
    """A file of a data set: its path in the repository, its SHA-256 or git blob id, its size (None
    if unknown), and its path in the data set's folder."""

    source: str
    digest: str
    bytes: int | None
    path: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set with files, or with parts: the names of the data sets whose tasks it joins.
    `count` is None if unknown."""

    name: str
    env: str
    description: str
    count: int | None
    licence: str
    files: tuple[RemoteFile, ...]
    parts: tuple[str, ...]


def list_entries() -> list[Entry]:
    """Return all data sets of the catalog, in its order. Raises `DataError` if the catalog is
    malformed."""
    return _read_catalog()[1]


def _read_catalog() -> tuple[str, list[Entry]]:
    """Return the address of the repository, and the data sets."""
    path = Path(os.environ.get("INTERCODE_CATALOG") or CATALOG)
    try:
        catalog = tomllib.loads(path.read_text("utf-8"))
        table = (path.parent / catalog["repository"]["table"]).read_text("utf-8")
        hashes = {}
        for line in table.splitlines():
            if not line.startswith("#"):
                source, size, blob, sha256 = line.split("\t")
                hashes[source] = sha256 or blob, int(size) if size else None
        entries = []
        for entry in catalog["entry"]:
            files = list[RemoteFile]()
            for name, source in entry.get("files", {}).items():
                files += _files(name, source, hashes)
            texts = {name: entry[name] for name in ("name", "env", "description", "licence")}
            parts = tuple(entry.get("parts", ()))
            entries.append(
                Entry(**texts, count=entry.get("count"), files=tuple(files), parts=parts)
            )
        return catalog["repository"]["address"], entries
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: is not a catalog ({type(error).__name__}: {error})") from error


def _files(
    name: str, source: str, hashes: Mapping[str, tuple[str, int | None]]
) -> Iterator[RemoteFile]:
    """Yield the file `source` of the repository, or all below it if it ends in a slash."""
    paths = [source]
    if source.endswith("/"):
        paths = [path for path in hashes if path.startswith(source)] or paths
    for path in paths:
        target = name + path.removeprefix(source)
        for place in (Path(target), Path(path)):
            if place.is_absolute() or ".." in place.parts:
                raise ValueError(f"{place} leaves the data set's folder")
        yield RemoteFile(path, *hashes[path], target)


def find(name: str) -> Entry:
    """Return the entry of this name. Raises `UsageError` with the known names."""
    entries = {entry.name: entry for entry in list_entries()}
    if name not in entries:
        raise UsageError(
            f"no data set is called {name!r}, nor is there such a file or folder; "
            f"`intercode data get NAME` fetches one of: {', '.join(entries)}"
            f"{did_you_mean_file(name) or did_you_mean(name, entries)}"
        )
    return entries[name]


def get(name: str, *, source: str | None = None, progress: Progress | None = None) -> Path:
    """Fetch the files of a data set that are missing or wrong, and return its folder.

    `source` is a clone of the repository, or the address of a mirror, to which the paths of files
    are appended; by default `$INTERCODE_MIRROR`, or the repository itself. `progress` counts the
    known bytes over all files of a data set. If `source` lacks an asset, a note next to it says so,
    and its task is left out. Raises `UsageError` for an unknown name or another file that `source`
    lacks, `DataError` if a file cannot be fetched or is not the published one.
    """
    entry = find(name)
    folder = _folder(name)
    source = (source or os.environ.get("INTERCODE_MIRROR") or _read_catalog()[0]).rstrip("/")
    total = sum(file.bytes or 0 for file in entry.files)
    before = 0
    for note in (folder / "assets").glob("*.missing"):
        note.unlink()
    for file in entry.files:
        dest = folder / file.path
        missing = _missing_asset(folder, file)
        try:
            if "://" in source:
                step = progress and partial(_report_file, progress, before, total)
                url = f"{source}/{quote(file.source)}"
                fetch(url, dest, digest=file.digest, size=file.bytes, progress=step)
            elif digest_of(dest, file.digest) != file.digest:
                copy(Path(source) / file.source, dest, digest=file.digest)
        except (DataError, UsageError) as error:
            is_gone = isinstance(error.__cause__, (urllib.error.HTTPError, FileNotFoundError))
            if missing is None or not is_gone:
                raise
            missing.parent.mkdir(parents=True, exist_ok=True)
            missing.write_text(f"its file {dest.name} is not in the repository", "utf-8")
        before += file.bytes or 0
        if progress:
            progress(before, total)
    for part in entry.parts:
        get(part, source=source, progress=progress)
    if entry.parts:
        with _temporary(folder / JOINED) as temporary:
            temporary.write_bytes(_join(entry))
            temporary.replace(folder / JOINED)
    return folder


def downloaded(name: str) -> Path | None:
    """Return the folder of a data set if each of its files has the right hash, else None."""
    entry = find(name)
    folder = _folder(name)
    for file in entry.files:
        missing = _missing_asset(folder, file)
        is_noted = missing is not None and missing.is_file()
        if not is_noted and digest_of(folder / file.path, file.digest) != file.digest:
            return None
    if not all(map(downloaded, entry.parts)):
        return None
    tasks = folder / JOINED
    if entry.parts and not (tasks.is_file() and tasks.read_bytes() == _join(entry)):
        return None
    return folder


def _folder(name: str) -> Path:
    return root_path() / "data" / name


def _missing_asset(folder: Path, file: RemoteFile) -> Path | None:
    """Return the path of a note that a task's asset is unavailable; None for other files."""
    kind, *names = Path(file.path).parts
    if kind != "assets" or not names:
        return None
    return folder / kind / f"{names[0]}.missing"


def _join(entry: Entry) -> bytes:
    """Return the tasks of an entry's parts as JSON; each has the setup script of its part."""
    tasks = []
    for part in entry.parts:
        records = json.loads((_folder(part) / "tasks.json").read_bytes())
        setup = (_folder(part) / "setup.sh").read_text("utf-8")
        label = part.removeprefix(f"{entry.name}_")
        for number, record in enumerate(records):
            tasks.append({"id": f"{label}-{number}", **record, "setup": setup})
    return json.dumps(tasks, ensure_ascii=False, indent=1).encode()


def digest_of(path: Path, like: str) -> str | None:
    """Return a file's git blob id if `like` is one (40 digits), else its SHA-256, in hex; None if
    there is no such file."""
    if not path.is_file():
        return None
    state = hashlib.sha256()
    if len(like) == BLOB_DIGITS:
        state = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: state).hexdigest()


def copy(path: Path, dest: Path, *, digest: str) -> None:
    """Copy a file to `dest`, complete or not at all. Raises `UsageError` if it cannot be read or
    written, `DataError` if it does not have this digest."""
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; name a clone of the data sets' repository"
        ) from FileNotFoundError(path)
    with _temporary(dest) as temporary:
        shutil.copyfile(path, temporary)
        actual = digest_of(temporary, digest)
        if actual != digest:
            raise DataError(
                f"{path}: {_difference(actual, digest)}, so it is not the published file; "
                "check out the commit that the catalog names, without converting line ends"
            )
        temporary.replace(dest)


def _difference(actual: str | None, digest: str) -> str:
    kind = "git blob id" if len(digest) == BLOB_DIGITS else "SHA-256"
    return f"the {kind} of the download is {actual}, not {digest}"


@contextmanager
def _temporary(dest: Path) -> Iterator[Path]:
    """Yield a path next to `dest`, whose file is removed at the end. An `OSError` becomes a
    `UsageError`."""
    part = dest.with_name(f"{dest.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        yield part
    except OSError as error:
        raise UsageError(
            f"{dest}: cannot be written ({error}); is the disk full? INTERCODE_CACHE moves it"
        ) from error
    finally:
        if part.exists():
            part.unlink()


def _report_file(progress: Progress, before: int, total: int, received: int, _: int) -> None:
    progress(before + received, total)


def fetch(
    url: str,
    dest: Path,
    *,
    digest: str,
    size: int | None,
    tries: int = 5,
    timeout: float = 30.0,
    backoff: float = 0.5,
    progress: Progress | None = None,
) -> Path:
    """Fetch the file of `size` bytes (None: unknown) with this SHA-256 or git blob id to `dest`,
    complete or not at all, and return `dest`.

    A file that already exists is not requested. `timeout` (seconds) bounds connecting and each wait
    for data. After the n-th failure the wait is `backoff` × 2ⁿ seconds, or the server's
    Retry-After, and a minute at most. Raises `DataError` if the server does not deliver these
    bytes, `UsageError` if `dest` cannot be written.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{url}: only http:// and https:// addresses can be fetched")
    failure = ""
    wait = 0.0
    for attempt in range(tries):
        if digest_of(dest, digest) == digest:
            return dest
        time.sleep(min(wait, LONGEST_WAIT))
        wait = backoff * 2**attempt
        with _temporary(dest) as part:
            try:
                _receive(url, part, size, timeout, progress)
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
                actual = digest_of(part, digest)
                if actual == digest:
                    part.replace(dest)
                    return dest
                failure = _difference(actual, digest)
    raise DataError(
        f"{url}: {failure} (tried {tries} times). If you have the right file, put it at {dest}"
    )


def _receive(
    url: str, part: Path, size: int | None, timeout: float, progress: Progress | None
) -> None:
    """Write what the server sends to `part`. Raises `ConnectionError` if it is shorter than `size`,
    or than the server announced."""
    request = urllib.request.Request(url, headers={"User-Agent": "intercode"})
    received = 0
    with urllib.request.urlopen(request, timeout=timeout) as response, part.open("wb") as file:
        least = int(response.headers.get("Content-Length") or 0)
        most = LARGEST
        if size is not None:
            least = most = size
        # a longer file is wrong anyway
        while received <= most and (block := response.read1(2**16)):
            file.write(block)
            received += len(block)
            if progress and size is not None:
                progress(received, size)
        os.fsync(file.fileno())
    if received < least:
        raise ConnectionError(f"cut after {received} of {least} bytes")
