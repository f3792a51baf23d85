"""Light names for what is used here of `typing`, `signal`, `socket` and `json`: these modules would
take almost 2 MiB in each sandbox, and two make an enum of each number at each call. Type checkers
see the originals; a socket is not a context manager here."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import json as json
    import signal as signal
    import socket as socket
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
else:
    import _json
    import _signal as signal  # noqa: F401
    import _socket as socket  # noqa: F401

    Any = NoReturn = object

    class _Parser:
        strict, memo = True, {}
        object_hook = object_pairs_hook = None
        parse_float, parse_int, parse_constant = float, int, float

    _scan = _json.make_scanner(_Parser())
    _encode = _json.make_encoder(
        None, None, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )

    class json:
        """Reads and writes JSON by the C part of `json` alone."""

        @staticmethod
        def dumps(value):
            return "".join(_encode(value, 0))

        @staticmethod
        def loads(text):
            text = text.decode()
            try:
                value, end = _scan(text, 0)
            except StopIteration:  # no value begins here
                end = -1
            if end != len(text):
                raise ValueError("not one JSON value")
            return value

    class _Fields(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            names = body.pop("__annotations__")
            defaults = [body.pop(field) for field in names if field in body]
            base = namedtuple(name, names, defaults=defaults)
            return type(name, (base,), {"__slots__": (), **body})

    class NamedTuple(metaclass=_Fields):
        """Makes of each subclass a tuple with the fields that it annotates."""


Message = dict[str, Any]
"""A JSON object."""
