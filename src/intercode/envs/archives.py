"""Digest the content of archives and compressed files, so that equal contents have equal digests
however they are packed.

    a.tar.gz ──► gzip ──► tar ──► ./b/c (content), b/d -> c      formats, names, contents, links
    a.gz     ──► gzip ──► content

The digest ignores the compression level, the order of members, and the entry for a folder that
contains members; a hard link counts as its target. The owners, modes and times of all members get
one digest each. Not read: formats that Python does not support (cpio, 7z), encrypted archives, the
owners in a zip, and archives of more than `ROOM` bytes. This file is also a program, which
`digests_of` runs with limits on memory and CPU time because the bytes come from the agent:

    length, bytes, length, bytes, ... ──► one line per file:
                                          the digests of content, owners, modes, times, or nothing
"""

from __future__ import annotations

import bz2
import io
import lzma
import posixpath
import re
import resource
import signal
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from subprocess import PIPE, Popen
from typing import Any

NAMED = re.compile(r"\.(tar|tgz|tbz2?|txz|gz|bz2|xz|zip)$", re.IGNORECASE)
"""File extensions of archives."""
ROOM = 1 << 26
SIZE = struct.Struct("!Q")
_SECONDS = 10
"""Seconds of CPU time for all archives in an episode."""
_MEMORY, _DICTIONARY = 1 << 30, 1 << 28

_COMPRESSED: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(wbits=31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": ("xz", lambda: lzma.LZMADecompressor(memlimit=_DICTIONARY)),
}
"""First bytes → name and decompressor."""

_Member = tuple[str, str, bytes, object, int, object]
"""Name, kind, content, owner, mode, time."""
_FOLDER = tarfile.DIRTYPE.decode()


class _Unread(Exception):
    """Raised for an archive that is too large or truncated."""


def digests_of(contents: Iterable[bytes]) -> list[tuple[str, ...]]:
    """Return for each file the hex digests of its content, owners, modes and times; () if it is not
    an archive, or cannot be read within the limits.

    Raises `SandboxError` if the reading process fails.
    """
    # not at the top: this file also runs as a standalone program
    from intercode.errors import SandboxError, room_left

    command = [sys.executable, "-I", "-S", __file__]
    with room_left(), Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/") as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        digests = []
        for data in contents:
            line = b""
            with suppress(BrokenPipeError):  # the reader has ended
                if packed(data):
                    reader.stdin.write(SIZE.pack(len(data)) + data)
                    reader.stdin.flush()
                    line = reader.stdout.readline()
            digests.append(tuple(line.decode().split()))
        _, complaint = reader.communicate()
    status = reader.returncode
    if status > 0 or status == -signal.SIGKILL:
        text = complaint.decode(errors="replace")[-500:]
        raise SandboxError(f"archives cannot be read (status {status}): {text}")
    return digests


def _digests(data: bytes) -> list[str]:
    """Return the hex digests of the content, owners, modes and times; [] if the data are not a
    readable archive."""
    try:
        formats, members = _unpacked(data)
        if not formats:
            return []
        parts: list[object] = [(formats, sorted(member[:3] for member in members))]
        for column in (3, 4, 5):
            parts.append(sorted((member[0], member[column]) for member in members))
        return [_digest(repr(part).encode(errors="surrogateescape")).hex() for part in parts]
    except Exception:  # the agent's bytes may break a reader in any way
        return []


def packed(data: bytes) -> bool:
    """Return whether the data begin like an archive in a supported format."""
    return data.startswith((*_COMPRESSED, b"PK")) or data[257:262] == b"ustar"


def _unpacked(data: bytes) -> tuple[list[str], list[_Member]]:
    formats = []
    for start, (name, make) in _COMPRESSED.items():
        if data.startswith(start):
            formats.append(name)
            data = _decompressed(data, make)
            break
    if data[257:262] == b"ustar":
        return [*formats, "tar"], list(_of_tar(data))
    if data.startswith(b"PK"):
        return [*formats, "zip"], list(_of_zip(data))
    return formats, [("", "file", _digest(data), "", 0, "")]


def _decompressed(data: bytes, make: Callable[[], Any]) -> bytes:
    """Return the data of all streams, one after another."""
    content = bytearray()
    while data:
        stream = make()
        content += stream.decompress(data, ROOM - len(content))
        if not stream.eof or len(content) >= ROOM:
            raise _Unread
        data = stream.unused_data
    return bytes(content)


def _of_tar(data: bytes) -> Iterator[_Member]:
    """Yield the members as they are after unpacking in order. A hard link gets the content of its
    target."""
    extracted: dict[str, tuple[tarfile.TarInfo, str, bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        _require_room(member.size for member in archive)
        for member in archive:
            kind, content = member.type.decode(), member.linkname.encode(errors="surrogateescape")
            if member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                kind, content = "file", _digest(file.read(ROOM))
            elif member.islnk():
                target = extracted.get(posixpath.normpath(member.linkname))
                if target and target[1] == "file":
                    _, kind, content = target
            extracted[posixpath.normpath(member.name)] = member, kind, content
        if data[archive.offset :].strip(b"\0"):
            raise _Unread  # other programs continue reading after a damaged header
    folders = {".", *map(posixpath.dirname, extracted)}
    for name, (member, kind, content) in extracted.items():
        if kind != _FOLDER or name not in folders:
            owner = member.uname or member.uid, member.gname or member.gid
            yield name, kind, content, owner, member.mode, int(member.mtime)


def _of_zip(data: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {posixpath.normpath(member.filename): member for member in archive.infolist()}
        _require_room(member.file_size for member in members.values())
        folders = {posixpath.dirname(name) for name in members}
        for name, member in members.items():
            kind = "dir" if member.is_dir() else "file"
            if member.external_attr >> 28 == 0o12:
                kind = "link"
            if kind == "dir" and name in folders:
                continue
            content = _digest(archive.read(member))
            yield name, kind, content, "", member.external_attr >> 16, member.date_time


def _require_room(sizes: Iterator[int]) -> None:
    if sum(sizes) > ROOM:
        raise _Unread


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _bound(which: int, soft: int, hard: int) -> None:
    """Set a resource limit, unless the caller's limit is already lower."""
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(which, (soft, hard))


def main() -> None:
    _bound(resource.RLIMIT_CORE, 0, 0)
    _bound(resource.RLIMIT_CPU, _SECONDS, 2 * _SECONDS)
    _bound(resource.RLIMIT_AS, _MEMORY, _MEMORY)
    while head := sys.stdin.buffer.read(SIZE.size):
        print(*_digests(sys.stdin.buffer.read(*SIZE.unpack(head))), flush=True)


if __name__ == "__main__":
    main()
