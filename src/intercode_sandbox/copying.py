"""The tars in which `Sandbox.copy_in` and `copy_out` send folders into a sandbox and out of it.

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

from intercode_sandbox.results import Completed

SECONDS, LARGEST = 600.0, 1 << 30
"""The longest time that tar may take, and the most bytes that may come out."""
_MOST = 100_000


def pack(folder: Path) -> bytes:
    """Return a tar of the folder's content."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder, ".")
    return archive.getvalue()


def unpack(archive: bytes, path: str, target: Path) -> None:
    """Unpack what `path` in a sandbox contains, as a tar, to `target`. Raises `OSError`."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            _unpack(tar, target)
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        raise OSError(errno.EIO, f"not a tar: {error}", path) from error


def require_success(result: Completed, path: str) -> None:
    """Raise `OSError` if tar has failed, or its output was cut."""
    if result.exit_code != 0 or "output" in result.limits:
        text = result.stderr.decode(errors="replace").strip()[-300:]
        raise OSError(errno.EIO, text or ", ".join(result.limits) or "time ran out", path)


def _unpack(tar: tarfile.TarFile, target: Path) -> None:
    room, files, links = LARGEST, dict[str, Path](), list[tuple[tuple[str, ...], str]]()
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
        elif member.islnk():
            twin = files.get(posixpath.normpath(member.linkname))
            if twin:
                room = _take(room, twin.stat().st_size, target)
                files[name] = _write(target, parts, twin.read_bytes(), twin.stat().st_mode)
        elif member.isfile() and (content := tar.extractfile(member)):
            room = _take(room, member.size, target)
            files[name] = _write(target, parts, content.read(), member.mode)
    for parts, to in links:
        if _stays_below(parts, to):
            _free(target, parts).symlink_to(to)


def _take(room: int, size: int, target: Path) -> int:
    if size > room:
        raise OSError(errno.EFBIG, f"larger than {LARGEST} bytes", str(target))
    return room - size


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


def leads_below(top: str, path: str, to: str) -> bool:
    """Return whether a link at `path`, which is below the folder `top`, leads to a place there."""
    inside = to.removeprefix(f"{top}/")
    if inside != to:
        return ".." not in PurePosixPath(inside).parts
    return _stays_below(PurePosixPath(path).relative_to(top).parts, to)


def _stays_below(parts: tuple[str, ...], to: str) -> bool:
    """Return whether a link leads up by no more folders than it is deep, and then only down. After
    another link, `..` could lead anywhere."""
    steps = PurePosixPath(to).parts
    up = 0
    while steps[up : up + 1] == ("..",):
        up += 1
    return not to.startswith("/") and up < len(parts) and ".." not in steps[up:]
