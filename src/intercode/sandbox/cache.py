"""The cache on disk: template layers, built images, and a copy of the guest that the sandboxes' user can read.

    ROOT/layers/KEY      one folder of a template; complete or absent (built in a hidden folder, then renamed)
    ROOT/images/NAME     a root file system made by `intercode image build`
    ROOT/guest/KEY       the guest's modules, compiled for one interpreter, and the program of `init.py`

The file `.stamp` in each folder holds a digest of the folder's entries when it was made. A process compares the two once, and
makes a damaged folder again. Images, which `intercode image build` makes, are not compared.

ROOT is `$INTERCODE_CACHE`, else /var/cache/intercode for root and `$XDG_CACHE_HOME/intercode` or ~/.cache/intercode for others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from intercode.errors import DISK_FULL, SandboxUnavailable, room_left
from intercode.sandbox import init
from intercode.sandbox.identity import identity

GUEST = Path(__file__).with_name("guest")
_STAMP = ".stamp"
_sound: set[Path] = set()
"""The folders that this process has compared with their stamps."""


def root() -> Path:
    """Return the cache's folder, made if need be. Raises `SandboxUnavailable` if sandboxes could not read it."""
    path = root_path()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxUnavailable(f"the cache {path} cannot be made ({error.strerror}); set INTERCODE_CACHE") from error
    if not identity().reaches(path):
        raise SandboxUnavailable(
            f"the sandboxes' user (uid {identity().uid}) cannot enter the cache {path}; "
            "set INTERCODE_CACHE to a folder that everyone may enter, such as /var/cache/intercode"
        )
    return path


def root_path() -> Path:
    """Return the path of the cache's folder, which may not exist yet."""
    named = os.environ.get("INTERCODE_CACHE")
    if named:
        return Path(named).resolve()
    if os.getuid() == 0:
        return Path("/var/cache/intercode")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "intercode"


def folder(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder ROOT/kind/key; `build` makes one that is missing or damaged. Two processes may try; one copy stays."""
    shelf = root() / kind
    final = shelf / key
    with room_left(), _explain_write_errors(shelf):
        shelf.mkdir(exist_ok=True)
        stamp = final / _STAMP
        if final.is_dir() and final not in _sound and not (stamp.is_file() and stamp.read_text() == _entries(final)):
            print(f"intercode: {final} in the cache is damaged and is made again", file=sys.stderr)
            aside = final.with_name(f".{final.name[:16]}-{secrets.token_hex(4)}")
            with contextlib.suppress(FileNotFoundError):  # another process was first
                final.rename(aside)
            remove(aside)
        if not final.is_dir():
            _make(final, build)
        _sound.add(final)
    return final


def _entries(folder: Path) -> str:
    """Return a digest of the names, modes, owners and sizes below `folder`. Contents are not read: that would take seconds."""
    found = []
    for parent, folders, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *files) if name != _STAMP):
            info = os.lstat(path)
            size = info.st_size if stat.S_ISREG(info.st_mode) else 0
            found.append(f"{path.removeprefix(str(folder))}\0{info.st_mode}\0{info.st_uid}\0{size}\n")
    return hashlib.sha256("".join(sorted(found)).encode(errors="surrogateescape")).hexdigest()


def _make(final: Path, build: Callable[[Path], None]) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{final.name[:16]}-", dir=final.parent))
    try:
        made = work / "made"
        made.mkdir()
        identity().own(work)
        identity().own(made)
        build(made)
        (made / _STAMP).write_text(_entries(made))
        try:
            made.rename(final)
        except OSError:  # perhaps another process was first
            if not final.is_dir():
                raise
    finally:
        remove(work)


@contextlib.contextmanager
def _explain_write_errors(shelf: Path) -> Iterator[None]:
    """Raise `SandboxUnavailable` with advice if `shelf` cannot be made or written in the block."""
    try:
        yield
    except (OSError, subprocess.CalledProcessError) as error:
        # An error of a write to a full disk has a number and no paths; errors of `shutil` and of programs have neither.
        if isinstance(error, OSError) and not isinstance(error, shutil.Error):
            paths = [Path(str(name)) for name in (error.filename, error.filename2) if name is not None]
            if not (any(path.is_relative_to(shelf) for path in paths) if paths else error.errno in DISK_FULL):
                raise
        why = getattr(error, "strerror", None) or str(error)[:300]
        raise SandboxUnavailable(
            f"the cache {shelf} cannot be filled ({why}); make room there, give this user the right to write, "
            "or set INTERCODE_CACHE to another folder"
        ) from error


def remove(work: Path) -> None:
    """Remove a folder, for an ordinary user also one with folders that lack write permission."""
    shutil.rmtree(work, ignore_errors=True)
    if work.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(work)], check=False, capture_output=True)
        shutil.rmtree(work, ignore_errors=True)


@cache
def guest_folder(python: str, root: Path) -> Path:
    """Return the folder with the guest's modules for the interpreter `python`; `root` is the cache's folder."""
    modules = sorted(GUEST.glob("*.py"))
    sources = [path.read_bytes() for path in (*modules, Path(init.__file__))]
    digest = hashlib.sha256(python.encode() + b"".join(sources)).hexdigest()[:24]

    def build(made: Path) -> None:
        for path in modules:
            shutil.copyfile(path, made / path.name)
        init.write(made)
        subprocess.run([python, "-I", "-m", "compileall", "-q", str(made)], check=True, capture_output=True)

    return folder("guest", digest, build)
