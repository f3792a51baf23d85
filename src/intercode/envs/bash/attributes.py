"""What a subclass in a file of the user's own says about itself, and which fields of a Bash record are ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from intercode.errors import DataError, UsageError
from intercode.sandbox.build import Backend
from intercode.tasks import Preprocess, Record

_FIELDS = {"image": "the name of an image, or a path beside the task file", "setup": "a Bash script"}


def require_attributes(owner: type) -> None:
    """Raises `UsageError` naming the first class attribute that is not what it has to be."""
    for name, (fits, wanted) in _ATTRIBUTES.items():
        if not fits(getattr(owner, name)):
            said = _who_says(owner, name)
            raise UsageError(f"{said.__qualname__} says {name} = {vars(said)[name]!r:.60}, but {name} is {wanted}")


def _who_says(owner: type, name: str) -> type:
    return next(each for each in owner.__mro__ if name in vars(each))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


_ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(
        ("data", "image", "tree", "setup"), (lambda it: it is None or isinstance(it, Path) or _is_text(it), "a path")
    ),
    **dict.fromkeys(("start", "probe"), (lambda it: it is None or _is_text(it), "Bash, as text")),
    **dict.fromkeys(("reward", "preprocess"), (callable, "a method")),
    "sandbox": (get_args(Backend).__contains__, " or ".join(map(repr, get_args(Backend)))),
}


def own_path(owner: type, name: str) -> str | None:
    """The class attribute `name`, from the folder of the file that says it if something of that name is there.

    Images and data sets may have names that are no paths. Raises `UsageError` for a path that leads nowhere.
    """
    said = _who_says(owner, name)
    if vars(said)[name] is None:
        return None
    value = str(vars(said)[name])
    try:
        path = Path(inspect.getfile(said)).resolve().parent / value
    except (TypeError, OSError):  # a class that was typed in, not read from a file
        return value
    if not path.exists() and (name in ("tree", "setup") or (name == "data" and path.suffix)):
        raise UsageError(f"{said.__qualname__} says {name} = {value!r}, but there is no {path}")
    return str(path) if path.exists() else value


def bash_record(preprocess: Preprocess) -> Preprocess:
    """`preprocess`, and then a look at the fields with which a record furnishes its own world. Raises `DataError`."""

    def looked_at(record: Record) -> Record:
        record = preprocess(record)
        for name, wanted in _FIELDS.items() if isinstance(record, dict) else ():
            value = record.get(name)
            if value is not None and not _is_text(value):
                raise DataError(f"field {name!r} is {value!r:.60}; write {wanted} as text, or leave it out")
        return record

    return looked_at
