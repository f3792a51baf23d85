"""Errors that mean that this machine has no room left. They say nothing about the agent's files or
actions."""

from __future__ import annotations

import errno

NO_ROOM = frozenset(
    (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS)
)
"""No more processes, descriptors, memory, or descriptors in flight; for the machine as a whole, or
for this user."""


def require_room(error: OSError) -> None:
    """Raise a file or socket call's error again if the machine had no room for the call.

    EAGAIN is not such an error: the agent may hold a lease on its file, or read nothing.
    """
    if error.errno in NO_ROOM - {errno.EAGAIN}:
        raise error
