"""What the host needs to speak to the session's bash itself, while the cell sleeps (`intercode.sandbox.shortcut`).

The descriptors, in this order: reports, actions, output; bash's folder in /proc; and the lists of children of bash, of the
anchor and of the cell. The cell's are those two alone, and theirs none, when nothing lives in there but bash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .shell import Shell

LENT = 7


@contextmanager
def lines(shell: Shell, out: int, proc: int, anchor: int) -> Iterator[tuple[int, ...]]:
    """None where the kernel keeps no lists of children. `proc` is the wall's /proc, and `anchor` pid 1 in there."""
    seen: list[int] = []
    try:
        for path in (str(shell.pid), *(f"{pid}/task/{pid}/children" for pid in (shell.pid, anchor, os.getpid()))):
            seen.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc))
        yield (*shell.lines, out, *seen)
    except FileNotFoundError:
        yield ()
    finally:
        for fd in seen:
            os.close(fd)
