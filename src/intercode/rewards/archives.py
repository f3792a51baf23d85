"""What an archive or a compressed file holds, as one digest: the same for every way of packing the same.

    a.tar.gz ──► gzip ──► tar ──► ./b/c (content), b/d -> c      formats, names, contents, where links lead
    a.gz     ──► gzip ──► content

The level of compression, times, owners, modes, the order of members and a folder's own entry beside what lies in it are not in
it. Left out: formats that Python does not read (cpio, 7z), encrypted ones, and whatever holds more than `ROOM` bytes.
"""

from __future__ import annotations

import bz2
import io
import lzma
import posixpath
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

NAMED = re.compile(r"\.(tar|tgz|tbz2?|txz|gz|bz2|xz|zip)$", re.IGNORECASE)
"""The end of an archive's name."""

ROOM = 1 << 26
_MEMORY = 1 << 28

_COMPRESSED: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(wbits=31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": ("xz", lambda: lzma.LZMADecompressor(memlimit=_MEMORY)),
}
"""First bytes → name and what undoes it."""

_Member = tuple[str, str, bytes]


class _Unread(Exception):
    """It holds too much, or ends too early."""


def held(data: bytes) -> str | None:
    """A hex digest of what it holds; None if it is no archive, or none that can be read."""
    try:
        formats, found = _unpacked(data)
    except Exception:  # a stranger's bytes: whatever they do to the readers, they are no archive
        return None
    return (
        blake2b(repr((formats, sorted(found))).encode(errors="surrogateescape"), digest_size=16).hexdigest()
        if formats
        else None
    )


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
    return formats, [("", "file", data)]


def _decompressed(data: bytes, make: Callable[[], Any]) -> bytes:
    """All streams that stand one after another in it."""
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
        members = {posixpath.normpath(member.name): member for member in archive}
        _require_room(member.size for member in members.values())
        folders = {posixpath.dirname(name) for name in members}
        for name, member in members.items():
            content = archive.extractfile(member) if member.isfile() or member.islnk() else None
            if content is not None:
                yield name, "file", content.read(ROOM)
            elif not (member.isdir() and name in {".", *folders}):
                yield name, member.type.decode(), member.linkname.encode(errors="surrogateescape")


def _of_zip(data: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {posixpath.normpath(member.filename): member for member in archive.infolist()}
        _require_room(member.file_size for member in members.values())
        folders = {posixpath.dirname(name) for name in members}
        for name, member in members.items():
            kind = "link" if member.external_attr >> 28 == 0o12 else "dir" if member.is_dir() else "file"
            if not (kind == "dir" and name in folders):
                yield name, kind, archive.read(member)


def _require_room(sizes: Iterator[int]) -> None:
    if sum(sizes) > ROOM:
        raise _Unread
