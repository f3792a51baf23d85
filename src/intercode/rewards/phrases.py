"""Whether an answer says what the gold says, with more around it: a sentence, a title, a column beside each value.

    gold    /depot/a.iso                   42                                   2024-05 3
    ours    -rw-r--r-- … /depot/a.iso      There are 42 files below /depot.     month number
                                                                                2024-05 3
Of each line those words are taken that are of a kind with the gold's (a path or file name, a word, a number, a code by its
signs) and that neither grammar nor the query has. They must be the gold's, line by line: two guesses on one line are no answer.

No such addition, unless the query has it too: a word that takes back or limits what is said (`about 42`); one that goes on
right after a number or a name, as another unit would (`42 kB`) or the rest of a longer name. Where the gold's own word is
one of several that the query names, the others are guesses. More than a few words that differ in number from line to line
are no column: whole lines were printed. One more line at the top is a title if it ends with a colon or has the query's words
only. Marks and numbers of a list are no more than that.

Left out: additions that are of a kind with the answer (a name beside a name); whether they are true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from intercode.rewards.ordering import named

_ALONE = re.compile(r"\b(only|just|alone|exactly|nothing (but|else|more))\b", re.IGNORECASE)
_UNTITLED = re.compile(r"\bwithout (\w+ )?(head|title)", re.IGNORECASE)
_WITHOUT = re.compile(r"\bwithout\b(?! (needless|leading|trailing|superfluous))", re.IGNORECASE)
_PLACE = r"(?![YMDHS]+\b)[A-Z]{2,}"
FORM = re.compile(rf"(?P<quote>[`'\"]){_PLACE}(?:(?!(?P=quote)|[\w/.]).)+{_PLACE}(?P=quote)|{_PLACE}[^\w\s/.]{_PLACE}")
"""A form that a query gives, such as `NAME: STATUS`."""
_LIMITS = named(
    "not no nor never or either neither less more fewer than about nearly almost over under least most except but maybe "
    "perhaps between wrong false only approximately around roughly circa possibly probably likely unless instead rather"
)
_DENIALS = named("not no never without none")
_LACKS = re.compile(r"\b(missing|lack\w*|absent|without|not|no|never|none)\b", re.IGNORECASE)
_LINKS = named(
    "a an and are as at be by for from has have in is it its of on that the there these they this to was were with which who "
    "belong belongs own owns owner called named contain contains hold holds stand stands lie lies found equal equals exactly "
    "altogether together answer result total so here his her"
)
_DATES = named("jan feb mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun utc")
_MEASURES = [
    named("byte b size"), named("kib kibibyte"), named("kb kilobyte"), named("mib mebibyte"), named("mb megabyte"),
    named("second sec s"), named("minute min"), named("hour h"), named("metre meter m"), named("kilometre kilometer km"),
    named("gram g"), named("kilogram kg"), named("percent % percentage share humidity"), named("degree °c c temperature"),
    named("wind speed m/s"), named("euro eur € price pay paid cost fee"), named("character char"),
]  # fmt: skip
"""Words for one thing: a unit, and what is measured in it."""
_CHOICE = re.compile(r"\b(or|either|whether|which of|between)\b", re.IGNORECASE)
_RULE = re.compile(r"[-=_+| ]{3,}")
_ITEM = re.compile(r"(?:[-*•]|(?P<number>\d+)[.)]) (?=\S)")
_LONG_LISTING = re.compile(
    r"[-dlbcps][-rwxsStT]{9}[.+@]? \d+ \S+ \S+ [\d.,]+[KMGT]? ([A-Z][a-z]{2} +\d+ [\d:]+|\d{4}-\d\d-\d\d [\d:]+) (?=\S)"
)
_LONG = 60
"""No sentence has as many words more than the gold."""
_FEW = 2
"""So many words beside a value are a remark; more are a column if there are as many on each line."""


def without_extras(ours: Sequence[str], theirs: Sequence[str], query: str) -> list[str] | None:
    """Our lines with nothing but what may be the answer; None if the query wants that alone, or they cannot be so read."""
    if _ALONE.search(query) or not any(theirs) or "." in theirs or _words(ours) > _words(theirs) + _LONG:
        return None
    reader = _Reader.of(theirs, query)
    lines = [line for line in ours if line in theirs or not (line == "" or _RULE.fullmatch(line))]
    if len(lines) == len(theirs) + 1 and reader.is_title(lines[0], len(theirs)) and not _UNTITLED.search(query):
        lines = lines[1:]
    if len(lines) != len(theirs):
        return None
    if _WITHOUT.search(query) or FORM.search(query):
        return lines
    read = [reader.read(line) for line in _items(lines)]
    counts = {line[1] for line in read if line}
    if None in read or (len(counts) > 1 and max(counts) > _FEW):
        return None
    return [line[0] for line in read if line]


def without_listing(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Our lines without what `ls -l` prints before a name, if the gold does not print it."""
    listed = all(map(_LONG_LISTING.match, ours)) and not any(map(_LONG_LISTING.match, theirs))
    return [_LONG_LISTING.sub("", line) for line in ours] if listed else list(ours)


def _words(lines: Sequence[str]) -> int:
    """How many the longest line has."""
    return max((line.count(" ") for line in lines), default=0)


