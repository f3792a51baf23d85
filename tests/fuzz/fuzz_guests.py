"""The guest's side of the protocol: what a host may send by mistake. The guest answers, or ends; a reset always mends it.

cell      one episode's guest: any frames, then the host's end closes
keeper    pid 1 of the wall: what is no request of the protocol ends the wall, and all in it
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from families import alive, family, wait_until
from fuzz_lines import framed
from fuzzing import Attempt, Target
from hypothesis import strategies as st
from kept import needs_bwrap
from shapes import DATA, damaged, records

from intercode.sandbox import template
from intercode.sandbox.local import LocalSandbox

_OPERATIONS = ("exec", "read", "write", "connect", "diff", "export", "snapshot", "restore", "branch", "kill_all", "")
_REQUESTS = records(
    "cell", "replaces", op=st.sampled_from(_OPERATIONS), seconds=st.floats(-1, 0.05), argv=st.just(["true"]),
    cwd=st.sampled_from(["/", "/none", ""]), path=st.sampled_from(["/a", "/", "/dev/null", "/proc/1/mem", "a", "/a\0"]),
    limit=st.integers(-1, 100), mode=st.integers(0, 0o7777), status=st.integers(0, 9),
)  # fmt: skip
_FRAMES = st.builds(
    framed, st.one_of(_REQUESTS, _REQUESTS, _REQUESTS, DATA), st.one_of(st.just(b"true"), st.binary(max_size=12))
)
_SENT = st.lists(st.one_of(_FRAMES, _FRAMES, damaged(_FRAMES), st.binary(max_size=20)), min_size=1, max_size=3)
_SECONDS = 20.0


def _read_away(line: socket.socket) -> None:
    """Everything to the end, which comes in time."""
    line.settimeout(_SECONDS)
    try:
        while line.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass


@contextmanager
def _cell() -> Iterator[Attempt]:
    needs_bwrap()
    with LocalSandbox(template.base(None)) as sandbox:

        def attempt(frames: list[bytes]) -> None:
            line = sandbox._sock
            for frame in frames:
                try:
                    line.sendall(frame)
                except (BrokenPipeError, ConnectionResetError):
                    break
            line.shutdown(socket.SHUT_WR)
            _read_away(line)
            sandbox.reset()
            assert sandbox.exec("echo honest").output == "honest\n"

        yield attempt


@contextmanager
def _keeper() -> Iterator[Attempt]:
    needs_bwrap()
    made = template.base(None)

    def attempt(frames: list[bytes]) -> None:
        with LocalSandbox(made) as sandbox:
            wall = sandbox._wall.wall
            inside = family(wall._process.pid)
            wall._control.sendall(b"".join(frames))
            wall._control.shutdown(socket.SHUT_WR)
            assert wait_until(lambda: not alive(inside), _SECONDS)

    yield attempt


TARGETS = [
    Target("what a host says to a cell", _SENT, _cell, quick=40),
    Target("what a host says to a keeper", _SENT, _keeper, quick=10),
]
