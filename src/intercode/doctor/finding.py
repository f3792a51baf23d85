"""What every trial needs: to run a program as the sandboxes would, to read a setting, and to put what was found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from intercode.sandbox.identity import identity

_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")


class Finding(NamedTuple):
    """`ok` is None for what sandboxes can do without, and for what could not be tried. `mend` is "" where all is well."""

    what: str
    ok: bool | None
    detail: str
    mend: str


class Trial(NamedTuple):
    worked: bool
    said: str


def attempt(*argv: str) -> Trial:
    """Run a program as the sandboxes' user; what it said is its last line."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, cwd="/", **identity().popen())
    except (OSError, subprocess.SubprocessError) as error:
        return Trial(False, str(error))
    lines = (done.stdout + done.stderr).decode(errors="replace").split("\n")
    return Trial(done.returncode == 0, next((line.strip() for line in reversed(lines) if line.strip()), ""))


def read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def in_container() -> bool:
    return any(os.path.exists(mark) for mark in _CONTAINER_MARKS)
