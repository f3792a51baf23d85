"""The errors. The class says whose fault it was; the message says what to do next.

IntercodeError
├── UsageError          the caller: a wrong option, a closed sandbox, a fork of a live process
├── DataError           what the caller gave: a file that cannot be read, an image without a
│                       shell
└── SandboxError        the machine: a sandbox cannot be built, or broke without the agent's
    │                   doing
    ├── SandboxUnavailable   no sandbox can start here; the message gives the command that helps
    ├── SandboxDied          it died while in use
    └── ForkError            a live copy is impossible; names the jobs and descriptors that
                             prevent it
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from intercode_sandbox.guest.room import NO_ROOM

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_BUILD = "it does not build"
"""Said of a Dockerfile in an error."""


class IntercodeError(Exception):
    """Root of all errors raised on purpose. `fault` names the side that can repair the cause."""

    fault = "intercode"


class UsageError(IntercodeError):
    fault = "caller"


class DataError(IntercodeError):
    fault = "data"


class SandboxError(IntercodeError):
    fault = "sandbox"


class SandboxUnavailable(SandboxError):
    pass


class SandboxDied(SandboxError):
    """A sandbox died. `by_agent`: the sandbox itself saw that only code executed in it can have
    ended it."""

    def __init__(self, message: str, *, by_agent: bool = False) -> None:
        super().__init__(message)
        self.by_agent = by_agent


class ForkError(SandboxError):
    fault = "caller"


_INSIDE = "The path is in a sandbox."


def inside(error: OSError) -> OSError:
    """Return the error of a call on a path in a sandbox, marked as such."""
    error.add_note(_INSIDE)
    return error


def is_inside(error: OSError) -> bool:
    """Return whether a call failed because of a path in a sandbox, not because of this machine."""
    return _INSIDE in getattr(error, "__notes__", ())


@contextmanager
def room_left() -> Iterator[None]:
    """Raise `SandboxUnavailable` if the machine runs out of descriptors, processes, memory or disk
    within the block."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM | DISK_FULL:
            raise
        advice = "see `ulimit -a` and `df`, or take fewer --workers"
        raise SandboxUnavailable(
            f"this machine has no room for a sandbox: {error.strerror}; {advice}"
        ) from error


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'bash'?` for the one of `names` that is most like `name`, if
    one is."""
    import difflib

    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def did_you_mean_file(path: str | os.PathLike[str]) -> str:
    """Return the same for a path with nothing there, from the names in its folder."""
    folder, name = os.path.split(path)
    try:
        return did_you_mean(name, os.listdir(folder or "."))
    except OSError:
        return ""
