"""What an action printed: kept up to a limit, hashed beyond it, never interpreted."""

from __future__ import annotations

import os
from _blake2 import blake2b

_CHUNK = 1 << 16


class Output:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._hash: blake2b | None = None

    def drain(self, fd: int) -> None:
        """Take all that is there now; `fd` does not block."""
        for _ in range(256):
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                return
            self.add(chunk)

    def add(self, chunk: bytes) -> None:
        if self._hash is not None:
            self._hash.update(chunk)
            return
        self._kept += chunk
        if len(self._kept) > self._limit:
            self._hash = blake2b(self._kept, digest_size=16)
            del self._kept[self._limit :]

    def take(self) -> tuple[bytes, str | None]:
        """The kept bytes, and the digest of everything if that was more."""
        return bytes(self._kept), self._hash.hexdigest() if self._hash else None
