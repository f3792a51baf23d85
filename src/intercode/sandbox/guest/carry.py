"""What a copy of an interpreter takes along: everything in the namespace that survives a round trip.

    values            as pickle has them, shared references and cycles included
    modules           by import
    functions         code, defaults, closure and attributes
    classes           bases and attributes; enumerations and dataclasses among them
    beside these      the actions' texts, os.environ, sys.path, the state of `random`

Left out are changes to other modules and what `lru_cache` remembers. Both ends are the agent's own interpreters: the host
passes the bytes on and opens none. What cannot be copied is named: generators, open files, locks, threads.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import importlib
import io
import json
import marshal
import os
import pickle
import random
import sys
import types
from typing import Any

REFUSED = b"!"
"""The first byte of a refusal; a list of reasons in JSON follows."""
_OWN = frozenset(("__builtins__", "__name__", "__doc__", "__package__", "__loader__", "__spec__"))
_NOT_SET = frozenset(("__dict__", "__weakref__", "_abc_impl", "__slots__", "__class__"))
_NAMED = ("MISSING", "KW_ONLY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR")
_SINGLES = {id(getattr(dataclasses, name)): name for name in _NAMED if hasattr(dataclasses, name)}
_ABOUT = ("__defaults__", "__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__")
_TOLD = ("__annotations__", "__doc__")
_CACHED = type(functools.lru_cache(print))
_REASON = 120


def pack(interpreter: Any) -> bytes:
    """The state, or `REFUSED` with what stands in the way."""
    space = {name: value for name, value in interpreter.space.items() if name not in _OWN}
    running = threads() - 1
    reasons = [f"{running} running thread{'s' if running > 1 else ''}"] if running else []
    try:
        kept = (interpreter.defined, interpreter.flags)
        beside = (kept, list(sys.path), dict(os.environ), random.getstate(), interpreter.sources)
        packed = _dump((space, beside), interpreter.space)
    except Exception:
        packed, reasons = b"", reasons + _reasons(space, interpreter.space)
    return REFUSED + json.dumps(reasons).encode() if reasons else packed


def unpack(interpreter: Any, state: bytes) -> None:
    space, beside = _Unpickler(io.BytesIO(state)).load()
    (interpreter.defined, interpreter.flags), sys.path[:], environment, drawn, sources = beside
    os.environ.clear()
    os.environ.update(environment)
    random.setstate(drawn)
    for source in sources:
        interpreter.remember(source)
    interpreter.space.update(space)


def threads() -> int:
    """How many this process has."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _reasons(space: dict[str, Any], globals_: dict[str, Any]) -> list[str]:
    found = []
    for name, value in space.items():
        try:
            _dump(value, globals_)
        except Exception as error:
            found.append(f"variable {name} ({type(value).__name__}: {str(error)[:_REASON]})")
    return found or ["the namespace as a whole"]


