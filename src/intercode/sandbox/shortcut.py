"""The way past the cell, for actions that end at once: the host speaks to the session's bash itself.

    host ── action ──► bash ── report ──► host              the cell sleeps, and two switches between processes are saved
      └── not done in a moment, or something else lives ──► the cell takes over, waits, and answers

Taken only while nothing lives in the sandbox but bash, so that the cell has nobody to watch. The cell learns with the next
request what it slept through (`missed`). All that comes from bash is taken as in the cell: output is bytes, and a report
counts only with the token of its action.
"""

from __future__ import annotations

import os
import resource
import select
import time
from collections.abc import Sequence
from typing import Any, Self

from intercode.sandbox.guest.lending import LENT
from intercode.sandbox.guest.output import Output
from intercode.sandbox.guest.shell import Report, message, new_token

MOMENT = 150e-6
"""Seconds: most builtins answer in less time than it takes to put a process to sleep and wake it."""
_AT_ONCE = select.PIPE_BUF


class Shortcut:
    """`fds` are those of `guest/lending.py`; it closes them."""

    def __init__(self, fds: Sequence[int], output: int) -> None:
        self._fds, self._most = tuple(fds), output
        for fd in fds[:3]:
            os.set_blocking(fd, False)
        self._done, self._actions, self._out, self._folder, *self._children = fds
        self._ready = select.poll()
        self._ready.register(self._done, select.POLLIN)
        self._token, self._heard = b"", Report()

    @classmethod
    def over(cls, fds: Sequence[int], output: int) -> Self | None:
        """None if not all came, or this process has few left; closes them then."""
        if len(fds) == LENT and max(fds) < resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2:
            return cls(fds, output)
        _close(fds)
        return None

    def begin(self, action: bytes) -> bool:
        """Whether bash has the action now. Nothing has happened otherwise."""
        token = new_token()
        text = message(token, action)
        if len(text) > _AT_ONCE:
            return False
        try:
            os.write(self._actions, text)
        except OSError:
            return False
        self._token, self._heard = token, Report()
        return True

    def answer(self) -> tuple[dict[str, Any], bytes] | None:
        """As the cell's, if bash is done in a moment, and alone."""
        try:
            if not self._is_done() or not self._alone():
                return None
            cwd = os.readlink("cwd", dir_fd=self._folder).removesuffix(" (deleted)")
        except OSError:  # bash has died since
            return None
        output = Output(self._most)
        output.drain(self._out)
        kept, overflow = output.take()
        return {"exit_code": self._heard.status, "timed_out": False, "lost": False, "overflow": overflow, "cwd": cwd}, kept

    def handed_over(self) -> dict[str, Any]:
        """For the cell, which goes on with the action from here."""
        return {"begun": self._token.decode(), "status": self._heard.status}

    def close(self) -> None:
        _close(self._fds)

    def _is_done(self) -> bool:
        until = time.perf_counter() + MOMENT
        while self._heard.status is None and time.perf_counter() < until:
            if not self._ready.poll(0):
                os.sched_yield()
            elif not self._heard.hear(self._done, self._token):
                return False
        return self._heard.status is not None

    def _alone(self) -> bool:
        """Read in this order: while bash has no child, nobody but a child of the anchor's can have another."""
        shells, anchors, cells = (os.pread(fd, 4096, 0) for fd in self._children)
        return not shells and not anchors and len(cells.split()) == 2


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
