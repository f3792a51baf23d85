"""What really changed in a folder, told as if it were `/`."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path

from intercode.types import Change

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


def snapshot(top: Path, *left_out: str) -> dict[str, Change]:
    """Absolute path → state, without what is left out at the top."""
    paths = {str(path.relative_to(top)): path for path in top.rglob("*")}
    return {
        f"/{name}": _state(path)
        for name, path in paths.items()
        if name.split("/")[0] not in left_out
    }


def changed(before: dict[str, Change], after: dict[str, Change]) -> dict[str, Change]:
    removed = {
        path: Change("removed", old.type) for path, old in before.items() if path not in after
    }
    other = {path: now for path, now in after.items() if before.get(path) != now}
    return removed | {
        path: replace(now, kind="changed") if path in before else now for path, now in other.items()
    }


def _state(path: Path) -> Change:
    info = path.lstat()
    kind = _TYPES.get(stat.S_IFMT(info.st_mode), "other")
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if kind == "file" else None
    target = os.readlink(path) if kind == "link" else None
    return Change("added", kind, stat.S_IMODE(info.st_mode), digest, target)  # type: ignore[arg-type]