def _dump(value: Any, globals_: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    _Pickler(out, globals_).dump(value)
    return out.getvalue()


class _Pickler(pickle.Pickler):
    """Takes by value what pickle would look up in `__main__`, where the copy has nothing yet."""

    def __init__(self, out: io.BytesIO, globals_: dict[str, Any]) -> None:
        super().__init__(out, protocol=4)
        self._globals = globals_

    def persistent_id(self, value: Any) -> Any:
        """This module is not among those that an interpreter can import: its functions go by name."""
        return value.__name__ if type(value) is types.FunctionType and _OURS.get(value.__name__) is value else None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is types.FunctionType and not _importable(value):
            return _reduce_function(value, "__main__" if value.__globals__ is self._globals else _home(value))
        if isinstance(value, type) and value.__module__ == "__main__":
            return _reduce_class(value)
        reduce = _REDUCTIONS.get(kind)
        if reduce is not None:
            return reduce(value)
        if name := _SINGLES.get(id(value)):
            return getattr, (dataclasses, name)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Any:
        return _OURS[name]


# -- functions ------------------------------------------------------------------------------------------------------------


def _importable(value: Any) -> bool:
    """Whether another interpreter finds it by its name: not what an action made, nor what a decorator wrapped around it."""
    found: Any = sys.modules.get(value.__module__)
    if value.__module__ == "__main__" or found is None:
        return False
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _home(value: types.FunctionType) -> str:
    name = str(value.__globals__.get("__name__"))
    if getattr(sys.modules.get(name), "__dict__", None) is not value.__globals__:
        raise pickle.PicklingError("its module cannot be imported")
    return name


def _reduce_function(value: types.FunctionType, home: str) -> Any:
    about = {name: getattr(value, name) for name in _ABOUT}
    made = (home, marshal.dumps(value.__code__), value.__name__, value.__closure__)
    return _function, made, {**about, **value.__dict__}, None, None, _set_all


def _function(home: str, code: bytes, name: str, closure: Any) -> types.FunctionType:
    space = importlib.import_module(home).__dict__
    return types.FunctionType(marshal.loads(code), space, name, None, closure)


def _reduce_cell(cell: Any) -> Any:
    try:
        return _cell, (), (cell.cell_contents,), None, None, _fill
    except ValueError:
        return _cell, ()


def _cell() -> Any:
    return types.CellType()


def _fill(cell: Any, contents: Any) -> None:
    cell.cell_contents = contents[0]


def _set_all(target: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(target, name, value)


# -- classes --------------------------------------------------------------------------------------------------------------


def _reduce_class(value: Any) -> Any:
    if issubclass(value, enum.Enum) and value.__members__:
        return _reduce_enumeration(value)
    if issubclass(value, tuple) and value.__bases__ == (tuple,) and hasattr(value, "_field_defaults"):
        return _reduce_named_tuple(value)
    slots = value.__dict__.get("__slots__")
    named = {"__slots__"} | set([slots] if isinstance(slots, str) else slots or ())
    members = {name: each for name, each in value.__dict__.items() if name not in _NOT_SET and name not in named}
    return _class, (type(value), value.__name__, value.__bases__, slots), members, None, None, _set_class


def _class(meta: Any, name: str, bases: Any, slots: Any) -> Any:
    body: dict[str, Any] = {"__module__": "__main__"}
    if slots is not None:
        body["__slots__"] = slots
    return type.__new__(meta, name, bases, body) if meta is type else meta(name, bases, body)


def _set_class(made: Any, members: dict[str, Any]) -> None:
    for name, value in members.items():
        try:
            type.__setattr__(made, name, value)
        except (AttributeError, TypeError):  # a descriptor that the class has made for itself
            if name not in made.__dict__:
                raise


def _reduce_enumeration(value: Any) -> Any:
    members = [(name, each._value_) for name, each in value.__members__.items()]
    names = set(dir(enum.Enum)) | set(value.__members__) | {"_missing_", "_generate_next_value_"}
    methods = {
        name: each
        for name, each in value.__dict__.items()
        if name not in names and isinstance(each, (types.FunctionType, property, classmethod, staticmethod))
    }
    return _enumeration, (value.__bases__[-1], value.__name__, members), methods, None, None, _set_class


def _enumeration(base: Any, name: str, members: Any) -> Any:
    return base(name, members, module="__main__", qualname=name)


def _reduce_named_tuple(value: Any) -> Any:
    plain = _named_tuple("plain", value._fields, {})
    members = {name: each for name, each in value.__dict__.items() if name not in plain.__dict__ or name in _TOLD}
    return _named_tuple, (value.__name__, value._fields, value._field_defaults), members, None, None, _set_class


def _named_tuple(name: str, fields: Any, defaults: dict[str, Any]) -> Any:
    make: Any = collections.namedtuple
    return make(name, fields, defaults=list(defaults.values()), module="__main__")


# -- others ---------------------------------------------------------------------------------------------------------------


def _reduce_module(module: types.ModuleType) -> Any:
    if sys.modules.get(module.__name__) is not module:
        raise pickle.PicklingError(f"the module {module.__name__} is not one that can be imported")
    return importlib.import_module, (module.__name__,)


def _read_only(content: dict[Any, Any]) -> Any:
    return types.MappingProxyType(content)


def _cached(parameters: dict[str, Any], wrapped: Any) -> Any:
    return functools.lru_cache(**parameters)(wrapped)


_REDUCTIONS: dict[type, Any] = {
    types.ModuleType: _reduce_module,
    types.CellType: _reduce_cell,
    types.MappingProxyType: lambda value: (_read_only, (dict(value),)),
    property: lambda value: (property, (value.fget, value.fset, value.fdel, value.__doc__)),
    staticmethod: lambda value: (staticmethod, (value.__func__,)),
    classmethod: lambda value: (classmethod, (value.__func__,)),
    _CACHED: lambda value: (_cached, (value.cache_parameters(), value.__wrapped__)),
}
_OURS = {name: each for name, each in list(globals().items()) if type(each) is types.FunctionType}