def _items(lines: Sequence[str]) -> list[str]:
    """Without the marks or numbers of a list before all of them."""
    marks = [_ITEM.match(line) for line in lines]
    numbers = [mark["number"] for mark in marks if mark]
    counted = numbers == [str(place + 1) for place in range(len(lines))] and len(lines) > 1
    return [_ITEM.sub("", line, count=1) for line in lines] if counted or numbers == [None] * len(lines) else list(lines)


@dataclass(frozen=True)
class _Reader:
    """`wanted`: the gold's words; `kinds`: of what kinds they are; `said`: words of grammar and of the query; `asked`: the same
    and what means the same; `names`: those of the files that are wanted; `limits`: words that may not be there."""

    wanted: frozenset[str]
    kinds: frozenset[str]
    said: frozenset[str]
    asked: frozenset[str]
    names: frozenset[str]
    limits: frozenset[str]

    @classmethod
    def of(cls, theirs: Sequence[str], query: str) -> _Reader:
        wanted = frozenset(word for line in theirs for word in line.split())
        words = frozenset(_bare(word) for word in query.split())
        kinds = {_kind(word) for word in wanted}
        guesses = {_kind(word) for word in wanted & words} - (set() if _CHOICE.search(query) else {"word"})
        links = frozenset() if {word.lower() for word in wanted} & _LINKS else _LINKS
        said = links | {word.lower() for word in words if _kind(word) not in guesses}
        asked = said | set(map(_stem, said))
        asked |= {unit for same in _MEASURES if same & asked for unit in same}
        names = {word.rpartition("/")[2] for word in wanted}
        limits = _LIMITS - {word.lower() for word in words} - (_DENIALS if _LACKS.search(query) else set())
        return cls(
            wanted, frozenset(kinds | ({"integer"} if "decimal" in kinds else set())), said, asked, frozenset(names), limits
        )

    def is_title(self, line: str, count: int) -> bool:
        """Whether a line stands above others; it may say how many there are."""
        words = list(map(_bare, line.split()))
        strange = [word for word in words if word.lower() not in self.said and word != str(count)]
        if line.endswith(":"):
            return not any(re.search(r"[\d/]", word) for word in strange)
        return not strange and not re.search(r"[\d/]", line) and not self.wanted & set(words)

    def read(self, line: str) -> tuple[str, int] | None:
        """What may be the answer in a line, and how many words more there are; None if they spoil it."""
        kept, more, before = list[str](), 0, ""
        for place, raw in enumerate(line.split()):
            word = self._word(raw)
            if word in self.wanted:
                kept.append(word)
                before = word if raw.endswith(word) else ""
                continue
            if self._spoils(word, before if raw.startswith(word) else "", label=place == 0 and raw.endswith(":")):
                return None
            more += bool(word) and not self._knows(word)
            before = ""
        return " ".join(kept), more

    def _word(self, raw: str) -> str:
        """The word without the marks around it, and a number without the unit that the query names."""
        ways = (raw, raw.rstrip(".,;:"), raw.strip("\"'`.,;:"))
        word = next((way for way in ways if way in self.wanted), _bare(raw))
        value = re.fullmatch(r"(?P<number>[\d.,]+)(?P<unit>\D+)", word)
        return value["number"] if value and value["number"] in self.wanted and value["unit"].lower() in self.asked else word

    def _spoils(self, word: str, before: str, *, label: bool) -> bool:
        """Whether a word beside the answer limits it, is another one, or goes on with it (`before`, with no mark between)."""
        if word.lower() in self.limits:
            return True
        if not word or self._knows(word) or (label and word.isalpha()):
            return False
        return _kind(word) in self.kinds or bool(before and _goes_on(before, word))

    def _knows(self, word: str) -> bool:
        return word.lower() in self.asked or _stem(word) in self.asked or word in self.names


def _goes_on(answer: str, word: str) -> bool:
    """Whether a word right after an answer may be a part of it: a unit of a number, the rest of a name."""
    if _kind(word) in ("integer", "decimal", "date", "mode"):
        return False
    if _kind(answer) in ("integer", "decimal"):
        return not is_file(word)
    return _kind(answer) in ("file", "name", "word")


def is_file(word: str) -> bool:
    """Whether it reads as a path or as a name with an ending; `km/h` and `m2` do not."""
    return bool(re.match(r"\.{0,2}/.|.+\.[A-Za-z]\w*$", word))


def _bare(word: str) -> str:
    """Without the marks of a sentence around it."""
    if word == ".":  # the folder from which paths are seen
        return word
    bare = word.strip("\"'`()<>[]{}*#|→").rstrip(".,;:!?\"'`)>]}")
    return bare if re.search(r"[\w%]", bare) else ""


def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{2})s$", "", word.lower())


def _kind(word: str) -> str:
    if re.fullmatch(r"[^\w/]*\d[\d.,]*[^\W\d]{0,3}[^\w/]*", word):
        return "decimal" if "." in word else "integer"
    if "@" in word:
        return "mail"
    if word == "." or "/" in word or re.search(r"[^.]\.[A-Za-z]\w{0,4}$", word):
        return "file"
    if word.isalpha():
        return "date" if word.lower() in _DATES else "code" if word.isupper() and len(word) > 1 else "word"
    if re.fullmatch(r"[-dlbcps][-rwxsStT]{9}[.+@]?", word):
        return "mode"
    return "name" if re.search(r"[^\W\d_]", word) else re.sub(r"\d+", "9", word)
