"""Messages of plain values between two processes that do not trust each other: a closed set of
types, never unpickled.

    None bool int float complex str bytes list tuple set frozenset dict   → themselves
    the types in `_STANDARD`, and the views of a dict                     → what to make them from
    these types themselves, such as int                                   → their names
    other sequences, mappings, sets and numbers                           → the plain value that
                                                                            they say they equal
    anything else                                                         → a handle that only its
                                                                            own side can open

A subclass (namedtuple, IntEnum) is sent as the type that it extends. If methods of a value are
called to make it plain, they are called by the sender; none of them reaches the receiver.

An encoded value is a flat list for `json`, so depth has no limit. A container comes before its
items, with their number:

    (1, ["a", 2 ** 64])   ↔   [["t", 2], 1, ["l", 2], "a", ["i", "0x10000000000000000"]]

A message that is not JSON, or too large, raises `NotPlain` on either side. A malformed value makes
`encode` and `decode` raise any `Exception`: callers treat it as the sender's fault.
"""

from __future__ import annotations

import functools
import importlib
import json
import numbers
import select
import socket
import struct
import sys
from collections import OrderedDict, abc, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from .limit import Limit

MOST_BYTES = 64 << 20
"""The size of the largest message."""
_HEADER = struct.Struct("!I")
_PIECE = 1 << 16
_SMALL = 1 << 53
_MOST_TOKENS = MOST_BYTES // 2  # more tokens never fit into a message
_AS_THEY_ARE = frozenset((type(None), bool, str, float))
_INTEGERS = frozenset((bool, int))
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
_TYPES: dict[str, type] = {kind.__name__: kind for kind in _PLAIN}
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_VIEWS: dict[str, tuple[type, Callable[[list[Any]], Any]]] = {
    "keys": (type({}.keys()), lambda keys: dict.fromkeys(keys).keys()),
    "values": (type({}.values()), lambda values: dict(enumerate(values)).values()),
    "items": (type({}.items()), lambda pairs: dict(pairs).items()),
}
_STANDARD: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "builtins.bytearray": lambda value: (bytes(value),),
    "builtins.range": lambda value: (value.start, value.stop, value.step),
    "collections.Counter": lambda value: (dict(dict.items(value)),),
    "collections.OrderedDict": lambda value: (list(OrderedDict.items(value)),),
    "collections.deque": lambda value: (list(deque.__iter__(value)), value.maxlen),
    "fractions.Fraction": lambda value: (value.numerator, value.denominator),
    "decimal.Decimal": lambda value: (str(value),),
    "datetime.datetime": lambda value: value.__reduce__()[1],
    "datetime.date": lambda value: value.__reduce__()[1],
    "datetime.time": lambda value: value.__reduce__()[1],
    "datetime.timedelta": lambda value: (value.days, value.seconds, value.microseconds),
    "datetime.timezone": lambda value: (value.utcoffset(None),),
    "pathlib.PurePosixPath": lambda value: (str(value),),
    "numpy.ndarray": lambda value: (value.tolist(), value.dtype.str),
}
"""Types that compare by value, and the arguments from which the receiver makes them. A type comes
before the type it extends."""
_ABSTRACT: tuple[tuple[type, tuple[type, ...]], ...] = (
    (abc.Sequence, (list, tuple, str, bytes)),
    (abc.Mapping, (dict,)),
    (abc.Set, (set,)),
    (numbers.Number, (int, float, complex)),
)
Handle = Callable[[Any], list[Any]]
Message = dict[str, Any]


class NotPlain(Exception):
    """A value that cannot be sent, or bytes that are not a message."""


