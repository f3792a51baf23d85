"""Class attributes of a subclass in a user's own file, and the fields of a Bash record that change the record's sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from intercode.errors import DataError, UsageError
from intercode.plugins import defining_class
from intercode.tasks import Preprocess, Record

_FIELDS = {"image": "the name of an image, or a path beside the task file", "setup": "a Bash script"}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


_ATTRIBUTES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(
        ("data", "image", "tree", "setup"),
        (lambda value: value is None or isinstance(value, Path) or _is_text(value), "a path"),
    ),
    **dict.fromkeys(("start", "probe"), (lambda value: value is None or _is_text(value), "Bash, as text")),
    **dict.fromkeys(("reward", "preprocess"), (callable, "a method")),
    "sandbox": (_is_text, "'local', 'docker' or 'module:Class'"),
}


def require_attributes(owner: type) -> None:
    """Raise `UsageError` for the first class attribute that has a wrong value."""
    for name, (is_valid, wanted) in _ATTRIBUTES.items():
        if not is_valid(getattr(owner, name)):
            base = defining_class(owner, name)
            raise UsageError(f"{base.__qualname__} says {name} = {vars(base)[name]!r:.60}, but {name} is {wanted}")


def bash_record(preprocess: Preprocess) -> Preprocess:
    """Return `preprocess` followed by a check of the record's `image` and `setup`, which raises `DataError`."""

    def check(record: Record) -> Record:
        record = preprocess(record)
        for name, wanted in _FIELDS.items() if isinstance(record, dict) else ():
            value = record.get(name)
            if value is not None and not _is_text(value):
                raise DataError(f"field {name!r} is {value!r:.60}; write {wanted} as text, or leave it out")
        return record

    return check
