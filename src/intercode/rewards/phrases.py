"""What an answer may say beside what the gold says: a sentence, a title, more columns.

    gold    /depot/a.iso                   42                                   2024-05 3
    ours    -rw-r--r-- … /depot/a.iso      There are 42 files below /depot.     month number
                                                                                2024-05 3
Each line must have the gold's words, and beside them nothing but what is harmless:

    grammar        words of a closed list, that only bind others: no denial, no comparison, no "about"
    the query's    words that it was asked with, but for those that it offers as answers, if the gold's is one of them, and
                   for `not`, `more` and their like; `below` only before what it stands before there
    other facts    a number, a time, a mode or a file's name, where the gold has nothing of that kind

Any other word spoils the line, for it could say anything. A title is one line more at the top, of harmless words.

Left out: additions that are of a kind with the answer (a name beside a name); whether they are true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from intercode.rewards.ordering import named

_ALONE = re.compile(
    r"\b(only|just|alone|exactly|without(?! (needless|leading|trailing))|nothing (but|else|more))\b", re.IGNORECASE
)
FORM = re.compile(r"[`'\"][^`'\"]*[A-Z]{2,}[^\w`'\"/.]+[A-Z]{2,}[^`'\"]*[`'\"]")
"""A form that a query gives, such as `NAME: STATUS`."""
_GRAMMAR = named(
    "a an the and are as at be been belong belongs by called contains do does each for from has have here his her holds i in "
    "is it its me my of on s so that their there these they them this those to was were which who with "
    "altogether answer equals found lies name named number output owner result size stands together total value"
)
_TURNS = named(
    "not no never none neither nor or but except without less more fewer than about around most least "
    "nearly almost only other another wrong false half twice"
)
"""Words that turn or limit what is said."""
_BOUNDS = named("over under above below")
"""Words that limit what they stand before."""
_UNITS = {
    "%": "%|percent|share", "b": "byte", "kb": "kb|kilobyte", "kib": "kib", "mb": "mb|megabyte", "mib": "mib",
    "s": "second", "min": "minute", "h": "hour", "m": "met(re|er)", "km": "km|kilomet", "g": "gram", "kg": "kg|kilogram",
    "c": "degree|celsius", "°c": "degree|celsius", "€": "euro", "euro": "€|eur",
}  # fmt: skip
"""Signs of units, and how a query's word for each begins."""
_CHOICE = named("or and else either whether")
"""Words between those that a query offers."""
_RULE = re.compile(r"[-=_+| ]{3,}")
_ITEM = re.compile(r"(?:[-*•]|(?P<number>\d+)[.)]) (?=\S)")
_MODE = re.compile(r"[-dlbcps][-rwxsStT]{9}[.+@]?")
_LONG_LISTING = re.compile(
    rf"{_MODE.pattern} \d+ \S+ \S+ [\d.,]+[KMGT]? ([A-Z][a-z]{{2}} +\d+ [\d:]+|\d{{4}}-\d\d-\d\d [\d:]+) (?=\S)"
)
_LONG = 60
"""No sentence has as many words more than the gold."""
_NUMBER = re.compile(r"[-+]?[\d.,:]*\d[KMGTP]?%?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d(-\d\d)?(T[\d:+.]+)?|\d\d:\d\d(:[\d.]+)?", re.ASCII)


def without_extras(ours: Sequence[str], theirs: Sequence[str], query: str) -> list[str] | None:
    """Our lines with nothing but what may be the answer; None if the query wants that alone, or they cannot be so read."""
    if _ALONE.search(query) or not any(theirs) or _longest(ours) > _longest(theirs) + _LONG:
        return None
    lines = [line for line in ours if not _RULE.fullmatch(line)]
    more = len(lines) - len(theirs)
    if more not in (0, 1):
        return None
    reader = _Reader.of(theirs, query)
    if more and not reader.is_title(lines[0]):
        return None
    lines = lines[more:]
    if FORM.search(query):
        return lines
    read = [reader.read(line) for line in _items(lines)]
    return None if None in read else [line for line in read if line is not None]