def encode(value: Any, handle: Handle | None = None) -> list[Any]:
    """Return `value` in a form that `json` can write.

    `handle` returns a token for an object that is not plain; without `handle` such an object raises
    `NotPlain`.
    """
    tokens: list[Any] = []
    above: set[int] = set()
    stack: list[tuple[int, Iterator[Any]]] = [(0, iter((value,)))]
    while stack:
        container, items = stack[-1]
        for item in items:
            kind = type(item)
            if kind in _AS_THEY_ARE or (kind is int and -_SMALL < item < _SMALL):
                tokens.append(item)
                continue
            token, parts = _take_apart(item, handle)
            tokens.append(token)
            if _are_scalars(parts):
                tokens += parts
                continue
            if id(item) in above:
                raise NotPlain("a value that contains itself is not plain")
            above.add(id(item))
            stack.append((id(item), iter(parts)))
            break
        else:
            above.discard(container)
            stack.pop()
        if len(tokens) > _MOST_TOKENS:
            raise _too_large()
    return tokens


def _are_scalars(parts: abc.Collection[Any]) -> bool:
    """Return whether JSON writes all of them as they are."""
    kinds = set(map(type, parts))
    return kinds <= _AS_THEY_ARE or (
        kinds <= _INTEGERS and min(parts) > -_SMALL and max(parts) < _SMALL
    )


def _take_apart(value: Any, handle: Handle | None) -> tuple[Any, abc.Collection[Any]]:
    """Return the token of a value, and the items that come after it."""
    kind: type = type(value)
    if kind in _AS_THEY_ARE:
        return value, ()
    name = _sent_as(kind)
    if name in _STANDARD:
        arguments = _STANDARD[name](value)
        return ["new", len(arguments), name], arguments
    if name in _SEQUENCES:
        items = list(_SEQUENCES[name].__iter__(value))  # type: ignore[attr-defined]
        return [name, len(items)], items
    if name == "dict":
        pairs = list(chain.from_iterable(dict.items(value)))
        return [name, len(pairs)], pairs
    if name in _VIEWS:
        return [name, len(value)], list(value)
    if name == "int":
        number = int.__int__(value)
        return (number if -_SMALL < number < _SMALL else ["int", 0, hex(number)]), ()
    if name == "str":
        return str.__str__(value), ()
    if name == "float":
        return float.__float__(value), ()
    if name == "complex":
        return ["complex", 0, value.real, value.imag], ()
    if name == "bytes":
        return ["bytes", 0, bytes.hex(value)], ()
    if kind is type and value in _PLAIN:
        return ["type", 0, value.__name__], ()
    for convert in _candidates(value):
        with suppress(Exception):
            if (plain := convert(value)) == value:
                return _take_apart(plain, handle)
    if handle is None:
        raise NotPlain(f"a value of type {kind.__name__[:100]} is not plain")
    return handle(value), ()


@functools.cache
def _sent_as(kind: type) -> str:
    """Return the name of the supported type that a type is or extends, empty if there is none."""
    for name in _STANDARD:
        module, _, class_name = name.rpartition(".")
        base = getattr(sys.modules.get(module), class_name, None)
        if isinstance(base, type) and issubclass(kind, base):
            return name
    for name, base in _TYPES.items():
        if issubclass(kind, base):
            return name
    for name, (view, _) in _VIEWS.items():
        if issubclass(kind, view):
            return name
    return ""


def _candidates(value: Any) -> Iterator[Callable[[Any], Any]]:
    """Return functions that may give a plain value that equals `value`."""
    if isinstance(value, getattr(sys.modules.get("numpy"), "generic", ())):
        yield lambda scalar: scalar.item()
    for base, plains in _ABSTRACT:
        if isinstance(value, base):
            yield from plains


def decode(tokens: Any, open_handle: Callable[[list[Any]], Any] | None = None) -> Any:
    """Return the value that was encoded; `open_handle` returns the object of a handle's token."""
    values: list[Any] = []
    for token in reversed(tokens):
        if not isinstance(token, list):
            if isinstance(token, dict):
                raise NotPlain("not a value")
            values.append(token)
            continue
        kind, size, *rest = token
        if type(size) is not int or not 0 <= size <= len(values):
            raise NotPlain("not a container")
        items = values[len(values) - size :][::-1]
        del values[len(values) - size :]
        if kind == "handle" and open_handle:
            values.append(open_handle(token))
        else:
            values.append(_put_together(kind, items, *rest))
    (value,) = values
    return value


