"""Observations for Gymnasium's `AsyncVectorEnv` with `shared_memory=True`, its default: texts have no length to reserve.

    worker ── write(index, text) ──► one anonymous file, a region for each environment ──► texts[index] ── main process

Gymnasium asks for the memory once and then only copies what it was given, so a copy reads the newest texts.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from multiprocessing.reduction import DupFd
from typing import Any

_LENGTH = 8
_REGION = 1 << 32
"""Bytes for each environment; the file has holes, and only what was written takes memory."""


class SharedTexts(Sequence[str]):
    """The newest text of each of `count` environments. A deep copy is a tuple, which no longer changes."""

    def __init__(self, count: int, sent: Any = None) -> None:
        self._count = count
        self._fd: int = sent.detach() if sent else os.memfd_create("intercode-observations")
        weakref.finalize(self, os.close, self._fd)

    def write(self, index: int, text: str) -> None:
        content = text.encode()
        os.pwrite(self._fd, len(content).to_bytes(_LENGTH) + content, index * _REGION)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        start = range(self._count)[index] * _REGION
        length = int.from_bytes(os.pread(self._fd, _LENGTH, start))
        return os.pread(self._fd, length, start + _LENGTH).decode()

    def __len__(self) -> int:
        return self._count

    def __deepcopy__(self, memo: Any) -> tuple[str, ...]:
        return tuple(self)

    def __reduce__(self) -> Any:
        """Workers that are spawned get the descriptor from the main process."""
        return SharedTexts, (self._count, DupFd(self._fd))
