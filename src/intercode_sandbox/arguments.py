"""Checks of what callers hand to a sandbox, made before anything is sent: a wrong argument is a
`UsageError`, and the sandbox lives on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import PurePath
from typing import Any

from intercode_sandbox.errors import UsageError

Word = str | PurePath
Content = str | bytes | bytearray | memoryview


def text(name: str, value: Any) -> str:
    """Return a text or a path as text. Half of a surrogate pair stands for a byte, as in
    `os.fsdecode`, or is refused."""
    value = str(value) if isinstance(value, PurePath) else value
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text or a path, not {value!r:.60}")
    if "\0" in value:
        raise UsageError(f"{name} must be without NUL characters, not {value!r:.60}")
    content(name, value)
    return value


def words(name: str, value: Any) -> list[str]:
    """Return a list of texts or paths as texts."""
    if isinstance(value, str | bytes | PurePath) or not isinstance(value, Iterable):
        raise UsageError(f"{name} must be a list of words, not {value!r:.60}")
    return [text(f"a word of {name}", word) for word in value]


def variables(name: str, value: Any) -> dict[str, str]:
    """Return names and values as texts; None means no variables."""
    if not isinstance(value, Mapping | None):
        raise UsageError(f"{name} must map names to texts, not be {value!r:.60}")
    return {
        text(f"a name in {name}", key): text(f"the variable {key}", word)
        for key, word in (value or {}).items()
    }


def content(name: str, value: Any) -> bytes:
    """Return bytes, or a text as UTF-8."""
    try:
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        return value if isinstance(value, bytes) else memoryview(value).tobytes()
    except UnicodeEncodeError:
        raise UsageError(f"{name} has half of a surrogate pair: {value!r:.60}") from None
    except TypeError:
        raise UsageError(f"{name} must be bytes or a text, not {value!r:.60}") from None


def number(name: str, value: Any, *, most: float) -> float:
    """Return a number, or the nearest one from 0 to `most`."""
    is_real = isinstance(value, Real)
    if not is_real or value != value:
        raise UsageError(f"{name} must be a number, not {value!r:.60}")
    return float(min(max(value, 0), most))