def without_listing(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Our lines without what `ls -l` prints before a name, if the gold does not print it."""
    listed = all(map(_LONG_LISTING.match, ours)) and not any(map(_LONG_LISTING.match, theirs))
    return [_LONG_LISTING.sub("", line) for line in ours] if listed else list(ours)


def is_file(word: str) -> bool:
    """Whether it reads as a path or as a name with an ending; `km/h` and `m2` do not."""
    return bool(re.match(r"\.{0,2}/.|.+\.[A-Za-z]\w*$", word))


def _longest(lines: Sequence[str]) -> int:
    """How many words the longest line has."""
    return max((line.count(" ") for line in lines), default=0)


def _items(lines: Sequence[str]) -> list[str]:
    """Without the marks or numbers of a list before all of them."""
    marks = [_ITEM.match(line) for line in lines]
    numbers = [mark["number"] for mark in marks if mark]
    counted = numbers == [str(place + 1) for place in range(len(lines))] and len(lines) > 1
    return [_ITEM.sub("", line, count=1) for line in lines] if counted or numbers == [None] * len(lines) else list(lines)


@dataclass(frozen=True)
class _Reader:
    """`wanted`: the gold's words; `kinds`: of what kinds they are; `known`: harmless words; `pairs`: of the query's."""

    wanted: frozenset[str]
    kinds: frozenset[str]
    known: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, theirs: Sequence[str], query: str) -> _Reader:
        wanted = frozenset(word for line in theirs for word in line.split())
        asked = [_bare(word) for word in query.split()]
        kinds = {_kind(word) for word in asked if wanted & _endings(word)}
        offered = _offered(query)
        free = [word for word in asked if _kind(word) not in kinds or (_kind(word) == "word" and word not in offered)]
        plain = {_stem(part) for word in free for part in (word, *re.split(r"[/.]", word))}
        units = {sign for sign, start in _UNITS.items() if any(map(re.compile(start).match, plain))}
        known = frozenset((plain | units | _GRAMMAR) - _TURNS - {word.lower() for word in wanted})
        return cls(wanted, frozenset(map(_kind, wanted)), known, frozenset(pairwise(asked)))

    def is_title(self, line: str) -> bool:
        """Nothing that reads as a line of the gold's does, unless it ends with a colon; nor numbers alone."""
        kinds = {_kind(_bare(word)) for word in line.split()}
        unlike = not kinds >= self.kinds and not kinds & self.kinds - {"word"}
        return self.read(line) == "" and "word" in kinds and (line.endswith(":") or unlike)

    def read(self, line: str) -> str | None:
        """The gold's words in a line; None if something else in it is not harmless."""
        words = [word for word in map(self._word, line.split()) if word]
        if not all(word in self.wanted or self._harmless(word, after) for word, after in pairwise([*words, ""])):
            return None
        return " ".join(word for word in words if word in self.wanted)

    def _word(self, raw: str) -> str:
        """Without the marks around it, and a number without the unit that the query names."""
        word = raw if raw in self.wanted else _bare(raw)
        value = re.fullmatch(r"(?P<number>[\d.,]+)(?P<unit>\D+)", word)
        return value["number"] if value and value["number"] in self.wanted and value["unit"].lower() in self.known else word

    def _harmless(self, word: str, after: str) -> bool:
        if word.lower() in _BOUNDS:
            return (word.lower(), after) in self.pairs
        return bool({word.lower(), _stem(word)} & self.known) or _kind(word) not in self.kinds | {"word"}


def _offered(query: str) -> frozenset[str]:
    """Words that a query lists, or quotes: an answer may be one of them."""
    words = ["", *query.split(), ""]
    return frozenset(
        _bare(word)
        for before, word, after in zip(words, words[1:], words[2:], strict=False)
        if {before.lower(), after.lower()} & _CHOICE or before.endswith(",") or word.endswith(",") or word[0] in "\"'`("
    )


def _endings(path: str) -> set[str]:
    """The path as seen from each folder above it."""
    names = path.split("/")
    return {"/".join(names[start:]) for start in range(len(names))}


def _bare(word: str) -> str:
    """Without the marks of a sentence around it."""
    bare = word.strip("\"'`()<>[]{}*#|→=").rstrip(".,;:!?\"'`)>]}")
    return bare if re.search(r"[\w%€]", bare) else word.strip("\"'`()<>[]{}*#|→=:-–,;!?•")


def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{2})('s|s)$", "", word.lower())


def _kind(word: str) -> str:
    """`word` is whatever is nothing else."""
    for kind, form in (("time", _TIME), ("number", _NUMBER), ("mode", _MODE)):
        if form.fullmatch(word):
            return kind
    return "file" if is_file(word) else "word"
