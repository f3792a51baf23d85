"""The host's end of the line to the SQLite server (`sqlite_guest.py` has the frames): what is sent, and how it is read.

    ask(body) ──► frame: the answer, or ──► Answer: # # # {  ──► the rows so far, then the rest of it

What comes is data only: JSON, arrays of numbers, text. A frame that is none of it raises `ValueError`: a server that was taken
over can say anything and do nothing. `AGAIN` takes back the rows so far; what comes then may be whole.
"""

from __future__ import annotations

import json
import socket
from array import array
from collections.abc import Iterator
from typing import Any

from intercode.engines.base import Answer
from intercode.engines.sqlite_guest import AGAIN, HEADER, SOME, Vigil
from intercode.engines.waiting import Waiting
from intercode.sandbox.guest.limit import Limit
from intercode.types import Table

_LARGEST = 1 << 30
"""Bytes of an answer."""
_CHUNK = 1 << 16
_decoded = json.JSONDecoder().raw_decode
_MALFORMED = (TypeError, LookupError, ArithmeticError, RecursionError)


class Line:
    """Raises `TimeoutError` where nothing comes in time, `EOFError` and `OSError` where the other end is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._rest = sock, b""
        self._wait, self._vigil = Waiting(sock), Vigil(sock)
        self._limit = Limit(0.0)

    def close(self) -> None:
        self._sock.close()

    def ask(self, body: bytes, wait: float) -> bytes:
        """The answer's first frame, `wait` seconds being allowed for all of it."""
        self._limit = Limit(wait)
        self._wait.sending(wait)
        try:
            self._sock.sendall(HEADER.pack(len(body)) + body)
        except BlockingIOError:
            raise TimeoutError from None
        self._vigil()
        return self._frame()

    def request(self, head: dict[str, Any], wait: float) -> dict[str, Any]:
        """For what is no statement."""
        reply = _parsed(self.ask(json.dumps(head).encode(), wait))
        if not isinstance(reply, dict):
            raise ValueError("no reply")
        return reply

    def statement(self, body: bytes, wait: float) -> Answer:
        first = self.ask(body, wait)
        try:
            return _whole(first) if first[:1] == b"[" else self._streamed(first)
        except _MALFORMED as error:
            raise ValueError(f"an answer that is none: {error!r}") from None

    # -- inside -----------------------------------------------------------------------------------------------------

    def _streamed(self, frame: bytes) -> Answer:
        rows: list[tuple[Any, ...]] = []
        size = 0
        while frame[:1] in (SOME, AGAIN):
            size += len(frame)
            if size > _LARGEST:
                raise ValueError("an answer that is too large")
            if frame[:1] == AGAIN:
                rows.clear()
            else:
                rows.extend(_unpacked(frame))
            frame = self._frame()
        return _ended(frame, rows)

    def _frame(self) -> bytes:
        data, self._rest = self._rest, b""
        while len(data) < HEADER.size:
            data += self._receive(_CHUNK)
        end = HEADER.size + HEADER.unpack_from(data)[0]
        if end > _LARGEST:
            raise ValueError("a frame that is too large")
        if len(data) < end:
            data = b"".join(self._more(data, end))
        if len(data) > end:
            self._rest = data[end:]
        return data[HEADER.size : end]

    def _more(self, data: bytes, end: int) -> Iterator[bytes]:
        missing = end - len(data)
        yield data
        while missing > 0:
            piece = self._receive(min(missing, 1 << 20))
            missing -= len(piece)
            yield piece

    def _receive(self, most: int) -> bytes:
        while True:
            self._wait.receiving(self._limit.wait())
            try:
                data = self._sock.recv(most)
            except BlockingIOError:
                continue
            if not data:
                raise EOFError
            return data


def _parsed(text: bytes) -> Any:
    return _decoded(text.decode("utf-8", "surrogateescape"))[0]


def _whole(frame: bytes) -> Answer:
    columns, rows = _parsed(frame)
    return Answer(_table(columns, tuple(map(tuple, rows))))


def _table(columns: Any, rows: tuple[tuple[Any, ...], ...], cut: bool = False) -> Table:
    if not all(isinstance(name, str) for name in columns) or not {*map(len, rows)} <= {len(columns)}:
        raise TypeError("no table")
    return Table(tuple(columns), rows, cut)


def _ended(frame: bytes, rows: list[tuple[Any, ...]]) -> Answer:
    """The last frame; a small table that came again is whole."""
    if frame[:1] == b"[" and not rows:
        return _whole(frame)
    reply = _parsed(frame)
    if "error" in reply:
        return Answer(error=_told(reply, "error", str), timed_out=_told(reply, "late", bool))
    if "columns" in reply:
        return Answer(_table(reply["columns"], tuple(rows), _told(reply, "cut", bool)))
    return Answer(affected=_told(reply, "affected", int))


def _told(reply: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(reply[name], kind):
        raise TypeError(name)
    return reply[name]


def _unpacked(frame: bytes) -> Iterator[tuple[Any, ...]]:
    """The rows of what `sqlite_guest.packed` made."""
    place = frame.index(b"\n") + 1
    columns = []
    for kind, size, nulls in _parsed(frame[1:place]):
        values = _values(kind, frame[place : place + size])
        for null in nulls:
            values.insert(null, None)
        columns.append(values)
        place += size
    return zip(*columns, strict=True)


def _values(kind: str, data: bytes) -> list[Any]:
    if kind == "t":
        return data.decode("utf-8", "surrogateescape").split("\0")
    if kind == "j":
        return [bytes.fromhex(value["b"]) if isinstance(value, dict) else value for value in _parsed(data)]
    if kind not in ("q", "d"):
        raise ValueError(f"values of the kind {kind!r}")
    return array(kind, data).tolist()
