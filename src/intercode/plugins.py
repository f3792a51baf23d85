"""Import and call the user's own code, and decide whose fault an exception is.

the traceback has a file of the user's, or of a module that the user named
    → the error is the user's, and names the place
the traceback has only files of this package and its libraries
    → an `InternalError`; the traceback is logged
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import site
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

import intercode_sandbox
from intercode.errors import IntercodeError, InternalError, UsageError

Kind = TypeVar("Kind")
_HERE, _SANDBOX, _LIBRARY = (
    os.path.join(os.path.dirname(file), "")
    for file in (__file__, intercode_sandbox.__file__, os.__file__)
)
_named: set[str] = set()


def find_own_modules() -> None:
    """Append the working folder to `sys.path`, where a console script does not look; last, so that
    it hides no module."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def load_plugin(name: str, what: str) -> Any:
    """Return the object that `module:attribute` or `path.py:attribute` names. A `UsageError` calls
    it `what`.

    The module's package then counts as the user's code, wherever it is.
    """
    module, _, attribute = name.partition(":")
    try:
        loaded = _import_file(module) if module.endswith(".py") else importlib.import_module(module)
        package = getattr(sys.modules.get(module.partition(".")[0]), "__path__", ())
        _named.update(os.path.join(folder, "") for folder in package)
        _named.add(loaded.__file__ or "")
        return getattr(loaded, attribute)
    # a module of the user's own may raise anything
    except (Exception, SystemExit, GeneratorExit) as error:
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            why += "; PYTHONPATH names further folders to look in"
        raise UsageError(f"{what} {name!r} cannot be loaded: {why}") from error


def _import_file(path: str) -> ModuleType:
    """Import a file under its path as the module's name, so that it hides no other module. It can
    import its neighbours."""
    if path in sys.modules:
        return sys.modules[path]
    file = os.path.abspath(path)
    if (folder := os.path.dirname(file)) not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(path, file)
    assert spec
    assert spec.loader
    sys.modules[path] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path]
        raise
    return module


def defining_class(owner: type, name: str) -> type:
    """Return the class, `owner` or one of its bases, that sets the class attribute `name`."""
    return next(cls for cls in owner.__mro__ if name in vars(cls))


def attribute_path(owner: type, name: str) -> str | None:
    """Return the class attribute `name` as a path below the folder of the class's file, if that
    exists; else unchanged.

    Images and data sets may have names that are not paths. Raises `UsageError` for a path that must
    exist and does not.
    """
    setter = defining_class(owner, name)
    if vars(setter)[name] is None:
        return None
    value = str(vars(setter)[name])
    try:
        path = os.path.join(os.path.dirname(os.path.realpath(inspect.getfile(setter))), value)
    except (TypeError, OSError):  # a class that was typed in, not read from a file
        return value
    if os.path.exists(path):
        return path
    if name in ("tree", "setup", "prompts") or (name == "data" and os.path.splitext(path)[1]):
        raise UsageError(f"{setter.__qualname__} says {name} = {value!r}, but there is no {path}")
    return value


def call_plugin(method: Callable[..., object], kind: type[Kind], *args: Any, **named: Any) -> Kind:
    """Call a method of a user's object, whose class need not be derived from ours.

    Raises `UsageError` if it takes other parameters, or returns anything but a `kind`.
    """
    try:
        value = method(*args, **named)
    except TypeError as error:
        if len(_frames(error)) > 1:
            raise
        raise UsageError(
            f"{error}; give {_name_of(method)} the parameters that it has in its base class"
        ) from error
    if isinstance(value, kind):
        return value
    raise wrong_result(method, value, f" instead of {kind.__name__}")


def wrong_result(method: Callable[..., object], value: object, wrong: str) -> UsageError:
    """Return the error for a method of the user's that returned `value`; `wrong` ends the
    message."""
    return UsageError(f"{_name_of(method)} returned {safe_repr(value):.100}{wrong}")


def _name_of(method: object) -> str:
    return getattr(method, "__qualname__", "it")


