"""The error tree. The class says whose fault it was; the message says what to do next.

    IntercodeError
    ├── UsageError          the caller: a wrong option, a closed environment, a fork of a live process
    ├── DataError           the task's data: a malformed record, a gold that cannot run, a download that fails its hash
    ├── SandboxError        the machine: the wall cannot be built, or broke without the agent's doing
    │   ├── SandboxUnavailable   no sandbox can start here; the message has the line that mends it
    │   ├── SandboxDied          it died while in use; the runner decides who did it by re-executing
    │   └── ForkError            a live copy is impossible; names the jobs and descriptors in the way
    ├── ModelError          the model's server: unreachable, overloaded, answering nonsense
    │   └── ContextOverflow      the conversation does not fit into the model's context
    └── StoreError          the run folder: in use, not empty, not writable

None of these is ever turned into a reward. The command line maps UsageError to exit status 2 and the rest to 3.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

Kind = TypeVar("Kind")
_HERE, _LIBRARY = (os.path.join(os.path.dirname(file), "") for file in (__file__, os.__file__))
_INSTALLED = {"site-packages", "dist-packages"}
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, *DISK_FULL}


class IntercodeError(Exception):
    """Root of all errors raised on purpose. `fault` names the side that has to mend it."""

    fault = "intercode"


class UsageError(IntercodeError):
    fault = "caller"


class DataError(IntercodeError):
    fault = "data"


class SandboxError(IntercodeError):
    fault = "sandbox"


class SandboxUnavailable(SandboxError):
    pass


class SandboxDied(SandboxError):
    """`by_agent`: the sandbox itself saw that only the agent can have done it."""

    def __init__(self, message: str, *, by_agent: bool = False) -> None:
        super().__init__(message)
        self.by_agent = by_agent


class ForkError(SandboxError):
    fault = "caller"


class ModelError(IntercodeError):
    fault = "model"


class ContextOverflow(ModelError):
    pass


class StoreError(IntercodeError):
    fault = "store"


def described(error: BaseException) -> str:
    """What code of the caller's raised, and where: `KeyError: 'cmd' (shed.py, line 14)`; no place in this package.

    The place is the innermost in the caller's own files, or in a library where there is none.
    """
    places = _places(error.__traceback__)
    file, line = next(filter(_is_own, reversed(places)), places[-1])
    where = "" if file.startswith(_HERE) else f" ({os.path.basename(file)}, line {line})"
    return f"{type(error).__name__}: {shown(str, error)}{where}"


def is_theirs(error: BaseException) -> bool:
    """Whether it passed through code of the caller's: a file that is neither this package's nor a library's."""
    return any(map(_is_own, _places(error.__traceback__)))


def _places(trace: TracebackType | None) -> list[tuple[str, int]]:
    """Files and lines, the outermost first."""
    found = []
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _is_own(place: tuple[str, int]) -> bool:
    """Of installed libraries it is the folder that tells; a name in `<>` is of no file."""
    file = place[0]
    return not file.startswith(("<", _HERE, _LIBRARY)) and _INSTALLED.isdisjoint(file.split(os.sep))


def asked(method: Callable[..., object], kind: type[Kind], *words: Any, **named: Any) -> Kind:
    """What a method of anybody's class gives; raises `UsageError` if it cannot be called so, or gives no `kind`."""
    name = getattr(method, "__qualname__", "it")
    try:
        found = method(*words, **named)
    except TypeError as error:
        if len(_places(error.__traceback__)) > 1:
            raise
        raise UsageError(f"{error}; give {name} the parameters that it has in InterCodeEnv") from error
    if isinstance(found, kind):
        return found
    raise UsageError(f"{name} returned {shown(repr, found):.100}, which is no {kind.__name__}")


def shown(form: Callable[[object], str], value: object) -> str:
    """What `form`, which may call a method of anybody's, makes of it."""
    try:
        return form(value)
    except Exception as error:
        return f"({type(value).__name__}, which raises {type(error).__name__} when it is shown)"


@contextlib.contextmanager
def room_left() -> Iterator[None]:
    """If the machine runs out of descriptors, processes, memory or disk in the block, that is its fault."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        advice = "see `ulimit -a` and `df`, or take fewer --workers"
        raise SandboxUnavailable(f"this machine has no room for a sandbox: {error.strerror}; {advice}") from error
