"""What changed archives hold, read by a process that can only harm itself (`unpacking.py`).

A small file can hold much, or take long to read: the process has its own bounds of memory and processor, and what it had not
read when it passed them counts as no archive.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from subprocess import PIPE, Popen

from intercode.envs import unpacking
from intercode.errors import SandboxError, room_left

NAMED = re.compile(r"\.(tar|tgz|tbz2?|txz|gz|bz2|xz|zip)$", re.IGNORECASE)
"""The end of an archive's name."""


def held(contents: Iterable[bytes]) -> list[tuple[str, ...]]:
    """For each the hex digests of what it holds, and of its members' owners, modes and times; nothing if it is no archive, or
    none that can be read within the bounds.

    Raises `SandboxError` if the machine does not let it be read.
    """
    command = [sys.executable, "-I", "-S", unpacking.__file__]
    with room_left(), Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd="/") as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        found = list[tuple[str, ...]]()
        for data in contents:
            line = b""
            with suppress(BrokenPipeError):  # the reader has ended
                if unpacking.packed(data):
                    reader.stdin.write(unpacking.SIZE.pack(len(data)) + data)
                    reader.stdin.flush()
                    line = reader.stdout.readline()
            found.append(tuple(line.decode().split()))
        said = reader.communicate()[1].decode(errors="replace")
    if reader.returncode > 0 or reader.returncode == -signal.SIGKILL:
        raise SandboxError(f"archives cannot be read (status {reader.returncode}): {said[-500:]}")
    return found
