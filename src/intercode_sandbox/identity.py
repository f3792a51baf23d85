"""The user that sandboxes run as: the caller, or, if the caller is root, a dedicated user.

`UID` lies in a range that systemd's user allocation leaves unused (60578–61183), so it owns nothing
else on the machine.
"""

from __future__ import annotations

import os
import stat
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from intercode_sandbox.errors import SandboxUnavailable

UID = 61_000
# The user number 1 of sandboxes whose agent is root, and 65,534 more.
_OTHERS = UID << 16


class Identity(NamedTuple):
    uid: int
    gid: int
    other: bool
    """True if this user is not the caller."""

    def popen(self) -> dict[str, Any]:
        """Return arguments for `subprocess.Popen`."""
        if not self.other:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a file to this user. Raises `SandboxUnavailable` if root may not."""
        if not self.other:
            return
        try:
            os.chown(path, self.uid, self.gid)
        except OSError as error:
            raise SandboxUnavailable(
                f"root may not give files to uid {self.uid} here ({error.strerror}): "
                "this user namespace does not map it; run as an ordinary user, or map more uids"
            ) from error

    def reaches(self, path: Path) -> bool:
        """Return whether this user may enter every folder on the way to `path`."""
        if not self.other:
            return True
        for folder in (path, *path.parents):
            info = folder.stat()
            right = stat.S_IXOTH
            if info.st_uid == self.uid:
                right = stat.S_IXUSR
            if not info.st_mode & right:
                return False
        return True


@cache
def identity() -> Identity:
    if os.getuid() == 0:
        return Identity(UID, UID, True)
    return Identity(os.getuid(), os.getgid(), False)


def run_as_user(words: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a program as the sandboxes' user."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        cwd="/",
        **identity().popen(),
    )


def map_users(pid: int) -> None:
    """Give the user namespace of a process 65,536 users, of which the first is the sandboxes'; only
    that one, if this process may not use the others. Only for root."""
    for name in ("uid_map", "gid_map"):
        first = f"0 {UID} 1\n"
        for text in (f"{first}1 {_OTHERS} 65535\n", first):
            try:
                Path(f"/proc/{pid}/{name}").write_text(text, "utf-8")
                break
            except PermissionError:
                continue
