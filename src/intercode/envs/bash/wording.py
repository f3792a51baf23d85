"""What an answer may say beside what the gold says: a sentence, a title, more columns.

    gold    /depot/a.iso                   42                                   2024-05 3
    ours    -rw-r--r-- … /depot/a.iso      There are 42 files below /depot.     month number
                                                                                2024-05 3
Each line must have the gold's words, and beside them nothing but what is harmless:

    grammar        words of a closed list, that only bind others: no denial, no comparison, no "about"
    the query's    words that it was asked with, but for those that it offers as answers, if the gold's is one of them, and
                   for `not`, `below` and their like, which only stand before what they stand before there
    other facts    a number, a time, a mode or a file's name, where the gold has nothing of that kind

Any other word spoils the line, for it could say anything. A title is one line more at the top, of harmless
words; a note is one at the bottom.

Left out: additions that are of a kind with the answer (a name beside a name); whether they are true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_BESIDE_A_PATH = re.compile(r"(?<!\S)(\S[^\s/]*+/\S*\w) \([^()]*\)")
_SENTENCE = re.compile(
    r"(?<=[.?!;]) +|(?<=[a-z\d)]): +|(?:,? and|,? then|, and then) (?=(?:print|show|tell|report|say|list|how|which)\b)"
)
_TELLS = re.compile(
    r"(in )?\S*/|(parted|separated) by|[\w'/ -]{1,40} (is|are|has|have|holds?|contains?|begins?|ends?|gives?|stands?)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\?|\b(print|show|list|output|display|say|tell|give|report|answer|find|count|how|which|what|who|when|where|want|like"
    r"|name (?=the|all|each|every)|stays?|keeps?|kept|preserved|remains?|must|should|only|just|alone"
    r"|nothing|no|own|wanted|needed)\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(write|create|make|set|change|move|copy|delete|remove|rename|replace|append|add|save|put|store|touch|leave|keep|link|pack|extract)\b",
    re.IGNORECASE,
)
_PRINTS = re.compile(
    r"\?|\b(print|show|list|output|display|say|tell|give|report|answer|count|how|which|what|who)\b", re.IGNORECASE
)
_RESHAPES = re.compile(
    r"\b(convert|replac|translat|turn|transpos|exchang|swap|split|join|merg|reformat|substitut|instead|into)\w*\b",
    re.IGNORECASE,
)
_ONE_A_LINE = re.compile(
    r"\b(one|each|every)\b[^.]{0,20} (a|separate) line|\blines? each\b|\b(one|single|same|per|own|each|every) line"
    r"|\bline of (its|their) own|below the other|as a column"
    r"|\b(two|three|four|five|\d+) (\w+ )?lines"
    r"|separat|delimit|\bjoin|\bcommas?\b",
    re.IGNORECASE,
)
"""Words of a query that say what a line is."""
_ALONE = re.compile(
    r"\b(only|just|alone|bare|exactly|no other|nothing (but|else|more)|(no|not|any|other) (words?|text))\b"
    r"|\b(print|show|list|give|tell|write|output|display)\b([^.]|\.\w)*\bwithout\b(?! (needless|leading|trailing|\w+ing\b))",
    re.IGNORECASE,
)
FORM = re.compile(r"[`'\"][^`'\"]*[A-Z]{2}[^\w`'\"/.]+[A-Z]{2}[^`'\"]*[`'\"]")
"""A form that a query gives, such as `NAME: STATUS`."""
_GRAMMAR = word_set(
    "a an the and are as at be been belong belongs by called contains do does each for from has have here his her holds i in "
    "is it its me my of on so that their there these they them this those to was were which who with "
    "all per n altogether answer equals found lies name named number output owner result size stands together total value "
    "avg average mean count sum worth amounts comes different distinct frequent "
    "appear appears appeared got occur occurs occurred now reads new "
    "content contents time entry entries hit item match matches occurrence result results "
    "added changed copied created deleted done made moved removed renamed replaced saved set updated written wrote"
)
_TURNS = word_set(
    "not no never none neither nor or but except without less more fewer than about around most least "
    "nearly almost only other another wrong false half twice over under above below"
)
"""Words that turn or limit what is said."""
_EXTREMES = word_set("most least")
"""They turn nothing where the query asks for them, but behind `at`."""
_UNITS = {
    "%": "%|percent|share", "b": "byte", "kb": "kb|kilobyte", "kib": "kib", "mb": "mb|megabyte", "mib": "mib",
    "s": "second", "min": "minute", "h": "hour", "m": "met(re|er)", "km": "km|kilomet", "g": "gram", "kg": "kg|kilogram",
    "c": "degree|celsius|temp", "°c": "degree|celsius|temp",
    **dict.fromkeys(("€", "eur", "euro"), "€|eur|price|cost|worth|paid|pay|amount"),
}  # fmt: skip
"""Signs of units, and how a query's word for each begins."""
_OR = word_set("or either whether than")
_ARTICLES = word_set("a an the it is was were has have did does")
_QUOTED = re.compile(r"\b(?:print|say|answer|write|output|reply|or|with) [`'\"]([a-zA-Z ]+)[`'\"]", re.IGNORECASE)
_SERIES = re.compile(r"(?<!\w, )\b\w+(?:, \w+)+,? or \w+")
_NAMES = re.compile(r"\b(files?|folders?|director\w+|scripts?|hosts?|names?)\b", re.IGNORECASE)
_COUNTED = re.compile(r"\bhow (many|much)\b|\bnumber of\b", re.IGNORECASE)
_CHOICE = word_set("or and else either whether")
"""Words between those that a query offers."""
_RULE = re.compile(r"[-=_+| ]{3,}")
_ITEM = re.compile(r"(?:[-*•]|(?P<number>\d+)[.):]?) (?=\S)")
_MEASURED = re.compile(
    r" \(\d[\d.,]* ?([kKMG]?i?[bB]|(byte|hit|time|entr(y|ie)|item|line|character|char|word|request|file|row)s?)\)"
)
_MEASURE = re.compile(r"(?P<number>\d[\d.,]*)(?P<unit>[^\d.,]\D*)")
_LISTED = re.compile(r"[,;] (?:and )?| and ")
_MODE = re.compile(r"[-dlbcps][-rwxsStT]{9}[.+@]?")
_LONG_LISTING = re.compile(
    rf"{_MODE.pattern} \d+ \S+ \S+ [\d.,]+[KMGT]? ([A-Z][a-z]{{2}} +\d+ [\d:]+|\d{{4}}-\d\d-\d\d [\d:]+) (?=\S)"
)
_WORDS = 1 << 14
"""So many are remembered, since an answer is read in many ways."""
_LONG = 60
"""No sentence has as many words more than the gold."""
_NUMBER = re.compile(r"[-+]?v?[\d.,:]*\d([KMGTP]|[a-z]{1,2})?%?", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d(-\d\d)?(T[\d:+.]+)?|\d{1,2}:\d\d(:[\d.]+)?|\d{1,2}([./])\d{1,2}\4(\d\d){1,2}|(19|20)\d{6}", re.ASCII
)


