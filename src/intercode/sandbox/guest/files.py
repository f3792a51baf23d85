"""Read, write and connect to the agent's files by path: never through a link that leads out, never waiting on other kinds."""

from __future__ import annotations

import errno
import os
import socket
import stat

from . import kernel

_CAREFUL = os.O_NONBLOCK | os.O_NOCTTY


def read(root: int, path: str, limit: int) -> bytes:
    """Return the content of a regular file. Raises OSError if the file is larger than `limit` bytes, or of another kind."""
    with open(kernel.open_inside(root, path, os.O_RDONLY | _CAREFUL), "rb") as file:
        _require_file(file.fileno())
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes")
    return content


def write(root: int, path: str, content: bytes, mode: int) -> None:
    """Make or replace a regular file, and the folders above it (as `os.makedirs`, with the care of `open_inside`)."""
    made = ""
    for name in filter(None, os.path.dirname(path).split("/")):
        folder = kernel.open_inside(root, made or "/", os.O_PATH | os.O_DIRECTORY)
        made = f"{made}/{name}"
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            pass
        finally:
            os.close(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL
    with open(kernel.open_inside(root, path, flags, 0o600), "wb") as file:
        _require_file(file.fileno())
        file.write(content)
        os.fchmod(file.fileno(), mode)


def connect(root: int, proc: int, path: str) -> socket.socket:
    """Return a stream to a program of the agent's that listens on a Unix socket. It does not block: a full queue raises EAGAIN.

    The path is opened as all paths of the agent are, checked, and connected to over `proc`, the supervisor's /proc: so the
    socket that was checked is the one that is connected to. Sockets without a path ("abstract" ones) are left out.
    """
    target = kernel.open_inside(root, path, os.O_PATH)
    try:
        if not stat.S_ISSOCK(os.fstat(target).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.setblocking(False)
        os.fchdir(proc)
        try:
            stream.connect(f"self/fd/{target}")
        except OSError:
            stream.close()
            raise
        finally:
            os.fchdir(root)
        return stream
    finally:
        os.close(target)


def _require_file(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
