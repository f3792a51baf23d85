"""Digest the content of archives and compressed files, so that equal contents have equal digests
however they are packed.

    a.tar.gz ──► gzip ──► tar ──► ./b/c (content), b/d -> c      formats, names, contents, links
    a.gz     ──► gzip ──► content

The digest ignores the level of compression, the order of members, and the entry of a folder that
has members; a hard link counts as its target. Owners, modes and times of all members have a digest
each. Not read: formats that Python does not read (cpio, 7z), encrypted archives, the owners in a
zip, and archives of more than `ROOM` bytes. This file is also a program that `digests_of` runs with
limits of memory and processor time, because the bytes come from the agent:

    length, bytes, length, bytes, ... ──► a line each:
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
"""Endings of archive names."""
ROOM = 1 << 26
SIZE = struct.Struct("!Q")
_SECONDS = 10
"""Seconds of processor time for all archives of an episode."""
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
    """Raised for an archive that holds too much or ends too early."""


def digests_of(contents: Iterable[bytes]) -> list[tuple[str, ...]]:
    """Return for each file the hex digests of its content, owners, modes and times; () if it is no
    archive, or none that can be read within the limits.

    Raises `SandboxError` if the reading process fails.
    """
    # not at the top: this file is also a program of its own
    from intercode.errors import (
        SandboxError,
        room_left,
    )

    command = [sys.executable, "-I", "-S", __file__]
    with room_left(), Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/") as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        digests = list[tuple[str, ...]]()
        for data in contents:
            line = b""
            with suppress(BrokenPipeError):  # the reader has ended
                if packed(data):
                    reader.stdin.write(SIZE.pack(len(data)) + data)
                    reader.stdin.flush()
                    line = reader.stdout.readline()
            digests.append(tuple(line.decode().split()))
        complaint = reader.communicate()[1].decode(errors="replace")
    if reader.returncode > 0 or reader.returncode == -signal.SIGKILL:
        raise SandboxError(
            f"archives cannot be read (status {reader.returncode}): {complaint[-500:]}"
        )
    return digests


def _digests(data: bytes) -> list[str]:
    """Return the hex digests of the content, owners, modes and times; [] if the data are no archive
    that can be read."""
    try:
        formats, members = _unpacked(data)
        contents = formats, sorted(member[:3] for member in members)
        attributes = (sorted((member[0], member[at]) for member in members) for at in (3, 4, 5))
        texts = [repr(part).encode(errors="surrogateescape") for part in (contents, *attributes)]
        return [_digest(text).hex() for text in texts] if formats else []
    except Exception:  # whatever the agent's bytes do to the readers, they are no archive
        return []


def packed(data: bytes) -> bool:
    """Return whether the data begin like an archive that can be read here."""
    return data.startswith((*_COMPRESSED, b"PK")) or data[257:262] == b"ustar"


def _unpacked(data: bytes) -> tuple[list[str], list[_Member]]:
    formats = list[str]()
    for start, (name, make) in _COMPRESSED.items():
        if data.startswith(start):
            formats, data = [name], _decompressed(data, make)
            break
    if data[257:262] == b"ustar":
        return [*formats, "tar"], list(_of_tar(data))
    if data.startswith(b"PK"):
        return [*formats, "zip"], list(_of_zip(data))
    return formats, [("", "file", _digest(data), "", 0, "")]


def _decompressed(data: bytes, make: Callable[[], Any]) -> bytes:
    """Return the data of all streams, one after another."""
    parts, room = list[bytes](), ROOM
    while data:
        stream = make()
        parts.append(stream.decompress(data, room))
        room -= len(parts[-1])
        if not stream.eof or room <= 0:
            raise _Unread
        data = stream.unused_data
    return b"".join(parts)


def _of_tar(data: bytes) -> Iterator[_Member]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        _require_room(member.size for member in archive)
        extracted = _extracted(archive)
        if data[archive.offset :].strip(b"\0"):
            raise _Unread  # other programs read on behind a damaged header
        entries = {posixpath.normpath(member.name): member for member in archive}
    folders = {".", *map(posixpath.dirname, extracted)}
    for name, (kind, content) in extracted.items():
        if kind != _FOLDER or name not in folders:
            entry = entries[name]
            owner = entry.uname or entry.uid, entry.gname or entry.gid
            yield name, kind, content, owner, entry.mode, int(entry.mtime)


def _extracted(archive: tarfile.TarFile) -> dict[str, tuple[str, bytes]]:
    """Return each name's kind and content after unpacking the members in order; a hard link takes
    the content of its target."""
    extracted: dict[str, tuple[str, bytes]] = {}
    for member in archive:
        entry_now = (
            extracted.get(posixpath.normpath(member.linkname), ("", b""))
            if member.islnk()
            else ("", b"")
        )
        if member.isfile():
            file = archive.extractfile(member)
            assert file is not None
            entry_now = ("file", _digest(file.read(ROOM)))
        other = (member.type.decode(), member.linkname.encode(errors="surrogateescape"))
        extracted[posixpath.normpath(member.name)] = entry_now if entry_now[0] == "file" else other
    return extracted


def _of_zip(data: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {posixpath.normpath(member.filename): member for member in archive.infolist()}
        _require_room(member.file_size for member in members.values())
        folders = {posixpath.dirname(name) for name in members}
        for name, member in members.items():
            kind = (
                "link"
                if member.external_attr >> 28 == 0o12
                else "dir"
                if member.is_dir()
                else "file"
            )
            if not (kind == "dir" and name in folders):
                yield (
                    name,
                    kind,
                    _digest(archive.read(member)),
                    "",
                    member.external_attr >> 16,
                    member.date_time,
                )


def _require_room(sizes: Iterator[int]) -> None:
    if sum(sizes) > ROOM:
        raise _Unread


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _bound(which: int, soft: int, hard: int) -> None:
    """Set a resource limit, but keep a lower one of the caller."""
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