def reshapes(query: str) -> bool:
    """Whether it is about the form of a text, so that signs and lines are the answer itself."""
    return bool(_RESHAPES.search(query))


@lru_cache(maxsize=256)
def demanded(query: str) -> str:
    """The query without what it tells of its files."""
    return " ".join(_demands(query)) or query


@lru_cache(maxsize=256)
def of_the_answer(query: str) -> str:
    """The query without what it tells of its files, and without the changes that it wants."""
    changes = [each for each in _demands(query) if "/" in each and _CHANGES.search(each) and not _PRINTS.search(each)]
    return " ".join(each for each in _demands(query) if each not in changes) or query


def _demands(query: str) -> list[str]:
    sentences = _SENTENCE.split(_BESIDE_A_PATH.sub(r"\1", query))
    return [each for each in sentences if _ASKS.search(each) or not _TELLS.match(each)]


def without_extras(ours: Sequence[str], theirs: Sequence[str], query: str) -> list[str] | None:
    """Our lines with nothing but what may be the answer; None if the query wants that alone, or they cannot be so read."""
    longest, most = (max((line.count(" ") for line in lines), default=0) for lines in (ours, theirs))
    if _ALONE.search(of_the_answer(query)) or not any(theirs) or longest > most + _LONG:
        return None
    reader = _Reader.of(tuple(theirs), query)
    lines = reader.body([line for line in ours if not _RULE.fullmatch(line) and (line or "" in theirs)])
    if FORM.search(of_the_answer(query)):
        return lines
    if len(lines) > len(theirs) > 1 and any(" " in line for line in theirs):
        return None
    lines = _items(lines, 1 if fixes_lines(query) else len(theirs))
    read = [reader.read(line) for line in lines]
    if not all(read):
        return None
    return [line for line in read if line]


