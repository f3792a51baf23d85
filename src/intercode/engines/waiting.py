"""How long a socket may wait, as the kernel keeps it: Python's own time-outs cost a system call each."""

from __future__ import annotations

import socket
import struct

_TIMEVAL = struct.Struct("ll")


class Waiting:
    """`wait(seconds)` holds for each call from then on. Such a call ends with `BlockingIOError`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock, self._seconds = sock, 0.0

    def __call__(self, seconds: float) -> None:
        """Raises `TimeoutError` where no time is left."""
        if seconds <= 0:
            raise TimeoutError
        if seconds != self._seconds:
            self._seconds = seconds
            value = _TIMEVAL.pack(int(seconds), max(int(seconds % 1 * 1e6), 1))  # 0 would be for ever
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
