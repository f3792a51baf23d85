"""The cache on disk: template layers, built images, and a copy of the guest that the sandboxes'
user can read.

    ROOT/layers/KEY      one folder of a template; complete or absent (built in a hidden folder,
                         then renamed)
    ROOT/images/NAME     a root file system made by `intercode image build`
    ROOT/guest/KEY       the guest's modules, compiled for one interpreter, and the program of
                         `init.py`

ROOT is `$INTERCODE_CACHE`, else /var/cache/intercode for root and `$XDG_CACHE_HOME/intercode` or
~/.cache/intercode for others.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from intercode_sandbox import init
from intercode_sandbox.errors import DISK_FULL, SandboxUnavailable, room_left
from intercode_sandbox.identity import identity

GUEST = Path(__file__).with_name("guest")


def root() -> Path:
    """Return the cache's folder, created if needed. Raises `SandboxUnavailable` if sandboxes could
    not read it."""
    path = root_path()
    try:
        with _for_all_users():
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxUnavailable(
            f"the cache {path} cannot be made ({error.strerror}); set INTERCODE_CACHE"
        ) from error
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
    """Return the folder ROOT/kind/key; `build` creates a missing one. If two processes build it,
    one copy stays."""
    shelf = root() / kind
    final = shelf / key
    with room_left(), _for_all_users():
        try:
            shelf.mkdir(exist_ok=True)
            if not final.is_dir():
                _make(final, build)
        except (OSError, subprocess.CalledProcessError) as error:
            # The error of a write to a full disk has an errno and no paths; errors from `shutil`
            # and from programs have neither.
            if isinstance(error, OSError) and not isinstance(error, shutil.Error):
                names = error.filename, error.filename2
                ours = names == (None, None) and error.errno in DISK_FULL
                for name in names:
                    ours = ours or Path(str(name)).is_relative_to(shelf)
                if not ours:
                    raise
            why = getattr(error, "strerror", None) or str(error)[:300]
            raise SandboxUnavailable(
                f"the cache {shelf} cannot be filled ({why}); make room there, "
                "give this user the right to write, or set INTERCODE_CACHE to another folder"
            ) from error
    return final


@contextmanager
def _for_all_users() -> Iterator[None]:
    """Let everyone read files created in the block, whatever the caller's umask: sandboxes may run
    as another user."""
    mask = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(mask)


def _make(final: Path, build: Callable[[Path], None]) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{final.name[:16]}-", dir=final.parent))
    try:
        unfinished = work / "made"
        unfinished.mkdir()
        identity().own(work)
        identity().own(unfinished)
        build(unfinished)
        try:
            unfinished.rename(final)
        except OSError:  # perhaps another process was faster
            if not final.is_dir():
                raise
    finally:
        remove(work)


def remove(work: Path) -> None:
    """Remove a folder, even if folders in it lack write permission for an ordinary user."""
    shutil.rmtree(work, ignore_errors=True)
    if work.exists():
        subprocess.run(["chmod", "-R", "u+rwX", str(work)], check=False, capture_output=True)
        shutil.rmtree(work, ignore_errors=True)


@cache
def guest_folder(python: str, root: Path) -> Path:
    """Return the folder with the guest's modules for the interpreter `python`; `root` is the
    cache's folder."""
    modules = sorted(GUEST.glob("*.py"))

    def build(target: Path) -> None:
        for path in modules:
            shutil.copyfile(path, target / path.name)
        init.write(target)
        subprocess.run(
            [python, "-I", "-m", "compileall", "-q", str(target)], check=True, capture_output=True
        )

    return folder("guest", code_key(python, *modules, Path(init.__file__)), build)


def code_key(python: str, *files: Path) -> str:
    """Return the key of what an interpreter makes of these files."""
    contents = b"".join([path.read_bytes() for path in files])
    return hashlib.sha256(python.encode() + contents).hexdigest()[:24]
