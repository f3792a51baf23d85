"""Frames on a stream socket: two lengths, a JSON object, and raw bytes; descriptors may ride along.

    ┌───────────────┬──────────────────┬────────────┬───────────┐
    │ u32 json size │ u32 payload size │ JSON (UTF-8)│ payload  │
    └───────────────┴──────────────────┴────────────┴───────────┘

The receiver names the largest payload that it takes; anything else raises `WireError`, as does an end in mid-frame.
A clean end between two frames raises `EOFError`.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from typing import Any

HEADER = struct.Struct("!II")
JSON_LIMIT = 64 << 20
FDS = 8
_AT_ONCE = 1 << 16
_CUT = int(socket.MSG_CTRUNC)  # as an enum it takes longer than the rest of a frame


class WireError(Exception):
    """The other side sent something that is not a frame."""


def send(sock: socket.socket, head: dict[str, Any], payload: bytes = b"", fds: tuple[int, ...] = ()) -> None:
    text = json.dumps(head).encode()
    data = HEADER.pack(len(text), len(payload)) + text + payload
    sent = socket.send_fds(sock, [data], list(fds)) if fds else sock.send(data)
    if sent < len(data):
        sock.sendall(memoryview(data)[sent:])


def receive(sock: socket.socket, limit: int) -> tuple[dict[str, Any], bytes]:
    """One frame, where none follows before it is answered: its JSON object and its payload of at most `limit` bytes."""
    data = sock.recv(_AT_ONCE)
    if not data:
        raise EOFError
    json_size, payload_size = _sizes(_fill(sock, data, HEADER.size), limit)
    start = HEADER.size + json_size
    data = _fill(sock, data, start + payload_size)
    if len(data) > start + payload_size:
        raise WireError("a second frame came before the first was answered")
    return _object(data[HEADER.size : start]), data[start:]


def receive_with_fds(sock: socket.socket, limit: int) -> tuple[dict[str, Any], bytes, list[int]]:
    """One frame and the descriptors that came with it; others may follow at once. Those of what is no frame are closed."""
    data, fds, flags, _ = socket.recv_fds(sock, HEADER.size, FDS)
    try:
        for fd in fds:
            os.set_inheritable(fd, False)  # recv_fds drops its flags, MSG_CMSG_CLOEXEC among them, before Python 3.12
        if not data:
            raise EOFError
        if flags & _CUT and len(fds) < FDS:  # this process may hold no more of them
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        json_size, payload_size = _sizes(_fill(sock, data, HEADER.size), limit)
        body = _fill(sock, b"", json_size + payload_size)
        return _object(body[:json_size]), body[json_size:], fds
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def _sizes(data: bytes, limit: int) -> tuple[int, int]:
    json_size, payload_size = HEADER.unpack_from(data)
    if json_size > JSON_LIMIT or payload_size > limit:
        raise WireError(f"a frame of {json_size} + {payload_size} bytes is too large")
    return json_size, payload_size


def _fill(sock: socket.socket, data: bytes, size: int) -> bytes:
    """`data` and what follows it, `size` bytes in all; most often it comes in one piece."""
    pieces = [data] if data else []
    missing = size - len(data)
    while missing > 0:
        chunk = sock.recv(min(missing, 1 << 20))
        if not chunk:
            raise WireError("the stream ended inside a frame")
        pieces.append(chunk)
        missing -= len(chunk)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _object(text: bytes) -> dict[str, Any]:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame's head is not JSON: {error}") from None
    if not isinstance(head, dict):
        raise WireError("a frame's head is not an object")
    return head
