"""Fetches one file over HTTP so that a cut line, a lying server or a second process cannot spoil it.

    fetch ─► lock FILE.part ─► _fill: GET, Range from what is there ─► hash ─┬─► right: rename to FILE
                                 ▲                                           └─► wrong: empty the part, once more from
                                 └── cut, 429, 5xx: wait, go on                         zero, then DataError

The lock is held on the part itself (flock), so it dies with its process and leaves no file of its own behind.
Left out: parallel connections, authentication, protocols other than HTTP and HTTPS.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from intercode.errors import DataError, UsageError

Progress = Callable[[int, int], None]
"""Called with (bytes so far, bytes in all or 0 where unknown)."""

LONGEST_WAIT = 60.0
"""Seconds: no server can make us wait longer between two tries."""

_CUT = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


class _Interrupted(Exception):
    """The line broke or the server asked for patience; `wait` is what it asked for, in seconds."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


def cache_folder() -> Path:
    """The folder that the sandboxes' cache is in too (`sandbox/cache.py` has the same rule). Not created here.

    $INTERCODE_CACHE; else /var/cache/intercode for root, and for others $XDG_CACHE_HOME/intercode or ~/.cache/intercode.
    """
    if own := os.environ.get("INTERCODE_CACHE"):
        return Path(own).resolve()
    if os.getuid() == 0:
        return Path("/var/cache/intercode")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "intercode"


def digest_of(path: Path) -> str | None:
    """Hex SHA-256 of a file's bytes, None where there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(
    url: str,
    dest: Path,
    *,
    sha256: str,
    size: int | None = None,
    tries: int = 5,
    timeout: float = 30.0,
    backoff: float = 0.5,
    progress: Progress | None = None,
) -> Path:
    """Leaves the file with this hash at `dest`, whole or not at all, and returns `dest`.

    Nothing is requested when it is there already. `tries` counts attempts in a row that brought nothing new;
    `timeout` (seconds) bounds connecting and each wait for data; the n-th wait is `backoff` × 2ⁿ seconds, or what
    Retry-After says, and never over a minute. What was received stays in `dest`.part for the next call.
    Raises `DataError` when the server does not deliver these bytes, `UsageError` when `dest` cannot be written.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{url}: only http:// and https:// addresses can be fetched")
    try:
        if digest_of(dest) != sha256:
            dest.parent.mkdir(parents=True, exist_ok=True)
            with _locked(dest.with_name(dest.name + ".part")) as part:
                _fetch_locked(_Source(url, size, timeout, progress), part, dest, sha256, tries, backoff)
    except OSError as error:
        raise UsageError(f"{dest}: cannot be written ({error}); is the disk full? INTERCODE_CACHE moves it") from error
    return dest


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """The part, open for appending, ours alone. A process that waited here may find it renamed: then it starts anew."""
    while True:
        with path.open("a+b") as part:
            fcntl.flock(part, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(part.fileno()), path.stat()):
                yield part
                return


def _fetch_locked(source: _Source, part: IO[bytes], dest: Path, sha256: str, tries: int, backoff: float) -> None:
    path = Path(part.name)
    if digest_of(dest) == sha256:  # another process was faster
        path.unlink()
        return
    for _ in range(2):
        _fill(source, part, tries, backoff)
        part.flush()
        found = digest_of(path)
        if found == sha256:
            os.fsync(part.fileno())
            path.replace(dest)
            return
        part.truncate(0)
    path.unlink()
    raise DataError(
        f"{source.url}: the SHA-256 of what arrives is {found}, not {sha256}; the file has changed at its source, or "
        f"something on the way alters it. If you have the right file, put it at {dest}"
    )


def _fill(source: _Source, part: IO[bytes], tries: int, backoff: float) -> None:
    """Receives until the file is whole, going on after interruptions while they bring something new."""
    best, failed = _length(part), 0
    while True:
        try:
            return source.receive(part)
        except _Interrupted as interrupted:
            length = _length(part)
            failed = 1 if length > best else failed + 1
            best = max(best, length)
            if failed >= tries:
                raise DataError(
                    f"{source.url}: {interrupted} (tried {tries} times); {length} bytes are kept in {part.name}; "
                    "fetching again goes on from there"
                ) from interrupted
            wait = backoff * 2 ** (failed - 1) if interrupted.wait is None else interrupted.wait
        time.sleep(min(wait, LONGEST_WAIT))


@dataclass(frozen=True, slots=True)
class _Source:
    """One address, and how to append what it has to a part."""

    url: str
    size: int | None
    timeout: float
    progress: Progress | None

    def receive(self, part: IO[bytes]) -> None:
        """Appends the rest of the file. Returns when there is no more of it; `_Interrupted` when it was cut."""
        start = _length(part)
        if self.size is not None and start >= self.size:
            return  # complete, or too long: the hash will tell
        headers = {"User-Agent": "intercode"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            request = urllib.request.Request(self.url, headers=headers)
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                self._append(response, part, start)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (408, 425, 429) or error.code >= 500:
                    asked = str(error.headers.get("Retry-After"))  # a date, which it may be as well, is not looked at
                    wait = int(asked) if asked.isdecimal() else None
                    raise _Interrupted(f"HTTP {error.code} {error.reason}", wait) from error
                if error.code != 416:  # 416, nothing beyond what we have: complete, or too long; the hash will tell
                    raise DataError(f"{self.url}: HTTP {error.code} {error.reason}; has the file moved?") from error
        except _CUT as error:
            raise _Interrupted(f"the connection failed ({error})") from error

    def _append(self, response: http.client.HTTPResponse, part: IO[bytes], start: int) -> None:
        fits = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if not (response.status == 206 and fits):
            part.truncate(0)  # it does not know Range and sends everything again
        if response.status == 206 and not fits:
            raise _Interrupted("the server sends another part of the file than it was asked for")
        whole = self.size if response.length is None else _length(part) + response.length
        while block := response.read1(2**16):
            part.write(block)
            if self.progress:
                self.progress(_length(part), self.size or whole or 0)
            if self.size is not None and _length(part) > self.size:
                return  # more than the file can hold: no need to see the end of it
        if whole is not None and _length(part) < whole:
            raise _Interrupted(f"the connection was cut after {_length(part)} of {whole} bytes")


def _length(part: IO[bytes]) -> int:
    return part.seek(0, os.SEEK_END)
