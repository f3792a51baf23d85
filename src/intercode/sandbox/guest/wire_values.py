"""Messages of plain values between two processes that do not trust each other: a closed set of types, never unpickled.

    None bool int float complex str bytes list tuple set frozenset dict   → JSON, containers as [kind, item, …]
    these types themselves, such as int                                   → their names
    anything else                                                         → a handle that only its own side can open

A subclass (Counter, namedtuple, IntEnum) is sent as the plain type that it extends, read by that type's own methods, so no
method of the sender's reaches the receiver. A message that is not JSON, too deep or too large raises `NotPlain` on either
side. A value of a strange form makes `encode` and `decode` raise any `Exception`: for callers, it is the sender's fault.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .limit import Limit

MOST_BYTES = 16 << 20
"""The size of the largest message."""
_HEADER = struct.Struct("!I")
_PIECE = 1 << 16
_SMALL = 1 << 53
_TYPES: dict[str, type] = {
    each.__name__: each for each in (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
}
_SEQUENCES: dict[str, type] = {"l": list, "t": tuple, "s": set, "f": frozenset}


class NotPlain(Exception):
    """A value that cannot be sent, or bytes that are not a message."""


def encode(value: Any, handle: Callable[[Any], int] | None = None) -> Any:
    """Return `value` in a form that `json` can write.

    `handle` returns a number for an object that is not plain; without `handle` such an object raises `NotPlain`.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -_SMALL < number < _SMALL else ["i", hex(number)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, complex):
        return ["c", value.real, value.imag]
    if isinstance(value, bytes):
        return ["b", bytes.hex(value)]
    for name, plain in _SEQUENCES.items():
        if isinstance(value, plain):
            return [name, *(encode(item, handle) for item in plain.__iter__(value))]  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return ["d", *(encode(part, handle) for pair in dict.items(value) for part in pair)]
    if kind is type and value in _TYPES.values():
        return ["y", value.__name__]
    if handle is None:
        raise NotPlain(f"a value of type {kind.__name__} is not plain")
    return ["h", handle(value)]


def decode(value: Any, open_handle: Callable[[int], Any] | None = None) -> Any:
    """Return the value that was encoded; `open_handle` returns the object of a handle."""
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise NotPlain("not a value")
        return value
    kind, *items = value
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](decode(item, open_handle) for item in items)
    if kind == "d":
        parts = [decode(item, open_handle) for item in items]
        return dict(zip(parts[::2], parts[1::2]))  # noqa: B905 (Python 3.9)
    if kind == "h" and open_handle is not None and type(items[0]) is int:
        return open_handle(items[0])
    return {"i": lambda text: int(text, 16), "b": bytes.fromhex, "c": complex, "y": _TYPES.__getitem__}[kind](*items)


def send(line: socket.socket, message: Any, limit: Limit | None = None) -> None:
    """Send a message. Raises TimeoutError if the other side does not take all of it within the limit."""
    try:
        body = json.dumps(message).encode()
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(str(error)) from None
    send_raw(line, body, limit)


def send_raw(line: socket.socket, body: bytes, limit: Limit | None = None) -> None:
    if len(body) > MOST_BYTES:
        raise NotPlain(f"{len(body)} bytes are too many for a message")
    data = _HEADER.pack(len(body)) + body
    if limit is None:
        line.sendall(data)
        return
    rest = memoryview(data)
    while rest:
        if _ready(line, select.POLLOUT, limit):
            with suppress(BlockingIOError):
                rest = rest[line.send(rest[:_PIECE], socket.MSG_DONTWAIT) :]


def receive(line: socket.socket) -> Any:
    return parse(receive_raw(line))


def parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(f"not a message: {error}") from None


def receive_raw(line: socket.socket, limit: Limit | None = None) -> bytes:
    """Return a message, not parsed. Raises EOFError if the other side has gone, TimeoutError if the limit is over first."""
    (size,) = _HEADER.unpack(_exactly(line, _HEADER.size, limit))
    if size > MOST_BYTES:
        raise NotPlain(f"{size} bytes are too many for a message")
    return _exactly(line, size, limit)


def _exactly(line: socket.socket, size: int, limit: Limit | None) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        if limit is not None and not _ready(line, select.POLLIN, limit):
            continue
        piece = line.recv(min(size - len(pieces), 1 << 20))
        if not piece:
            raise EOFError("the other side has gone")
        pieces += piece
    return bytes(pieces)


def _ready(line: socket.socket, event: int, limit: Limit) -> bool:
    """Wait for the event until the next look at the limit; return True if it came. Raises `TimeoutError` if no time is left."""
    if (wait := limit.wait()) <= 0:
        raise TimeoutError
    poll = select.poll()
    poll.register(line, event)
    return bool(poll.poll(wait * 1000))
