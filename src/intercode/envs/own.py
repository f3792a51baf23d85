"""What a subclass in a file of the user's own says about itself, and which fields of a Bash record are ours."""

from __future__ import annotations

import inspect
from pathlib import Path

from intercode.errors import DataError, UsageError
from intercode.tasks import Preprocess, Record

_FIELDS = {"image": "the name of an image, or a path beside the task file", "setup": "a Bash script"}


def own_path(owner: type, name: str) -> str | None:
    """The class attribute `name`, from the folder of the file that says it if something of that name is there.

    Images and data sets may have names that are no paths. Raises `UsageError` for a path that leads nowhere.
    """
    said = next(each for each in owner.__mro__ if name in vars(each))
    value: str | None = vars(said)[name]
    if value is None:
        return None
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
            if value is not None and not (isinstance(value, str) and value.strip() and "\0" not in value):
                raise DataError(f"field {name!r} is {value!r:.60}; write {wanted} as text, or leave it out")
        return record

    return looked_at
