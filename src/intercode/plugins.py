"""Calls of code that is not ours, and whose an exception is: the caller's, or this package's.

passed through a file of the caller's, or of a module that was named    → told in a sentence, with the place there
in this package and its libraries alone                                 → an `InternalError`; the traceback is logged
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from intercode.errors import IntercodeError, InternalError, UsageError

Kind = TypeVar("Kind")
_HERE, _LIBRARY = (os.path.join(os.path.dirname(file), "") for file in (__file__, os.__file__))
_INSTALLED = {"site-packages", "dist-packages"}
_named: set[str] = set()


def import_plugin(module: str) -> ModuleType:
    """A module, or a file PATH.py, that the caller named: it is the caller's wherever it is, with the package that it is in."""
    found = _of_file(module) if module.endswith(".py") else importlib.import_module(module)
    package = getattr(sys.modules.get(module.partition(".")[0]), "__path__", ())
    _named.update(os.path.join(folder, "") for folder in package)
    _named.add(found.__file__ or "")
    return found


def _of_file(path: str) -> ModuleType:
    """The module in a file, imported under its path as it is written, so that it hides no other; what is beside it is found."""
    if path in sys.modules:
        return sys.modules[path]
    file = os.path.abspath(path)
    if (folder := os.path.dirname(file)) not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(path, file)
    assert spec
    assert spec.loader
    sys.modules[path] = found = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except BaseException:
        del sys.modules[path]
        raise
    return found


def fault_of(error: Exception) -> IntercodeError:
    """The fault that stands for it: itself, or an `InternalError`. What is the caller's is raised again."""
    if isinstance(error, IntercodeError):
        return error
    if is_user_code(error):
        raise error
    import logging  # costs each command a moment, and few need it

    logging.getLogger("intercode").error("a fault of intercode's own", exc_info=error)
    ours = [place for place in _places(error.__traceback__) if place[0].startswith(_HERE) and place[0] != __file__]
    where = f" ({ours[-1][0].removeprefix(_HERE)}, line {ours[-1][1]})" if ours else ""
    return InternalError(f"{_text(error)}{where}; this is a fault of intercode's own: report it with its traceback")


def describe_error(error: BaseException) -> str:
    """What code of the caller's raised, and where: `KeyError: 'cmd' (shed.py, line 14)`; no place in this package.

    The place is the innermost in the caller's own files, or in a library where there is none.
    """
    places = _places(error.__traceback__)
    file, line = next((place for place in reversed(places) if is_user_file(place[0])), places[-1])
    where = "" if file.startswith(_HERE) else f" ({os.path.basename(file)}, line {line})"
    return _text(error) + where


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {safe_repr(str, error)}"


def is_user_code(error: BaseException) -> bool:
    """Whether it passed through code of the caller's: a file that is neither this package's nor a library's."""
    return any(is_user_file(file) for file, _ in _places(error.__traceback__))


def _places(trace: TracebackType | None) -> list[tuple[str, int]]:
    """Files and lines, the outermost first."""
    found = []
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found


def is_user_file(file: str) -> bool:
    """Whether it is the caller's. Of installed libraries it is the folder that tells; a name in `<>` is of no file."""
    if file.startswith(tuple(_named - {""})):
        return not file.startswith(_HERE)
    return not file.startswith(("<", _HERE, _LIBRARY)) and _INSTALLED.isdisjoint(file.split(os.sep))


def call_plugin(method: Callable[..., object], kind: type[Kind], *words: Any, **named: Any) -> Kind:
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
    raise UsageError(f"{name} returned {safe_repr(found):.100}, which is no {kind.__name__}")


def safe_repr(form: Callable[[object], str], value: object) -> str:
    """What `form`, which may call a method of anybody's, makes of it."""
    try:
        return form(value)
    except Exception as error:
        return f"({type(value).__name__}, which raises {type(error).__name__} when it is shown)"