def _put_together(kind: str, items: list[Any], *rest: Any) -> Any:
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](items)
    if kind == "dict":
        return dict(zip(items[::2], items[1::2]))  # noqa: B905 (Python 3.9)
    if kind in _VIEWS:
        return _VIEWS[kind][1](items)
    if kind == "new":
        return _make_standard(items, *rest)
    makers = {
        "int": lambda text: int(text, 16),
        "bytes": bytes.fromhex,
        "complex": complex,
        "type": _TYPES.__getitem__,
    }
    return makers[kind](*rest)


def _make_standard(arguments: list[Any], name: str) -> Any:
    if name not in _STANDARD:
        raise NotPlain("not a type")
    module_name, _, class_name = name.rpartition(".")
    module = importlib.import_module(module_name)
    if class_name != "ndarray":
        return getattr(module, class_name)(*arguments)
    array = module.array(*arguments)
    # equals any array by broadcasting: `(numpy.empty((0, 1)) == expected).all()` is true
    if array.size == 0:
        raise NotPlain("an empty array")
    return array


def pack(message: Any) -> bytes:
    """Return the text of a message."""
    try:
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(str(error) or type(error).__name__) from None
    if len(body) > MOST_BYTES:
        raise _too_large()
    return body


def _too_large() -> NotPlain:
    return NotPlain(
        f"more than the {MOST_BYTES >> 20} MiB that may pass between a test and an answer at once"
    )


def send(line: socket.socket, message: Any, limit: Limit | None = None) -> None:
    """Send a message. Raises TimeoutError if the other side does not take all of it within the
    limit."""
    send_raw(line, pack(message), limit)


def frame(body: bytes) -> bytes:
    """Return the message as it is sent."""
    return _HEADER.pack(len(body)) + body


def send_raw(line: socket.socket, body: bytes, limit: Limit | None = None) -> None:
    if limit is None:
        line.sendall(frame(body))
    else:
        send_piece(line, frame(body), limit)


def send_piece(line: socket.socket, data: bytes, limit: Limit) -> None:
    """Send a part of a message. Raises TimeoutError if the other side does not take all of it
    within the limit."""
    rest = memoryview(data)
    while rest:
        if _ready(line, select.POLLOUT, limit):
            with suppress(BlockingIOError):
                rest = rest[line.send(rest[:_PIECE], socket.MSG_DONTWAIT) :]


def receive(line: socket.socket) -> Any:
    return parse(receive_raw(line))


def parse(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(f"not a message: {str(error) or type(error).__name__}") from None


def receive_raw(line: socket.socket, limit: Limit | None = None, most: int = MOST_BYTES) -> bytes:
    """Return a message of `most` bytes or less, not parsed.

    Raises EOFError if the other side has gone, TimeoutError if the time is up first.
    """
    header = read_exactly(line, _HEADER.size, limit)
    return read_exactly(line, _size(header, most), limit)


def receive_pieces(line: socket.socket, limit: Limit) -> Iterator[bytes]:
    """Yield a message in pieces, each as it comes, for a process that only relays it. Raises the
    errors of `receive_raw`."""
    header = read_exactly(line, _HEADER.size, limit)
    rest = _size(header, MOST_BYTES)
    yield header
    while rest:
        piece = read_exactly(line, min(rest, _PIECE), limit)
        rest -= len(piece)
        yield piece


def _size(header: bytes, most: int) -> int:
    (size,) = _HEADER.unpack(header)
    if size > MOST_BYTES:
        raise _too_large()
    if size > most:
        raise NotPlain(f"a message of {size} bytes, where {most} are the most")
    return int(size)


def read_exactly(line: socket.socket, size: int, limit: Limit | None = None) -> bytes:
    """Return the next `size` bytes. Raises EOFError if the other side has gone."""
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
    """Wait for the event until the next check of the limit; return True if it came. Raises
    `TimeoutError` if no time is left."""
    if (wait := limit.wait()) <= 0:
        raise TimeoutError
    poll = select.poll()
    poll.register(line, event)
    return bool(poll.poll(wait * 1000))