def check_overrides(owner: type, base: type, kinds: Mapping[str, type]) -> None:
    """Check the methods that the caller's class `owner` overrides, when the class is made.

    Raises `UsageError` if one does not take the parameters that it has in `base`. A method that
    returns a type other than the one in `kinds` raises it when called.
    """
    for name, kind in kinds.items():
        method = vars(owner).get(name)
        if not inspect.isfunction(plain := getattr(method, "__func__", method)):
            continue
        parameters = inspect.signature(getattr(base, name)).parameters
        accepted = inspect.signature(plain)
        try:
            accepted.bind(*(None for _ in parameters), *([None] if plain is not method else ()))
        except TypeError as error:
            raise UsageError(
                f"{plain.__qualname__}{accepted}: {error}; "
                f"give {plain.__qualname__} the parameters that it has in its base class"
            ) from error
        checked = _checked(plain, kind)
        setattr(owner, name, checked if plain is method else classmethod(checked))


def _checked(method: Callable[..., object], kind: type) -> Callable[..., object]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> object:
        value = method(*arguments, **named)
        if isinstance(value, kind):
            return value
        raise wrong_result(method, value, f" instead of {kind.__name__}")

    return call


def safe_repr(value: object) -> str:
    """Return `repr(value)`, also if the user's `__repr__` raises."""
    return _guarded(repr, value)


def _guarded(form: Callable[[object], str], value: object) -> str:
    try:
        return form(value)
    except Exception as error:
        return f"({type(value).__name__}, whose text raises {type(error).__name__})"


def fault_of(error: Exception) -> IntercodeError:
    """Return `error` if it is an `IntercodeError`, else an `InternalError`. Raises errors of the
    user's code again."""
    if isinstance(error, IntercodeError):
        return error
    if is_user_code(error):
        raise error
    import logging  # only here, since importing it costs each command time

    logging.getLogger("intercode").error("a bug in intercode", exc_info=error)
    where = ""
    for file, line in _frames(error):
        if file.startswith((_HERE, _SANDBOX)) and file != __file__:
            where = f" ({file.removeprefix(_HERE).removeprefix(_SANDBOX)}, line {line})"
    return InternalError(
        f"{_text(error)}{where}; this is a bug in intercode: report it with its traceback"
    )


def describe_error(error: BaseException) -> str:
    """Return what the user's code raised, and where: `KeyError: 'cmd' (shed.py, line 14)`.

    The place is the innermost one in the user's files, else in a library; a place in this package
    is left out.
    """
    frames = _frames(error)
    file, line = next((frame for frame in reversed(frames) if is_user_file(frame[0])), frames[-1])
    where = "" if file.startswith(_HERE) else f" ({os.path.basename(file)}, line {line})"
    return _text(error) + where


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {_guarded(str, error)}"


def is_user_code(error: BaseException) -> bool:
    """Return whether the error passed through one of the user's files."""
    return any(is_user_file(file) for file, _ in _frames(error))


def _frames(error: BaseException) -> list[tuple[str, int]]:
    """Return the files and lines of an error's traceback, the outermost first."""
    from traceback import walk_tb  # only here, since importing it costs each command time

    return [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]


def is_user_file(file: str) -> bool:
    """Return whether a file is the user's: outside this package, the standard library, the
    interpreter's folders of packages, and the files of distributions that are installed elsewhere,
    as by `pip install --target`."""
    if file.startswith(tuple(_named - {""})):
        return not file.startswith((_HERE, _SANDBOX))
    if file.startswith(("<", _HERE, _SANDBOX, _LIBRARY, *_package_folders())):
        return False
    for entry in map(os.path.abspath, sys.path):
        folder = os.path.join(entry, "")
        if file.startswith(folder):
            name = file.removeprefix(folder).partition(os.sep)[0]
            if name in _installed_names(entry):
                return False
    return True


@functools.cache
def _package_folders() -> list[str]:
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return [os.path.join(folder, "") for folder in folders]


@functools.cache
def _installed_names(folder: str) -> set[str]:
    """Return the names of the packages and modules that distributions have put into a folder. One
    that is being developed there has no RECORD."""
    import csv  # only here, since importing them costs each command time
    from importlib.metadata import distributions

    names = set[str]()
    for distribution in distributions(path=[folder]):
        for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
            names.update(entry.partition("/")[0] for entry in row[:1])
    return names
