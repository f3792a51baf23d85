"""Errors by which this machine says that it has no room left. They say nothing of the agent's files
or actions."""

from __future__ import annotations

import errno

NO_ROOM = frozenset(
    (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS)
)
"""No more processes, descriptors, memory, or descriptors in flight; for the machine, or for all
that this user does."""


def require_room(error: OSError) -> None:
    """Raise the error of a call on a file or a socket again if the machine has no room for the
    call.

    EAGAIN is an answer: the agent may hold a lease on its file, or read nothing.
    """
    if error.errno in NO_ROOM - {errno.EAGAIN}:
        raise error
