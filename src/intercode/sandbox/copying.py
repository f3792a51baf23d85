"""Files and folders in and out of a sandbox. A folder travels as a tar, which `run` feeds to tar
inside, or gets from it.

Nothing that comes out is trusted: names lead nowhere but into the target, links are made when
nothing is written any more, and the sum of the sizes is limited.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from intercode.types import Completed

if TYPE_CHECKING:
    from intercode.sandbox.base import Sandbox

_SECONDS, _LARGEST = 600.0, 1 << 30
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
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            _unpack(tar, target)
    except tarfile.TarError as error:
        raise OSError(errno.EIO, f"not a tar: {error}", path) from error


def _unpack(tar: tarfile.TarFile, target: Path) -> None:
    left, links = _LARGEST, []
    for member in tar:
        name = posixpath.normpath(member.name)
        place = target / name
        if name.startswith(("/", "../")) or name == "..":
            continue
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            links.append((place, member.linkname))
        elif content := tar.extractfile(member):
            left -= member.size
            if left < 0:
                raise OSError(errno.EFBIG, f"larger than {_LARGEST} bytes", str(target))
            place.write_bytes(content.read())
            place.chmod(member.mode & 0o777)
    for place, to in links:
        place.unlink(missing_ok=True)
        place.symlink_to(to)
    for place, _ in links:
        if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(target)):
            place.unlink()


def _require_success(done: Completed, path: str) -> None:
    if done.exit_code != 0 or "output" in done.limits:
        text = done.stderr.decode(errors="replace").strip()[-300:]
        raise OSError(errno.EIO, text or ", ".join(done.limits) or "time ran out", path)
