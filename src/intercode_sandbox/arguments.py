"""Checks of a caller's arguments before anything is sent: a wrong one is a `UsageError`, and the
sandbox lives on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import PurePath
from typing import Any

from intercode_sandbox.errors import UsageError

Word = str | PurePath
Content = str | bytes | bytearray | memoryview


def text(name: str, value: Any) -> str:
    """Return a text or a path as text. Half of a surrogate pair is refused, unless it stands for a
    byte, as in `os.fsdecode`."""
    if isinstance(value, PurePath):
        value = str(value)
    if not isinstance(value, str) or b"\0" in content(name, value):
        raise UsageError(f"{name} must be a text or path without NUL, not {value!r:.60}")
    return value


def words(name: str, value: Any) -> list[str]:
    """Return a list of texts or paths as texts."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise UsageError(f"{name} must be a list of words, not {value!r:.60}")
    return [text(f"a word of {name}", word) for word in value]


def variables(value: Any) -> dict[str, str]:
    """Return names and values as texts; None means no variables."""
    if not isinstance(value, Mapping | None):
        raise UsageError(f"variables must map names to texts, not be {value!r:.60}")
    return {
        text("a variable", name): text(f"${name}", word) for name, word in (value or {}).items()
    }


def content(name: str, value: Any) -> bytes:
    """Return bytes, or a text as UTF-8."""
    try:
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        return memoryview(value).tobytes()
    except UnicodeEncodeError:
        raise UsageError(f"{name} contains half of a surrogate pair: {value!r:.60}") from None
    except TypeError:
        raise UsageError(f"{name} must be bytes or a text, not {value!r:.60}") from None


def number(name: str, value: Any, default: Any = None) -> float:
    """Return a number, by default `default`, or the nearest one from 0 to 2³⁰, more seconds or
    bytes than matter."""
    if value is None:
        value = default
    if not isinstance(value, Real) or value != value:
        raise UsageError(f"{name} must be a number, not {value!r:.60}")
    nearest: Any = min(max(value, 0), 1 << 30)
    return float(nearest)
