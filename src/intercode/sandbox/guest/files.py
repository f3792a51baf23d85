"""Reading and writing the agent's files by path: never through a link that leads out, never waiting on what is no file."""

from __future__ import annotations

import os
import stat

from . import kernel

_CAREFUL = os.O_NONBLOCK | os.O_NOCTTY


def read(root: int, path: str, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; OSError says what else is there."""
    with open(kernel.open_inside(root, path, os.O_RDONLY | _CAREFUL), "rb") as file:
        _require_file(file.fileno())
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(27, f"larger than {limit} bytes")
    return content


def write(root: int, path: str, content: bytes, mode: int) -> None:
    """Make or replace a regular file, and the folders above it."""
    _make_folders(root, os.path.dirname(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL
    with open(kernel.open_inside(root, path, flags, 0o600), "wb") as file:
        _require_file(file.fileno())
        file.write(content)
        os.fchmod(file.fileno(), mode)


def _require_file(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(22, "not a regular file")


def _make_folders(root: int, path: str) -> None:
    """As `os.makedirs`, with the care of `open_inside`."""
    made = ""
    for name in filter(None, path.split("/")):
        folder = kernel.open_inside(root, made or "/", os.O_PATH | os.O_DIRECTORY)
        made = f"{made}/{name}"
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            pass
        finally:
            os.close(folder)
