"""The HTTP side of a program's connection, by h11: several requests, whose bodies may come in
pieces or compressed.

    program ──► Connection.next() ──► Asked(method, path, headers, body)
            ◄── answer(…), or begin(…), send(…) for each piece, end()

All connections of an episode together hold the bytes of one `Room`.
"""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import responses
from typing import Any

import h11

_PIECE = 1 << 16
_LINGER = 2.0
"""Seconds in which a program may send the rest of a body that was refused."""


class Refused(Exception):
    """A request that is not taken, with the HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Asked:
    """A request. The names of `headers` are in lower case, and `path` has no query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Room:
    """The bytes that all bodies of an episode may have at a time."""

    def __init__(self, size: int) -> None:
        self._size, self._free, self._lock = size, size, threading.Lock()

    def take(self, count: int) -> None:
        """Take bytes. Raises `Refused` if fewer are free."""
        with self._lock:
            if count > self._free:
                size = self._size >> 20
                raise Refused(
                    413, f"the requests of a program together may have {size} MiB at a time"
                )
            self._free -= count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._free += count


class Connection:
    """A connection of a program. That it ends is no error: what is sent then is lost."""

    def __init__(self, connected: socket.socket, room: Room) -> None:
        self._socket, self._room, self._held = connected, room, 0
        self._http = h11.Connection(h11.SERVER)

    def next(self) -> Asked | None:
        """Return the next request, or None at the end. Raises `Refused`; the connection then only
        takes the refusal."""
        self._give_back()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        try:
            head = self._receive()
            if not isinstance(head, h11.Request):
                return None
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            body = bytearray()
            unpack = _unpacker(headers.get("content-encoding", "identity").lower())
            while isinstance(event := self._receive(), h11.Data):
                self._add(body, bytes(event.data), unpack)
        except h11.RemoteProtocolError as error:
            raise Refused(error.error_status_hint, f"no HTTP: {error}") from error
        except zlib.error as error:
            raise Refused(400, f"the body cannot be unpacked: {error}") from error
        path = head.target.decode("latin-1").partition("?")[0].rstrip("/")
        return Asked(head.method.decode(), path, headers, bytes(body))

    def _receive(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self._write(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                self._http.receive_data(self._socket.recv(_PIECE))
            except OSError:
                return None
        return event

    def _add(self, body: bytearray, data: bytes, unpack: Any) -> None:
        while data:
            piece = unpack.decompress(data, _PIECE) if unpack else data
            self._room.take(len(piece))
            self._held += len(piece)
            body += piece
            data = unpack.unconsumed_tail if unpack else b""

    def _give_back(self) -> None:
        self._room.give_back(self._held)
        self._held = 0

    def answer(self, status: int, content: bytes, kind: str = "application/json") -> None:
        """Send a whole answer."""
        self._give_back()
        self.begin(status, {"content-type": kind, "content-length": str(len(content))})
        self.send(content)
        self.end()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        reason = responses.get(status, "")
        self._write(h11.Response(status_code=status, reason=reason, headers=[*headers.items()]))

    def send(self, piece: bytes) -> None:
        self._write(h11.Data(data=piece))

    def end(self) -> None:
        self._write(h11.EndOfMessage())

    def is_open(self) -> bool:
        """Return whether another request may follow."""
        return {self._http.our_state, self._http.their_state} <= {h11.IDLE, h11.DONE}

    def close(self) -> None:
        """Close the connection, after the rest of a body that was not read: until then the system
        would throw away what was sent."""
        self._give_back()
        with suppress(OSError), self._socket:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_LINGER)
            while self._http.their_state is h11.SEND_BODY and self._socket.recv(_PIECE):
                pass

    def _write(self, event: Any) -> None:
        """Send what can be sent: the program may have left, asked for no body, or have the
        beginning of another answer already; the connection then ends."""
        with suppress(OSError, h11.LocalProtocolError):
            if data := self._http.send(event):
                self._socket.sendall(data)


def _unpacker(coding: str) -> Any:
    """Return what unpacks a body, or None. Raises `Refused` for an unknown coding."""
    if coding == "identity":
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    raise Refused(415, f"the body is packed by {coding!r:.50}; gzip and deflate are understood")
