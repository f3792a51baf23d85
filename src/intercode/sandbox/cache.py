"""The cache on disk: template layers, built images, and a copy of the guest that the sandboxes' user can read.

    ROOT/layers/KEY      one folder of a template; complete or absent (built beside, then renamed)
    ROOT/images/NAME     a root file system made by `intercode image build`
    ROOT/guest/KEY       the guest's modules, compiled for one interpreter, and the anchor's program

Each folder holds in `.stamp` a digest of its entries when it was made. A process compares that once, and makes a damaged
folder anew. `intercode image build` makes images; those are not compared.

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
from intercode.sandbox import anchor
from intercode.sandbox.identity import identity

GUEST = Path(__file__).with_name("guest")
_STAMP = ".stamp"
_sound: set[Path] = set()
"""Folders that this process has compared with their stamps."""


def root() -> Path:
    """The cache's folder, made if need be. Raises `SandboxUnavailable` if sandboxes could not read it."""
    path = place()
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


def place() -> Path:
    """Where the cache is, or will be."""
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
    with room_left(), _filling(shelf):
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
    for place, folders, files in os.walk(folder):
        for path in (os.path.join(place, name) for name in (*folders, *files) if name != _STAMP):
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
def _filling(shelf: Path) -> Iterator[None]:
    """If the shelf itself cannot be made or written in the block, that is said with the remedy."""
    try:
        yield
    except (OSError, subprocess.CalledProcessError) as error:
        # A write to a full disk has no paths and is told by its number; errors of `shutil` and of programs have neither.
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
    """Folders without write permission are in the way of an ordinary user."""
    shutil.rmtree(work, ignore_errors=True)
    if work.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(work)], check=False, capture_output=True)
        shutil.rmtree(work, ignore_errors=True)


def guest_folder(python: str) -> Path:
    return _guest_folder(python, root())


@cache
def _guest_folder(python: str, home: Path) -> Path:
    modules = sorted(GUEST.glob("*.py"))
    sources = [path.read_bytes() for path in (*modules, Path(anchor.__file__))]
    digest = hashlib.sha256(python.encode() + b"".join(sources)).hexdigest()[:24]

    def build(made: Path) -> None:
        for path in modules:
            shutil.copyfile(path, made / path.name)
        anchor.write(made)
        subprocess.run([python, "-I", "-m", "compileall", "-q", str(made)], check=True, capture_output=True)

    return folder("guest", digest, build)
