"""A stream from the host to a program of the agent's that listens on a Unix socket.

The path is opened as all paths of the agent are, looked at, and connected to over the wall's /proc: so what was looked at is
what is connected to. It leaves out sockets without a path ("abstract" ones).
"""

from __future__ import annotations

import errno
import os
import socket
import stat

from . import kernel


def connect(root: int, proc: int, path: str) -> socket.socket:
    """The connected stream, not blocking: a full queue is refused at once (EAGAIN), not waited for."""
    place = kernel.open_inside(root, path, os.O_PATH)
    try:
        if not stat.S_ISSOCK(os.fstat(place).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.setblocking(False)
        os.fchdir(proc)
        try:
            line.connect(f"self/fd/{place}")
        except OSError:
            line.close()
            raise
        finally:
            os.fchdir(root)
        return line
    finally:
        os.close(place)
