"""What a server that was taken over may say, and what comes of it: an error, in time, and nothing else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from intercode.engines.base import Answer
from intercode.engines.sqlite_guest import AGAIN, HEADER, packed
from intercode.engines.sqlite_line import Line

ROWS = [(1, "a", None, b"\0"), (2, "ü", 0.5, None), (3, "", float("inf"), "x")]
END = b'{"columns": ["a", "b", "c", "d"], "cut": false}'
GARBAGE = [
    b"",
    b"[",
    b"[1, 2, 3]",
    b"[1, 2]",
    b"[[], [1]]",
    b"{}",
    b'"text"',
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"error": "x"}',
    b"#",
    b"#[]",
    b"#[[]]\n",
    b'#[["q", 7, []]]\n1234567',
    b'#[["z", 1, []]]\n1',
    b'#[["t", 3, []], ["t", 1, []]]\na\0bc',
    b'#[["t", 1, [1e9]]]\na',
    b'#[["t", 1, [100000000000000000000000]]]\na',
    b'#[["j", 11, []]]\n[{"b": "z"}]',
    b'#[["j", 1, []]]\n1',
]


@pytest.fixture
def ends() -> Iterator[tuple[Line, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, closing(Line(ours)) as line:
        yield line, theirs


def hear(ends: tuple[Line, socket.socket], *frames: bytes, wait: float = 5.0) -> Answer:
    line, theirs = ends
    data = b"".join(HEADER.pack(len(frame)) + frame for frame in frames)
    sender = threading.Thread(target=theirs.sendall, args=(data,))
    sender.start()
    try:
        return line.statement(b"R", wait)
    finally:
        sender.join()


@pytest.mark.parametrize("frame", GARBAGE, ids=lambda frame: str(frame[:20]))
def test_what_is_no_answer_is_an_error(ends: tuple[Line, socket.socket], frame: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        hear(ends, frame, END)


def test_rows_that_come_again_are_not_counted_twice(ends: tuple[Line, socket.socket]) -> None:
    table = hear(ends, packed(ROWS), packed(ROWS), AGAIN, packed(ROWS), END).table
    assert table is not None
    assert list(table.rows) == ROWS


def test_a_table_that_comes_again_may_be_whole(ends: tuple[Line, socket.socket]) -> None:
    table = hear(ends, AGAIN, b'[["a"], [[1]]]').table
    assert table is not None
    assert table.rows == ((1,),)


def test_a_whole_table_after_rows_is_an_error(ends: tuple[Line, socket.socket]) -> None:
    with pytest.raises(ValueError, match="none"):
        hear(ends, packed(ROWS), b'[["a"], [[1]]]')


def test_a_frame_that_is_too_large_is_not_waited_for(ends: tuple[Line, socket.socket]) -> None:
    line, theirs = ends
    theirs.sendall(HEADER.pack((1 << 32) - 1))
    with pytest.raises(ValueError, match="large"):
        line.statement(b"R", 5)


@pytest.mark.parametrize(
    ("before", "drop", "pause"),
    [
        (b"", HEADER.pack(len(AGAIN)) + AGAIN, 0.05),
        (HEADER.pack(100), b"x", 0.05),
        (HEADER.pack(20_000), b"x", 0.0002),
    ],
    ids=["frames", "bytes", "a rain of bytes"],
)
def test_silence_and_drops_end_in_time(ends: tuple[Line, socket.socket], before: bytes, drop: bytes, pause: float) -> None:
    """The whole answer has the time once, however it comes."""
    line, theirs = ends
    theirs.sendall(before)
    over = threading.Event()

    def drip() -> None:
        while not over.wait(pause):
            theirs.sendall(drop)

    dripping = threading.Thread(target=drip)
    dripping.start()
    began = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            line.statement(b"R", 0.4)
    finally:
        over.set()
        dripping.join()
    assert 0.3 < time.monotonic() - began < 2


def test_a_closed_line_is_the_end(ends: tuple[Line, socket.socket]) -> None:
    line, theirs = ends
    theirs.close()
    with pytest.raises((EOFError, OSError)):
        line.statement(b"R", 5)
