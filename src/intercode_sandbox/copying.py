"""Files and folders in and out of a sandbox. A folder travels as a tar, which `run` feeds to tar
inside, or gets from it.

Nothing that comes out is trusted: no file is written through a link, whether it is of this archive
or was there before; links are made last and lead to places below the target; the sizes, hard links
included, and the number of files are limited.
"""

from __future__ import annotations

import errno
import io
import posixpath
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from intercode_sandbox.results import Completed

if TYPE_CHECKING:
    from intercode_sandbox.base import Sandbox

_SECONDS, _LARGEST, _MOST = 600.0, 1 << 30, 100_000
_UNPACK = 'mkdir -p -- "$1" && tar -xopf - -C "$1"'


def copy_in(sandbox: Sandbox, source: Path, path: str) -> None:
    """See `Sandbox.copy_in`."""
    if not source.is_dir():
        sandbox.write(path, source.read_bytes(), mode=source.stat().st_mode & 0o777)
        return
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(source, ".")
    command = ["sh", "-c", _UNPACK, "sh", path]
    _require_success(sandbox.run(command, stdin=archive.getvalue(), timeout=_SECONDS), path)


def copy_out(sandbox: Sandbox, path: str, target: Path) -> None:
    """See `Sandbox.copy_out`."""
    if sandbox.run(["test", "-d", path]).exit_code != 0:
        target.write_bytes(sandbox.read(path, limit=_LARGEST))
        return
    command = ["tar", "-cf", "-", "-C", path, "."]
    done = sandbox.run(command, timeout=_SECONDS, output=_LARGEST)
    _require_success(done, path)
    try:
        with tarfile.open(fileobj=io.BytesIO(done.stdout), mode="r:") as tar:
            _unpack(tar, target)
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        raise OSError(errno.EIO, f"not a tar: {error}", path) from error


def _unpack(tar: tarfile.TarFile, target: Path) -> None:
    left, files, links = _LARGEST, dict[str, Path](), list[tuple[tuple[str, ...], str]]()
    target.mkdir(parents=True, exist_ok=True)
    for count, member in enumerate(tar):
        name = posixpath.normpath(member.name)
        parts = PurePosixPath(name).parts
        if member.size < 0 or count >= _MOST:
            raise OSError(errno.EFBIG, f"not a tar, or more than {_MOST} files", str(target))
        if parts[:1] in (("..",), ("/",), ("//",)):
            continue
        if member.isdir():
            _make_folder(target, parts)
        elif member.issym():
            links.append((parts, member.linkname))
        elif twin := files.get(posixpath.normpath(member.linkname)) if member.islnk() else None:
            left = _left(left, twin.stat().st_size, target)
            files[name] = _write(target, parts, twin.read_bytes(), twin.stat().st_mode)
        elif member.isfile() and (content := tar.extractfile(member)):
            left = _left(left, member.size, target)
            files[name] = _write(target, parts, content.read(), member.mode)
    for parts, to in links:
        if _stays_below(parts, to):
            _free(target, parts).symlink_to(to)


def _left(left: int, size: int, target: Path) -> int:
    if size > left:
        raise OSError(errno.EFBIG, f"larger than {_LARGEST} bytes", str(target))
    return left - size


def _make_folder(target: Path, parts: tuple[str, ...]) -> Path:
    """Make the folder, and those above it, below `target`. Raises `OSError` if one is a link."""
    for part in parts:
        target = target / part
        if target.is_symlink():
            raise OSError(errno.ELOOP, "a link is in the way", str(target))
        target.mkdir(exist_ok=True)
    return target


def _free(target: Path, parts: tuple[str, ...]) -> Path:
    """Return the place of a new file or link, where an old one is removed."""
    place = _make_folder(target, parts[:-1]) / parts[-1]
    place.unlink(missing_ok=True)
    return place


def _write(target: Path, parts: tuple[str, ...], content: bytes, mode: int) -> Path:
    place = _free(target, parts)
    with place.open("xb") as file:
        file.write(content)
    place.chmod(mode & 0o777)
    return place


def _stays_below(parts: tuple[str, ...], to: str) -> bool:
    """Return whether a link leads up by no more folders than it is deep, and then only down. After
    another link, `..` could lead anywhere."""
    steps = PurePosixPath(to).parts
    up = next((at for at, step in enumerate(steps) if step != ".."), len(steps))
    return not to.startswith("/") and up < len(parts) and ".." not in steps[up:]


def _require_success(done: Completed, path: str) -> None:
    if done.exit_code != 0 or "output" in done.limits:
        text = done.stderr.decode(errors="replace").strip()[-300:]
        raise OSError(errno.EIO, text or ", ".join(done.limits) or "time ran out", path)
