"""What changed archives hold, read by a process that can only harm itself (`unpacking.py`).

A small file can hold much, or take long to read: the process has its own bounds of memory and processor, and what it had not
read when it passed them counts as no archive.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from itertools import repeat

from intercode.errors import SandboxError, room_left
from intercode.rewards import unpacking

NAMED = re.compile(r"\.(tar|tgz|tbz2?|txz|gz|bz2|xz|zip)$", re.IGNORECASE)
"""The end of an archive's name."""


def held(contents: Iterable[bytes]) -> list[str | None]:
    """For each a hex digest of what it holds; None if it is no archive, or none that can be read within the bounds.

    Raises `SandboxError` if the machine does not let it be read.
    """
    contents = list(contents)
    asked = [number for number, data in enumerate(contents) if unpacking.packed(data)]
    lines = _told([contents[number] for number in asked]) if asked else []
    found = dict(zip(asked, [*lines, *repeat("", len(asked) - len(lines))], strict=True))
    return [found.get(number) or None for number in range(len(contents))]


def _told(contents: list[bytes]) -> list[str]:
    said = b"".join(unpacking.SIZE.pack(len(data)) + data for data in contents)
    with room_left():
        done = subprocess.run(
            [sys.executable, "-I", "-S", unpacking.__file__], input=said, capture_output=True, check=False, cwd="/"
        )
    if done.returncode > 0 or done.returncode == -signal.SIGKILL:
        raise SandboxError(f"archives cannot be read (status {done.returncode}): {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout.decode().splitlines()
