"""Frames on a stream socket between host and guest: two lengths, a JSON object and raw bytes; file
descriptors may be attached.

    ┌───────────────┬──────────────────┬──────────────┬─────────┐
    │ u32 json size │ u32 payload size │ JSON (UTF-8) │ payload │
    └───────────────┴──────────────────┴──────────────┴─────────┘

The receiver sets the largest payload. Anything else raises `WireError`, and so does an end inside a
frame. A clean end between two frames raises `EOFError`. Two paths in a container, which host and
guest share, are named here as well: they are below /dev, which `diff` and most tasks leave out.
"""

from __future__ import annotations

import errno
import os
import struct

from .light import Message, json, socket

BUNDLE = "/dev/.intercode"
"""The interpreter that runs the guest, and a bash for images that have none."""
LINE = "/dev/.intercode-line"
"""The socket where the host listens for a supervisor."""
POD_FOLDERS = ("dev", "proc", "sys")
"""The folders in / that each pod gets separately, whatever its image contains there."""
HEADER = struct.Struct("!II")
JSON_LIMIT = 64 << 20
FDS = 16
STOP = b"\xff"
"""Sent during an action, it ends the action. No frame begins with this byte."""
PIECE = 1 << 20
"""The most bytes of a file in one frame: an episode server's memory is limited as its agent's
is."""
_READ_SIZE = 1 << 16
_FD = struct.Struct("i")


class WireError(Exception):
    """The other side sent something that is not a frame."""


def send(
    sock: socket.socket, head: Message, payload: bytes = b"", fds: tuple[int, ...] = ()
) -> None:
    """Send a frame. Raises OSError, and then sends nothing, if the object is too long."""
    transmit(sock, frame(head, payload), fds)


def frame(head: Message, payload: bytes = b"") -> bytes:
    """Return a frame. Raises OSError if the object is too long."""
    text = json.dumps(head).encode()
    if len(text) > JSON_LIMIT:
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    return HEADER.pack(len(text), len(payload)) + text + payload


def transmit(sock: socket.socket, data: bytes, fds: tuple[int, ...] = ()) -> None:
    """Send all of a frame."""
    if fds:
        rights = struct.pack(f"{len(fds)}i", *fds)
        sent = sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    else:
        sent = sock.send(data)
    if sent < len(data):
        sock.sendall(memoryview(data)[sent:])


def receive(sock: socket.socket, limit: int, *, stops: bool = False) -> tuple[Message, bytes]:
    """Return the JSON object and the payload, at most `limit` bytes, of a frame; the next frame may
    come only after the answer.

    `stops`: a `STOP` may come before the frame, too late for its action, and right after it: the
    object then has the key `stop`. A `STOP` alone is an empty object.
    """
    data = sock.recv(_READ_SIZE)
    if not data:
        raise EOFError
    if stops and not (data := data.removeprefix(STOP)):
        return {}, b""
    json_size, payload_size = _sizes(_fill(sock, data, HEADER.size), limit)
    start = HEADER.size + json_size
    end = start + payload_size
    data = _fill(sock, data, end)
    if len(data) > end and not (stops and data[end:] == STOP):
        raise WireError("a second frame came before the first was answered")
    head = _parse_head(data[HEADER.size : start])
    if len(data) > end:
        head["stop"] = True
    return head, data[start:end]


def receive_with_fds(sock: socket.socket, limit: int) -> tuple[Message, bytes, list[int]]:
    """Return a frame and the descriptors that came with it; other frames may follow at once.

    Descriptors that come with anything but a frame are closed.
    """
    room = socket.CMSG_LEN(FDS * _FD.size)
    data, parts, flags, _ = sock.recvmsg(HEADER.size, room, socket.MSG_CMSG_CLOEXEC)
    fds = [fd for *_, part in parts for (fd,) in _FD.iter_unpack(part)]
    try:
        if not data:
            raise EOFError
        if flags & socket.MSG_CTRUNC and len(fds) < FDS:  # this process may hold no more of them
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        json_size, payload_size = _sizes(_fill(sock, data, HEADER.size), limit)
        body = _fill(sock, b"", json_size + payload_size)
        return _parse_head(body[:json_size]), body[json_size:], fds
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
    """Return `data` and what follows it, `size` bytes in all; most often it comes in one piece."""
    pieces = [data] if data else []
    missing = size - len(data)
    while missing > 0:
        chunk = sock.recv(min(missing, 1 << 20))
        if not chunk:
            raise WireError("the stream ended inside a frame")
        pieces.append(chunk)
        missing -= len(chunk)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _parse_head(text: bytes) -> Message:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame's head is not JSON: {error}") from None
    if not isinstance(head, dict):
        raise WireError("a frame's head is not an object")
    return head
