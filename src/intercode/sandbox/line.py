"""What backends have in common whose guest answers frames on a stream socket: one request, one reply.

A backend opens the socket (`_speak`), says when it is closed, and adds what it does in its own way: diff, reset, fork, close.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from abc import abstractmethod
from types import NoneType
from typing import Any

from intercode.errors import ForkError, SandboxDied, UsageError, room_left
from intercode.sandbox.base import Sandbox
from intercode.sandbox.guest import wire
from intercode.sandbox.guest.limit import Limit
from intercode.types import Change, ExecResult

_MOMENT, _QUICK = 150e-6, 500e-6
_PAYLOAD = 1 << 30
_CHANGE = {"kind": (str,), "type": (str,), "mode": (int,), "digest": (str, NoneType), "target": (str, NoneType)}
_GRACE = 15.0
"""Seconds that the cell may take over the action's own limit before it counts as dead."""


class GuestSandbox(Sandbox):
    """`exec`, `read` and `write` over a socket."""

    _pid: int
    _sock: socket.socket
    _ready: select.poll
    _patience: float
    _quick: bool

    @property
    @abstractmethod
    def _closed(self) -> bool: ...

    def exec(
        self, action: str, *, argv: list[str] | None = None, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        if "\0" in action or any("\0" in word for word in argv or ()):
            raise UsageError("an action cannot hold a NUL character")
        seconds = self.limits.seconds if timeout is None else timeout
        head = {"op": "exec", "seconds": seconds, **({"argv": argv, "cwd": cwd} if argv else {})}
        payload = action.encode("utf-8", "surrogateescape")
        reply, output = self._ask(head, payload, wait=seconds)
        return ExecResult(
            output=output.decode("utf-8", "backslashreplace"),
            exit_code=said(reply, "exit_code", int, NoneType),
            timed_out=said(reply, "timed_out", bool),
            session_lost=said(reply, "lost", bool),
            overflow=said(reply, "overflow", str, NoneType),
            cwd=said(reply, "cwd", str),
        )

    def read(self, path: str, *, limit: int = 8 << 20) -> bytes:
        return self._ask({"op": "read", "path": absolute(path), "limit": limit})[1]

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._ask({"op": "write", "path": absolute(path), "mode": mode}, data)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _speak(self, sock: socket.socket) -> None:
        """From now on the guest is at the other end of `sock`."""
        self._sock, self._patience, self._quick = sock, 0.0, False
        self._ready = select.poll()
        self._ready.register(sock, select.POLLIN)

    def _open(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError("this sandbox belongs to the process that made it; make one in each process after forking")
        if self._closed:
            raise UsageError("the sandbox is closed")

    def _ask(
        self, head: dict[str, Any], payload: bytes = b"", wait: float = 0.0, fds: list[int] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """The reply's head and payload. Descriptors that come with it are added to `fds`; those of an error are closed."""
        self._open()
        try:
            if wait + _GRACE != self._patience:
                self._sock.settimeout(wait + _GRACE)
                self._patience = wait + _GRACE
            with contextlib.suppress(BrokenPipeError):  # the cell has ended; its last frame says why
                wire.send(self._sock, head, payload)
            limit = Limit(wait + _GRACE)
            reply, content = self._prompt_answer(limit) if head["op"] == "exec" else self._answer(limit, fds)
        except TimeoutError:
            raise SandboxDied(f"the sandbox did not answer {head['op']} in {wait + _GRACE:.0f} s") from None
        except (OSError, EOFError, wire.WireError) as error:
            raise SandboxDied(f"the sandbox died during {head['op']} ({str(error) or 'its end of the line closed'})") from None
        if (trouble := _trouble(head, reply)) is None:
            return reply, content
        for fd in fds or ():
            os.close(fd)
        raise trouble

    def _prompt_answer(self, limit: Limit) -> tuple[dict[str, Any], bytes]:
        """Stay awake for a moment: most builtins answer in less time than it takes to put a process to sleep and wake it.

        After an action that took longer not again, until one is quick: where others need the processor it would be in the way.
        """
        began = time.perf_counter()
        while self._quick and not self._ready.poll(0) and time.perf_counter() - began < _MOMENT:
            os.sched_yield()
        answer = self._answer(limit)
        self._quick = time.perf_counter() - began < _QUICK
        return answer

    def _answer(self, limit: Limit, fds: list[int] | None = None) -> tuple[dict[str, Any], bytes]:
        while not self._ready.poll(max(limit.wait(), 0.0) * 1000):
            if limit.left() <= 0:
                raise TimeoutError
        if fds is None:
            return wire.receive(self._sock, _PAYLOAD)
        with room_left():
            reply, content, came = wire.receive_with_fds(self._sock, _PAYLOAD)
        fds += came
        return reply, content


def said(reply: dict[str, Any], name: str, *kinds: type) -> Any:
    """A field of a guest's reply; a guest that leaves it out, or says something of another kind, is no guest any more."""
    value = reply.get(name, ...)
    if not isinstance(value, kinds):
        raise SandboxDied(f"the sandbox's answer makes no sense: its {name} is {value!r:.50}")
    return value


def unhindered(reply: dict[str, Any], what: str) -> None:
    """Raises `ForkError` if a guest names what is in the way; `what` begins the sentence."""
    if blockers := said({"blockers": [], **reply}, "blockers", list):
        raise ForkError(f"{what}: {', '.join(map(str, blockers))}; end or close them")


def changes(reply: dict[str, Any]) -> dict[str, Change]:
    """What a guest says has changed, sorted by path."""
    told = said(reply, "changes", dict)
    found = {}
    for path in sorted(told):
        fields = said(told, path, dict)
        if not {"kind", "type"} <= fields.keys() <= _CHANGE.keys():
            raise SandboxDied(f"the sandbox's answer makes no sense: what changed at {path!r:.50} is {fields!r:.50}")
        found[path] = Change(**{name: said(fields, name, *_CHANGE[name]) for name in fields})
    return found


def _trouble(head: dict[str, Any], reply: dict[str, Any]) -> SandboxDied | OSError | None:
    if "perished" in reply:
        by_agent = reply.get("by_agent") is True
        return SandboxDied(f"the sandbox's first process ended before {head['op']} did", by_agent=by_agent)
    if "errno" not in reply:
        return None
    if "path" in head:
        return OSError(reply["errno"], reply.get("error"), head["path"])
    return SandboxDied(f"the sandbox broke during {head['op']} ({reply.get('error')})")


def absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise UsageError(f"{path!r}: a path in the sandbox is absolute")
    return path