def swaps_labels(ours: Sequence[str], theirs: Sequence[str], query: str) -> bool:
    """Whether a word of the query's stands beside each value, all of one kind, and these words come in another order there."""
    reader = _Reader.of(tuple(theirs), query)
    asked: dict[str, int] = {}  # where the query first has a word, or a path, whole or as seen from above
    for place, word in enumerate(map(_stem, reader.asked)):
        for end in _endings(word) - set(_GRAMMAR):
            asked.setdefault(end, place)
    pieces = [list(map(_bare, re.split("[ =]", piece))) for line in ours for piece in re.split(r"[,;|] ", line)]
    if len(pieces) == 1:  # a value ends its piece, or begins it if the first word is one
        words = pieces[0]
        ends = [place for place, word in enumerate(words) if word in reader.wanted]
        inner = ends[1:] if ends[:1] == [0] else [place + 1 for place in ends[:-1]]
        pieces = [words[start:end] for start, end in pairwise([0, *inner, len(words)])]
    kinds = {_kind(word) for piece in pieces for word in piece if word in reader.wanted}
    labels = [[asked[_stem(word)] for word in piece if word not in reader.wanted and _stem(word) in asked] for piece in pieces]
    places = [found[0] for found in labels if found]
    return 1 < len(pieces) == len(set(places)) and len(kinds) == 1 and places != sorted(places)


