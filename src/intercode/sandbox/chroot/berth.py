"""A place for one sandbox: a user that nobody else is, and a folder for its copy of the tree.

    /run/intercode/UID      locked while it is taken, by the kernel: free again however its process ends
    ROOT/cages/UID/tree     the copy, in folders of root's
    ROOT/cages/UID/content  which tree it is an untouched copy of, while nobody has it: the next sandbox need not copy

The users lie behind the local wall's in the range that systemd leaves unused; each has another beside it (`caged.HANGMEN`).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

from intercode.errors import SandboxUnavailable
from intercode.sandbox import cache
from intercode.sandbox.guest.caged import HANGMEN
from intercode.sandbox.identity import UID

_LOCKS = Path("/run/intercode")
_UIDS = range(UID + 1, UID + 1 + HANGMEN)
_CONTENT = "content"
_GUEST = Path(__file__).parents[1]


class Berth:
    """One that is free, best with an untouched copy of the tree called `digest`: then `furnished` is true.

    Raises `SandboxUnavailable` if none is free, or this process is not root.
    """

    def __init__(self, digest: str) -> None:
        if os.getuid() != 0:
            raise SandboxUnavailable(
                "the chroot sandbox is for root in a container; as an ordinary user take --sandbox local or --sandbox docker"
            )
        _LOCKS.mkdir(mode=0o700, exist_ok=True)
        self._digest = digest
        self.uid, self._lock = _take(sorted(_own_order(), key=lambda uid: _content(uid) != digest))
        self._folder = _folder(self.uid)
        self.tree = self._folder / "tree"
        self.furnished = _content(self.uid) == digest
        if self.furnished:
            (self._folder / _CONTENT).unlink()
        else:
            self._clear()
            self._folder.parent.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir()

    def guest(self, what: str) -> list[str]:
        """The command that runs a function of the guest's as root."""
        start = f"import sys; sys.path.insert(0, {str(_GUEST)!r}); from guest.caged import main, sweep; {what}"
        return [sys.executable, "-I", "-S", "-B", "-c", start]

    def leave(self, *, untouched: bool) -> None:
        """Nobody is there any more; an untouched tree stays for the next sandbox."""
        try:
            if untouched:
                (self._folder / _CONTENT).write_text(self._digest)
            else:
                self._clear()
        finally:
            os.close(self._lock)

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        os.close(self._lock)

    def _clear(self) -> None:
        subprocess.run(self.guest(f"sweep({self.uid})"), check=False)
        _remove(self._folder)


def _own_order() -> list[int]:
    """Another in each container: on the machine around them they are the same users, whose processes are limited together."""
    start = crc32(os.uname().nodename.encode()) % HANGMEN
    return [*_UIDS[start:], *_UIDS[:start]]


def clear() -> list[Path]:
    """Remove the folders of berths that nobody has; what was removed."""
    if os.getuid() != 0 or not (cache.place() / "cages").is_dir():
        return []
    return [_folder(uid) for uid in _UIDS if _folder(uid).exists() and _cleared(uid)]


def _cleared(uid: int) -> bool:
    try:
        _, lock = _take([uid])
    except SandboxUnavailable:
        return False
    _remove(_folder(uid))
    os.close(lock)
    return True


def _remove(folder: Path) -> None:
    if folder.exists():
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


def _folder(uid: int) -> Path:
    return cache.place() / "cages" / str(uid)


def _content(uid: int) -> str:
    """Which tree an untouched copy there is of."""
    try:
        return (_folder(uid) / _CONTENT).read_text()
    except OSError:
        return ""


def _take(uids: Iterable[int]) -> tuple[int, int]:
    for uid in uids:
        lock = os.open(_LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return uid, lock
    raise SandboxUnavailable(f"all {HANGMEN} places for chroot sandboxes on this machine are taken; use fewer workers")
