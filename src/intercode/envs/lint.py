"""Shared parts of the lint rules for all languages: quotes and numbers in a query, and cues (words
that ask for something in the gold)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from intercode.types import TaskIssue

_QUOTED = re.compile(r"""(?<![\w'"\\])(["'])(?!\s)([^"'\n]{1,60}?)\1(?![\w'"])""")
_NUMBER = re.compile(r"(?<![\w.,/#:%$-])\d+(?:\.\d+)?(?![\d/:-]|\.\w|,\d|\w*_)")


@dataclass(frozen=True, slots=True)
class Cue:
    """If the query matches `asked`, the gold should match `given`, ignoring case. Otherwise `what`
    names what the gold lacks."""

    asked: str
    given: str
    what: str


def unheeded(cues: Sequence[Cue], query: str, gold: str) -> Iterator[TaskIssue]:
    """Yield an issue for each cue of the query that the gold ignores."""
    for cue in cues:
        match = re.search(cue.asked, query, re.IGNORECASE)
        if match and not re.search(cue.given, gold, re.IGNORECASE):
            yield disagrees(f"query says {match[0]!r}, but the gold has {cue.what}")


def quoted(query: str) -> list[str]:
    return [match[2] for match in _QUOTED.finditer(query)]


def numbers(query: str) -> list[float]:
    return list(map(float, _NUMBER.findall(query)))


def named(number: float, gold: str) -> bool:
    """Return whether the gold contains the number, its neighbour (< 5 is <= 4), or its value in
    another unit of size or time."""
    in_gold = set(map(float, re.findall(r"\d+(?:\.\d+)?", gold)))
    if in_gold & {number, number - 1, number + 1}:
        return True
    units = (60, 1000, 1024, 1440, 1_000_000, 1 << 20, 0.01)
    return any(number * unit in in_gold for unit in units)


def disagrees(why: str) -> TaskIssue:
    return TaskIssue(why, "disagrees")
