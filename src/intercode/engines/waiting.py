"""How long a socket may wait, as the kernel keeps it: Python's own time-outs cost a system call each."""

from __future__ import annotations

import socket
import struct

_TIMEVAL = struct.Struct("ll")


class Waiting:
    """`receiving(seconds)` and `sending(seconds)` hold for each call from then on. Such a call ends with `BlockingIOError`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self._sock, self._seconds = sock, {socket.SO_RCVTIMEO: 0.0, socket.SO_SNDTIMEO: 0.0}

    def receiving(self, seconds: float) -> None:
        """Raises `TimeoutError` where no time is left."""
        self._set(socket.SO_RCVTIMEO, seconds)

    def sending(self, seconds: float) -> None:
        """Raises `TimeoutError` where no time is left."""
        self._set(socket.SO_SNDTIMEO, seconds)

    def _set(self, option: int, seconds: float) -> None:
        if seconds <= 0:
            raise TimeoutError
        if seconds != self._seconds[option]:
            self._seconds[option] = seconds
            value = _TIMEVAL.pack(int(seconds), max(int(seconds % 1 * 1e6), 1))  # 0 would be for ever
            self._sock.setsockopt(socket.SOL_SOCKET, option, value)
