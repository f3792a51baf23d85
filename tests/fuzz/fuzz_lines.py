"""The host's side of the guest protocol: what a guest that was taken over may answer, with any
descriptors beside it.

A real sandbox, whose line leads to a peer that says what it likes. Out comes a result of the right
types, or a `SandboxError` (`OSError` for a file); and no descriptor is left open.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import NoneType
from typing import Any

import pytest
from fuzzing import Attempt, Target
from hypothesis import strategies as st
from kept import needs_bwrap
from shapes import DATA, damaged, spoilt

from intercode.errors import SandboxError
from intercode_sandbox import template
from intercode_sandbox.guest.wire import HEADER
from intercode_sandbox.local import LocalSandbox

pytestmark = pytest.mark.slow

Said = tuple[list[bytes], int]
"""The frames, and how many descriptors come with the first."""
_FILE = st.just({"kind": "added", "type": "file", "mode": 0o644, "digest": "ab"})
_ANSWERS = {
    "exec": {
        "exit_code": st.none() | st.integers(0, 255), "timed_out": st.booleans(),
        "lost": st.booleans(), "overflow": st.none(), "cwd": st.just("/"),
    },
    "diff": {"changes": st.dictionaries(st.sampled_from(["/a", "/b"]), _FILE)},
    "fork": {"cwd": st.just("/"), "status": st.just(0), "blockers": st.just([])},
    "still": {"blockers": st.lists(st.text(max_size=3), max_size=1)},
    "gone": {"perished": st.just(True), "by_agent": st.booleans()},
    "broken": {"errno": st.integers(-2, 140), "error": st.text(max_size=4)},
    "done": {"ok": st.booleans()},
}  # fmt: skip
_HEADS = spoilt(st.one_of(*map(st.fixed_dictionaries, _ANSWERS.values())))


def framed(head: Any, payload: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return HEADER.pack(len(text), len(payload)) + text + payload


_FRAMES = st.builds(framed, st.one_of(_HEADS, _HEADS, _HEADS, DATA), st.binary(max_size=20))
_SAID = st.tuples(
    st.lists(st.one_of(_FRAMES, _FRAMES, damaged(_FRAMES), st.binary(max_size=20)), max_size=2),
    st.sampled_from([0, 0, 1, 1, 2, 4]),
)


def _exec(sandbox: LocalSandbox) -> None:
    result = sandbox.exec("true", timeout=1)
    assert (
        type(result.output),
        type(result.timed_out),
        type(result.session_lost),
        type(result.cwd),
    ) == (str, bool, bool, str)
    assert isinstance(result.exit_code, int | NoneType)
    assert isinstance(result.overflow, str | NoneType)


def _diff(sandbox: LocalSandbox) -> None:
    for path, change in sandbox.diff().items():
        assert (type(path), type(change.kind), type(change.type), type(change.mode)) == (
            str,
            str,
            str,
            int,
        )
        assert isinstance(change.digest, str | NoneType)
        assert isinstance(change.target, str | NoneType)


_CALLS: dict[str, Callable[[LocalSandbox], object]] = {
    "exec": _exec,
    "read": lambda sandbox: sandbox.read("/a"),
    "read_many": lambda sandbox: [*sandbox.read_many(["/a", "/b"])],
    "write": lambda sandbox: sandbox.write("/a", b"x"),
    "diff": _diff,
    "connect": lambda sandbox: sandbox.connect("/a").close(),
    "fork": lambda sandbox: sandbox.fork().close(),
}


def _use_socket(sandbox: LocalSandbox, sock: socket.socket) -> None:
    sandbox._sock, sandbox._timeout, sandbox._quick, sandbox._poll = sock, 0.0, False, select.poll()
    sandbox._poll.register(sock, select.POLLIN)


@contextmanager
def _host() -> Iterator[Attempt]:
    needs_bwrap()
    with LocalSandbox(template.base(None)) as sandbox:
        own = sandbox._sock

        def attempt(given: tuple[str, Said]) -> None:
            call, (frames, descriptors) = given
            before = len(os.listdir("/proc/self/fd"))
            ours, theirs = socket.socketpair()
            with ours, theirs:
                with open(os.devnull) as lent:
                    if frames and frames[0]:
                        socket.send_fds(theirs, [frames[0]], [lent.fileno()] * descriptors)
                theirs.sendall(b"".join(frames[1:]))
                theirs.shutdown(socket.SHUT_WR)
                _use_socket(sandbox, ours)
                with suppress(SandboxError, OSError):
                    _CALLS[call](sandbox)
                _use_socket(sandbox, own)
            assert len(os.listdir("/proc/self/fd")) == before

        yield attempt
        assert sandbox.exec("echo honest").output == "honest\n"


_DEEP = b"[" * 100_000
_FOUND = (
    ("connect", ([b"\0"], 1)),
    ("connect", ([framed({})], 2)),
    ("connect", ([framed({"errno": None})], 1)),
    ("exec", ([framed({})], 0)),
    ("exec", ([HEADER.pack(len(_DEEP), 0) + _DEEP], 0)),
    ("diff", ([framed({"changes": {"/a": {}}})], 0)),
    ("fork", ([framed({"cwd": "/", "status": 0})], 0)),
    ("fork", ([framed({"blockers": True})], 0)),
    ("fork", ([framed({"status": 0})], 1)),
    ("fork", ([framed({"blockers": ["a shell"], "cwd": "/"})], 1)),
)
TARGETS = [
    Target(
        "what a guest says to the host",
        st.tuples(st.sampled_from([*_CALLS]), _SAID),
        _host,
        _FOUND,
        quick=80,
    ),
]
