"""Who the sandboxes run as: the caller, or, when the caller is root, a user of their own.

`UID` lies in a range that systemd's user allocation leaves unused (60578–61183), so it owns nothing else on the machine.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

UID = 61_000


class Identity(NamedTuple):
    uid: int
    gid: int
    other: bool
    """Whether it is another user than the caller."""

    def popen(self) -> dict[str, Any]:
        """Arguments for `subprocess.Popen`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.other else {}

    def own(self, path: Path) -> None:
        if self.other:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Whether it may enter every folder on the way to `path`."""
        if not self.other:
            return True
        return all(self._enters(folder) for folder in [path, *path.parents])

    def _enters(self, folder: Path) -> bool:
        info = folder.stat()
        return bool(info.st_mode & (stat.S_IXUSR if info.st_uid == self.uid else stat.S_IXOTH))


@cache
def identity() -> Identity:
    if os.getuid() == 0:
        return Identity(UID, UID, True)
    return Identity(os.getuid(), os.getgid(), False)