def without_listing(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Our lines without what `ls -l` prints before a name, if the gold does not print it."""
    listed = all(map(_LONG_LISTING.match, ours)) and not any(map(_LONG_LISTING.match, theirs))
    return [_LONG_LISTING.sub("", line) for line in ours] if listed else list(ours)


def fixes_lines(query: str) -> bool:
    """Whether the query says what a line is."""
    return reshapes(query) or bool(_ONE_A_LINE.search(of_the_answer(query)))


def is_file(word: str) -> bool:
    """Whether it reads as a path or as a name with an ending; `km/h` and `m2` do not."""
    return bool(re.match(r"\.{0,2}/.|.+\.[A-Za-z]\w*$", word))


def _items(lines: Sequence[str], count: int) -> list[str]:
    """Without the marks or numbers of a list before all of them; a line that lists so many as that many lines."""
    if len(lines) == 1 < count:
        parts = _LISTED.split(lines[0].rstrip(" ,;."))
        return parts if len(parts) == count else list(lines)
    marks = [_ITEM.match(line) for line in lines]
    numbers = [mark["number"] for mark in marks if mark]
    counted = numbers == [str(place + 1) for place in range(len(lines))] and len(lines) > 1
    return [_ITEM.sub("", line, count=1) for line in lines] if counted or numbers == [None] * len(lines) else list(lines)


@dataclass(frozen=True)
class _Reader:
    """`wanted`: the gold's words, `own`: their kinds; `kinds`: those that count as answers; `known`: stems of harmless words of
    the query's, `grammar`: others; `turns`: words that turn what is said, but in pairs of the query's words, `asked`.
    """

    wanted: frozenset[str]
    own: frozenset[str]
    kinds: frozenset[str]
    known: frozenset[str]
    grammar: frozenset[str]
    asked: tuple[str, ...]
    turns: frozenset[str]

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, theirs: tuple[str, ...], query: str) -> _Reader:
        wanted = frozenset(word for line in theirs for word in line.split())
        asked = [_bare(word) for word in query.split()]
        either = _either(query)
        free = [word for word in _free(query, wanted) if word.lower() not in either]
        plain = {part.lower() for word in free for part in (word, *word.split("/"), *re.split(r"[/.]", word))}
        units = {sign for sign, start in _UNITS.items() if any(map(re.compile(start).match, plain))}
        known = {_stem(word) for word in plain | units} - {_stem(word) for word in wanted | either}
        grammar = _GRAMMAR - either - {word.lower() for word in wanted}
        turns = _TURNS - (_EXTREMES & plain)
        own = frozenset(map(_kind, wanted))
        kinds = own | {"number", "time"} if own & {"number", "time"} else set(own)  # 2.4.57 reads as a day
        if either & {word.lower() for word in wanted}:
            kinds |= {"file", "number", "time"}
        elif "word" in own:  # the gold says in a word what the query asks for
            kinds |= {kind for kind, words in (("file", _NAMES), ("number", _COUNTED)) if words.search(query)}
        return cls(wanted, own, frozenset(kinds), frozenset(known), grammar, tuple(asked), turns)

    def is_title(self, line: str) -> bool:
        """Nothing that reads as a line of the gold's does, unless it ends with a colon; nor numbers alone."""
        kinds = {_kind(_bare(word)) for word in line.split()}
        unlike = not kinds >= self.own and not kinds & self.own - {"word"}
        return self.read(line) == "" and "word" in kinds and (line.endswith(":") or unlike)

    def body(self, lines: list[str]) -> list[str]:
        """The lines without a title above them or any part of them, and without a note below."""
        lines = lines[1:] if len(lines) > 1 and self.is_title(lines[0]) else lines
        lines = [line for line in lines if not (line.endswith(":") and self.is_title(line))]
        return lines[:-1] if len(lines) > 1 and self.is_title(lines[-1]) else lines

    def read(self, line: str) -> str | None:
        """The gold's words in a line; None if something else in it is not harmless."""
        line = line if "number" in self.kinds else _MEASURED.sub("", line)
        words = [word for word in map(self._word, line.split()) if word]
        if not all(word in self.wanted or self._harmless(word, after) for word, after in pairwise([*words, ""])):
            return None
        return " ".join(word for word in words if word in self.wanted)

    def _word(self, raw: str) -> str:
        """Without the marks around it, and a number without the unit that the query names."""
        word = raw if raw in self.wanted else _bare(raw)
        value = _MEASURE.fullmatch(word)
        return value["number"] if value and value["number"] in self.wanted and self._is_known(value["unit"]) else word

    def _harmless(self, word: str, after: str) -> bool:
        if word.lower() in self.turns or (word.lower() == "at" and after.lower() in _EXTREMES):
            so_asked = (word.lower(), after) in pairwise(self.asked) and word.lower() not in _OR
            return so_asked and after.lower() not in _GRAMMAR | _OR and after not in self.wanted
        return self._is_known(word) or _kind(word) not in self.kinds | {"word"}

    def _is_known(self, word: str) -> bool:
        return word.lower() in self.grammar or _stem(word) in self.known


def _free(query: str, wanted: frozenset[str]) -> list[str]:
    """Words of the query's that are no answers to it: if the gold's is one of them, none of its kind that it lists."""
    words = ["", *query.split(), ""]
    free, kinds = [], {_kind(word) for word in map(_bare, words) if wanted & _endings(word)}
    for before, raw, after in zip(words, words[1:], words[2:], strict=False):
        offered = {before.lower(), after.lower()} & _CHOICE or before.endswith(",") or raw.endswith(",") or raw[0] in "\"'`("
        word = _bare(raw)
        if _kind(word) not in kinds or (_kind(word) == "word" and not offered):
            free.append(word)
    return free


def _either(query: str) -> frozenset[str]:
    """Words that a query offers as answers, in small letters: on both sides of `or`, in capitals, behind `print` in quotes."""
    query = re.sub(r"(?<![\w/.-])([a-z]+)/([a-z]+)(?![\w/-])", r"\1 or \2", query)  # yes/no
    words = ["", *(word for word in query.split() if word.lower() not in _ARTICLES), ""]
    sides = {word for pair in pairwise(words) for word in pair if {each.lower() for each in pair} & _OR}
    quoted = {word for part in _QUOTED.findall(query) for word in part.split()}
    capitals = {word for word in words if re.fullmatch(r"[A-Z]{2,}[.,;:]?", word)}
    lists = {word for part in _SERIES.findall(query) for word in part.split()}
    return frozenset(_bare(word).lower() for word in sides | quoted | capitals | lists) - _OR


def _endings(path: str) -> set[str]:
    """The path as seen from each folder above it."""
    names = path.split("/")
    return {"/".join(names[start:]) for start in range(len(names))}


@lru_cache(maxsize=_WORDS)
def _bare(word: str) -> str:
    """Without the marks of a sentence around it, but with those that compare."""
    if re.fullmatch(r"(?!\W*[-=]>)(?=[^<>~≈±≠≤≥]*+[<>~≈±≠≤≥])\W*+|!=+", word):
        return word
    bare = word.removesuffix("(s)").strip("\"'`()[]{}*|→=").rstrip(".,;:?\"'`)]}")
    bare = bare[1:-1] if re.fullmatch(r"<.*>", bare) else bare
    return bare if re.search(r"[\w%€]", bare) else word.strip("\"'`()<>[]{}*#|→=:-–,;!?•")


@lru_cache(maxsize=_WORDS)
def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{2})('s|ing|ed|es|s|e)$", "", word.lower())


@lru_cache(maxsize=_WORDS)
def _kind(word: str) -> str:
    """`word` is whatever is nothing else."""
    for kind, form in (("time", _TIME), ("number", _NUMBER), ("mode", _MODE)):
        if form.fullmatch(word):
            return kind
    return "file" if is_file(word) else "word"
