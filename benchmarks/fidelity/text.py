"""When a recorded text and ours say the same: reordered, with other dates or numbers, in other words, or cut.

Each of these is a cause by its own name only together with a reward: putting the recorded text in place of ours must
give the recorded reward. That is tried in `causes.py`; nothing here executes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_DATE = re.compile(
    rf"{_DAY} +{_MONTH} +\d+ [\d:]+(?: [A-Z]+)? \d+|{_MONTH} +\d+ +(?:[\d:]{{4,8}}|\d{{4}})(?:\.\d+)?(?: \d{{4}})?"
    r"|\d{4}-\d\d-\d\d(?:[ T+][\d:.]+)?(?: [+-]\d{4})?|\b\d\d?:\d\d(?::\d\d)?(?:\.\d+)?\b|" + _DAY
)
_NUMBER = re.compile(r"\b[0-9a-f]{32,}\b|\d+(?:[.,]\d+)*[KMGT]?")
_OWNER = re.compile(r"\b(?:nobody|nogroup|root)\b")
_SPACES = re.compile(r"[ \t]+")
_BASH_ERROR = re.compile(r"^[^\n]*(?:unexpected EOF|syntax error)[^\n]*$", re.MULTILINE)
_NETWORK = re.compile(
    r"communications error|no servers could be reached|could not resolve|couldn't resolve|name resolution"
    r"|network is unreachable|failed: unknown host|connection refused|connection timed out|not known"
    r"|socket: operation not permitted",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(r"^(?:[^\n]*: )?([\w.+-]+): (?:command not found|No such file or directory)$", re.MULTILINE)


def kinship(then: str, now: str) -> str | None:
    """The name of what makes two texts differ, the smallest first; None if more than these, or nothing, does."""
    if then == now:
        return None
    for cause, normal in _NORMAL.items():
        if normal(then) == normal(now):
            return cause
    return None


def no_network(text: str) -> bool:
    """Whether a program says that it could reach no name server or host."""
    return bool(_NETWORK.search(text))


def not_found(text: str) -> set[str]:
    """The programs that a shell, or a program that was to run them, did not find."""
    return set(_NOT_FOUND.findall(text))


def recut(ours: str, recorded: str) -> str | None:
    """Our text with the values of the recorded end of it, if the recorded text is such an end but for dates and numbers."""
    for start in range(len(ours)):
        if plain(ours[start:]) == plain(recorded):
            return ours[:start] + recorded
    return None


def reordered(ours: str, shown: str) -> str:
    """Our lines, those that `shown` has too in its order."""
    place = {line: number for number, line in enumerate(shown.splitlines())}
    lines = ours.splitlines(keepends=True)
    common = [line for line in lines if line.rstrip("\n") in place]
    ordered = iter(sorted(common, key=lambda line: place[line.rstrip("\n")]))
    return "".join(next(ordered) if line.rstrip("\n") in place else line for line in lines)


def plain(text: str) -> str:
    """Dates and numbers as one letter each, and one blank for any."""
    return _SPACES.sub(" ", _OWNER.sub("o", _NUMBER.sub("0", _DATE.sub("d", text))))


def _lines(text: str) -> str:
    return "\n".join(sorted(text.splitlines()))


def _undated(text: str) -> str:
    return _SPACES.sub(" ", _DATE.sub("d", text))


def _unworded(text: str) -> str:
    return _BASH_ERROR.sub("e", text)


_NORMAL: dict[str, Callable[[str], str]] = {
    "order": _lines,
    "clock": _undated,
    "bash 5.2": lambda text: "\n".join(dict.fromkeys(_unworded(text).splitlines())),
    "userland": plain,
    "order, userland": lambda text: _lines(plain(text)),
}
"""How each cause is taken out of a text."""
