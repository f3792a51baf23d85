"""The cache on disk: template layers, built images, and a copy of the guest that the sandboxes' user can read.

    ROOT/layers/KEY      one folder of a template; complete or absent (built beside, then renamed)
    ROOT/images/NAME     a root file system made by `intercode image build`
    ROOT/guest/KEY       the guest's modules, compiled for one interpreter, and the anchor's program

ROOT is `$INTERCODE_CACHE`, else /var/cache/intercode for root and `$XDG_CACHE_HOME/intercode` or ~/.cache/intercode for others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from intercode.errors import DISK_FULL, SandboxUnavailable
from intercode.sandbox import anchor
from intercode.sandbox.identity import identity

GUEST = Path(__file__).with_name("guest")


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
    """The folder ROOT/kind/key, made by `build` if it is not there. Two processes may try at once; one copy stays."""
    shelf = root() / kind
    shelf.mkdir(exist_ok=True)
    final = shelf / key
    if final.is_dir():
        return final
    work = Path(tempfile.mkdtemp(prefix=f".{key[:16]}-", dir=shelf))
    try:
        made = work / "made"
        made.mkdir()
        identity().own(work)
        identity().own(made)
        with _filling(shelf):
            build(made)
        _settle(made, final)
    finally:
        remove(work)
    return final


@contextlib.contextmanager
def _filling(shelf: Path) -> Iterator[None]:
    """A full disk is told by its number, except by `shutil` and by programs."""
    try:
        yield
    except (OSError, subprocess.CalledProcessError) as error:
        if isinstance(error, OSError) and not isinstance(error, shutil.Error) and error.errno not in DISK_FULL:
            raise
        why = getattr(error, "strerror", None) or str(error)[:300]
        raise SandboxUnavailable(
            f"the cache {shelf} cannot be filled ({why}); if the disk is full, set INTERCODE_CACHE"
        ) from error


def _settle(made: Path, final: Path) -> None:
    try:
        made.rename(final)
    except OSError:
        if not final.is_dir():
            raise


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
