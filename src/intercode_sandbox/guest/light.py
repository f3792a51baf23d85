"""Light names for what is used here of `typing`, `signal` and `socket`: these modules would take
1 MiB in each sandbox, and the last two make an enum of each number at each call. Type checkers
see the originals; a socket is not a context manager here."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
    import socket as socket
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
else:
    import _signal as signal  # noqa: F401
    import _socket as socket  # noqa: F401

    Any = NoReturn = object

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
