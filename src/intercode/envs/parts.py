"""Objects in a field of a record, as data classes: `[{"command": "sync", "timeout_sec": 5}]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from intercode.types import is_number

Part = TypeVar("Part")


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def is_amount(value: object) -> bool:
    return is_number(value) and not isinstance(value, bool) and value >= 0


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(is_text, value))


_CHECKS: Mapping[Any, Callable[[object], bool]] = {
    "object": lambda value: True,
    "str": is_text,
    "float": is_amount,
    "Sequence[str]": _are_texts,
}


def parts_of(kind: Callable[..., Part], value: Any) -> list[Part]:
    """Return the objects of a list; a text is the first field of one. Raises `TypeError` or
    `ValueError` if one has another field, lacks one, or has a value of another type."""
    parts = []
    for entry in value:
        part = kind(entry) if isinstance(entry, str) else kind(**entry)
        for field in fields(part):  # type: ignore[arg-type]
            if not _CHECKS[field.type](getattr(part, field.name)):
                raise ValueError
        parts.append(part)
    return parts


def are_parts(kind: Callable[..., object], value: object) -> bool:
    """Return whether `parts_of` can read the value."""
    try:
        return isinstance(value, list) and parts_of(kind, value) is not None
    except (TypeError, ValueError, AttributeError):
        return False
