"""Accept an answer that contains more words than the gold: a sentence, a title, extra columns.

    gold    /depot/a.iso                   42                                   2024-05 3
    agent   -rw-r--r-- … /depot/a.iso      There are 42 files below /depot.     month number
                                                                                2024-05 3
Each line must contain the gold's words, and otherwise only harmless words:

    grammar        words from a closed list that only connect other words: no negation, no
                   comparison, no "about"
    the query's    words from the query, except the alternatives that it offers to the gold's word;
                   `not`, `below` and the like only before the word that follows them there
    other facts    a number, time, mode or file name, if the gold prints nothing of that kind

Any other word makes the answer wrong, because the word could say anything. A title is one extra
line of harmless words at the top; a note is one at the bottom.

If such a word is the gold's answer or part of it, the others of its kind are guesses in that line:
`the` is not `the a of and`. Only the beginning of a sentence remains harmless: `The answer is`, or
words that follow each other in the query before `is` or a colon. So it is with signs.

The last part of the module decides which sentences in a query describe the answer:

    /depot/a.tsv has columns separated by tabs.   describes a file, not the answer
    Write the ids to /depot/b, one per line,      asks for a change, not for output
    and print their number alone.                 describes the answer

An unclear sentence counts as describing the answer, which only makes `exact` stricter, and a query
that is not English (`english.py`) asks for the answer alone, in the gold's order. The word
lists are closed: if an honest answer is refused, add a gold to the task (`golds`) or use `submit
ANSWER`. Not accepted: additions of the same kind as the answer (a name next to a name). Not
checked: whether additions are true.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase

from intercode.envs.bash.english import is_english
from intercode.types import Task


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_NOTE_AFTER_PATH = re.compile(r"(?<!\S)(\S[^\s/]*+/\S*\w) \([^()]*\)")
_SENTENCE = re.compile(
    r"(?<=[.?!;]) +|(?<=[a-z\d)]): +|(?:,? and|,? then|, and then)"
    r" (?=(?:print|show|tell|report|say|list|how|which)\b)"
)
_DESCRIBES_FILES = re.compile(
    r"(in )?\S*/|(parted|separated) by|[\w'/ -]{1,40}"
    r" (is|are|has|have|holds?|contains?|begins?|ends?|gives?|stands?)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\?|\b(print|show|list|output|display|say|tell|give|report|answer|find|count|how|which|what"
    r"|who|when|where|want|like|name (?=the|all|each|every)|stays?|keeps?|kept|preserved|remains?"
    r"|must|should|only|just|alone|nothing|no|own|wanted|needed)\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(write|create|make|set|change|move|copy|delete|remove|rename|replace|append|add|save|put"
    r"|store|touch|leave|keep|link|pack|extract)\b",
    re.IGNORECASE,
)
_PRINTS = re.compile(
    r"\?|\b(print|show|list|output|display|say|tell|give|report|answer|count|how|which|what|who)\b",
    re.IGNORECASE,
)
_ONE_A_LINE = re.compile(
    r"\b(one|each|every)\b[^.]{0,20} (a|separate) line|\blines?"
    r" each\b|\b(one|single|same|per|own|each|every) line"
    r"|\bline of (its|their) own|below the other|as a column"
    r"|\b(two|three|four|five|\d+) (\w+ )?lines"
    r"|separat|delimit|\bjoin|\bcommas?\b",
    re.IGNORECASE,
)
"""Words in a query that say what goes on a line."""
_PATH = re.compile(r"(?<!\S)\S*/\S*")
_ANY_ORDER = re.compile(
    r"\bin any order\b|\border (does not|doesn't) (matter|count)\b", re.IGNORECASE
)
_QUANTITY = (
    "(number|count|sum|total|size|average|mean|median|minimum|maximum|min|max|length|difference)"
)
_ORDER = re.compile(
    rf"""
    # "sorted by name", "in the order of the file", "from a to z"
    \b(sort|alphabet|lexic|chronolog|rank|revers|ascend|increas|decreas|descend|sequen|recent)
    | \bin[ ](\w+[ ]){{0,3}}order\b|\bordered\b|\ba[ ]to[ ]z\b|\b(as|where)[ ]they\b
    | \bby[ ]((their|its|the)[ ])?(file[ ]?)?
      (size|name|date|time|age|number|count|length|extension|frequency)\b
    # "the three largest files", but not "the first column"
    | \b(larg|bigg|small|long|short|high|low|new|old|lat|earli)est\b|(?<!at[ ])\b(most|least)\b
    | \b(first|last|top)\b(?![ -](\w+[ ])?(column|field|word|letter|name|level)s?\b)
    # "how many lines, and how many words", but not "how many lines each file has"
    | \bhow[ ](many|much|long|large|big|old)\b(?![^.?]*\b(each|every|per)\b)
    # "the minimum and the maximum", "the number of lines, words and bytes"
    | (?<!each[ ])\b{_QUANTITY}\b (?![^.?]*\b(each|every|per|all)\b)
      [^.?]{{0,60}} (,[ ]|\b(and|then)[ ]) [^.?]{{0,40}} \b{_QUANTITY}\b
    | \bnumbers?[ ]of[ ]\w+(,[ ]\w+)*,?[ ]and[ ]\w+(?=[ ]*([.,;?]|in\b|of\b))
    # "the content of the file", "lines 2 to 4"; `/` stands for a path
    | \b(contents?|text|section|block|paragraph)[ ](of|from|in|between)\b
    | \b((each|every)[ ]line|lines?[ ]\d+)\b
    | \b(print|show|display|output)[ ](me[ ])?(the[ ]file([ ]as|[ ]/)|/)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Words in a query that make the order of lines count."""
_ALONE = re.compile(
    r"\b(only|just|alone|bare|exactly|no other|nothing (but|else|more)|(no|not|any|other)"
    r" (words?|text))\b"
    r"|\b(print|show|list|give|tell|write|output|display)\b([^.]|\.\w)*\bwithout\b(?!"
    r" (needless|leading|trailing|\w+ing\b))",
    re.IGNORECASE,
)
FORM = re.compile(r"[`'\"][^`'\"]*[A-Z]{2}[^\w`'\"/.]+[A-Z]{2}[^`'\"]*[`'\"]")
"""An output format that the query gives, such as `NAME: STATUS`."""
_SHOWING = re.compile(
    r"(?<![\w/.-])(print|show|display|list|output|echo|report|count|tell|view|console|stdout|terminal"
    r"|screen|summar|confirm|identif|comput|calculat|determin|write out|log(?! ?files?\b|s\b))"
    r"|\bverbos|\bhow (many|much|large|big|long|old)\b|\b(which|what|see)\b|\b(give|state) the"
    r" (names?|number|paths?|sizes?|total|sum) of\b"
    r"|\breturn|\bmention|\banswer|\bgive me\b|\b(is|are) (wanted|needed|the answer)"
    r"|\bnam(e|ing) (each|every|all|them|the)\b(?![^.;]*\b(after|like|so|as)\b)",
    re.IGNORECASE,
)
"""Words in a query that ask to print or report something."""

_GRAMMAR = word_set(
    "a an the and are as at be been belong belongs by called contains do does each for from has"
    " have here his her holds i in is it its me my of on so that their there these they them this"
    " those to was were which who with all per n altogether answer equals found lies name named"
    " number output owner result size stands together total value avg average mean count sum worth"
    " amounts comes distinct frequent appear appears appeared got occur occurs occurred now reads"
    " new content contents time entry entries hit item match matches occurrence result results"
    " added changed copied created deleted done made moved removed renamed replaced saved set"
    " updated written wrote"
)
_LIMITING = word_set(
    "not no never none neither nor or but except without less more fewer than about around most"
    " least nearly almost only other another wrong false half twice over under above below"
    " within beyond near roughly approximately circa exceed exceeds exceeding until unlike"
    " minus plus maybe perhaps possibly probably"
)
"""Words that deny or limit a statement."""
_UNITS = {
    "%": "%|percent|share", "b": "byte", "kb": "kb|kilobyte", "kib": "kib", "mb": "mb|megabyte",
    "mib": "mib", "s": "second", "min": "minute", "h": "hour", "m": "met(re|er)",
    "km": "km|kilomet", "g": "gram", "kg": "kg|kilogram", "c": "degree|celsius|temp",
    "°c": "degree|celsius|temp",
    **dict.fromkeys(("€", "eur", "euro"), "€|eur|price|cost|worth|paid|pay|amount"),
}  # fmt: skip
"""Unit symbols, and the beginning of the query's word for each."""
_OR = word_set("or either whether than")
_SLASH = re.compile(r"(?<![\w/.-])([a-z]+)/([a-z]+)(?![\w/-])")
"""Two alternatives, as in `yes/no`."""
_CHOICE = word_set("or and else otherwise either whether")
"""Words between the alternative answers that a query offers."""
_PRINT = word_set("print output show say answer write return echo")
_IF = word_set("if when")
_SUBJECT = re.compile(r"((the|my) )?(answer|result|output)|it|this|that")
_IS = re.compile(r"(?::? (?:is|was|are|were):?|:)(?: |$)")
_RULE = re.compile(r"[-=_+| ]{3,}")
_ITEM = re.compile(r"(?:[-*•]|(?P<number>\d+)[.):]?) (?=\S)")
_MEASURED = re.compile(
    r" \(\d[\d.,]*"
    r" ?([kKMG]?i?[bB]"
    r"|(byte|hit|time|entr(y|ie)|item|line|character|char|word|request|file|row)s?)\)"
)
_MEASURE = re.compile(r"(?P<number>\d[\d.,]*)(?P<unit>[^\d.,]\D*)")
_LISTED = re.compile(r"[,;] (?:and )?| and ")
_FILE = re.compile(r"\.{0,2}/.|.+\.[A-Za-z]\w*$")
"""A path, or a name with an extension; `km/h` and `m2` do not match."""
_MODE = r"[-dlbcps][-rwxsStT]{9}[.+@]?"
_LONG_LISTING = re.compile(
    _MODE + r" \d+ \S+ \S+ [\d.,]+[KMGT]? ([A-Z][a-z]{2} +\d+ [\d:]+|\d{4}-\d\d-\d\d [\d:]+) (?=\S)"
)
_WORDS = 1 << 14
"""Size of the word caches: an answer is read in many ways."""
_NUMBER = re.compile(
    rf"[-+]?v?[\d.,:]*\d([KMGTP]|[a-z]{{1,2}})?%?|\d{{4}}-\d\d(-\d\d)?(T[\d:+.]+)?|{_MODE}",
    re.ASCII,
)
"""A number, a time, a date or a file mode."""


@lru_cache(maxsize=256)
def without_file_sentences(query: str) -> str:
    """Return the query without sentences that describe files."""
    return " ".join(_answer_sentences(query)) or query


@lru_cache(maxsize=256)
def about_the_answer(query: str) -> str:
    """Return the query without sentences that describe files or only ask for changes."""
    sentences = [
        sentence
        for sentence in _answer_sentences(query)
        if "/" not in sentence or not _CHANGES.search(sentence) or _PRINTS.search(sentence)
    ]
    return " ".join(sentences) or query


def _answer_sentences(query: str) -> list[str]:
    return [
        sentence
        for sentence in _SENTENCE.split(_NOTE_AFTER_PATH.sub(r"\1", query))
        if _ASKS.search(sentence) or not _DESCRIBES_FILES.match(sentence)
    ]


def asks_alone(task: Task) -> bool:
    """Return whether the task asks for the answer alone: by its field `answer_form`, or the words
    of its query. A query that is not English does."""
    if form := task.extra.get("answer_form"):
        return bool(form == "only")
    return not is_english(task.query) or bool(_ALONE.search(about_the_answer(task.query)))


def asks_to_print(task: Task) -> bool:
    """Return whether the task asks to print or report something. A query that is not English
    does."""
    if form := task.extra.get("answer_form"):
        return bool(form != "none")
    return not is_english(task.query) or bool(_SHOWING.search(task.query))


def asks_for_order(task: Task) -> bool:
    """Return whether the order of the lines counts: the task's field `order_counts` says so, or its
    query asks to sort or rank, for one of several, for a text as it is, or for several numbers that
    only their order distinguishes, or is not English."""
    counts = task.extra.get("order_counts")
    if counts is not None or not is_english(task.query):
        return counts is not False
    answer = without_file_sentences(task.query)
    return not _ANY_ORDER.search(answer) and bool(_ORDER.search(_PATH.sub("/", answer)))


def without_extras(agent: list[str], gold: list[str], query: str) -> list[str] | None:
    """Return the agent's lines reduced to the gold's words; None if another word is not
    harmless."""
    if not any(gold):
        return None
    reader = _reader_for(tuple(gold), query)
    lines = [line for line in agent if line or "" in gold]
    if not reader.is_pure:
        lines = [line for line in lines if not _RULE.fullmatch(line)]
    lines = reader.body(lines)
    if len(lines) > len(gold) > 1 and any(" " in line for line in gold):
        return None
    lines = _items(lines, 1 if fixes_lines(query) else len(gold))
    readings = [reader.read(line) or "" for line in lines]
    return readings if all(readings) else None


def in_case_of_choice(agent: str, gold: str, query: str) -> str:
    """Return the agent's answer with the gold's word in the gold's case, if that is one of several
    words that the query offers: `Yes` for `yes` after "Answer yes or no." """
    word = gold.strip()
    query = _SLASH.sub(r"\1 or \2", query.lower())
    if not word.isalpha() or len(_choices(query, frozenset({word.lower()}))) <= 1:
        return agent
    return re.sub(rf"\b{word}\b", word, agent, flags=re.IGNORECASE)


def without_listing(agent: list[str], gold: list[str]) -> list[str]:
    """Return the agent's lines without the columns that `ls -l` prints before a name, unless the
    gold prints them."""
    if any(map(_LONG_LISTING.match, gold)) or not all(map(_LONG_LISTING.match, agent)):
        return agent
    return [_LONG_LISTING.sub("", line) for line in agent]


def fixes_lines(query: str) -> bool:
    """Return whether the query says what goes on a line."""
    return bool(_ONE_A_LINE.search(about_the_answer(query)))


def _items(lines: list[str], count: int) -> list[str]:
    """Return the lines without bullets or numbers; a line that lists `count` items is split into
    `count` lines."""
    if len(lines) == 1 < count:
        parts = _LISTED.split(lines[0].rstrip(" ,;."))
        return parts if len(parts) == count else lines
    numbers = [mark["number"] for mark in map(_ITEM.match, lines) if mark]
    counted = len(lines) > 1 and numbers == list(map(str, range(1, len(lines) + 1)))
    if counted or numbers == [None] * len(lines):
        return [_ITEM.sub("", line, count=1) for line in lines]
    return lines


class _Reader:
    """Reads an agent's lines by the words of a gold's answer and of a query.

    `gold_words` are the gold's words, `own_kinds` their kinds. An extra word whose kind is in
    `kinds` must be harmless: `known` are stems of the query's harmless words, `grammar` other
    harmless words. A limiting word is harmless only as in `query_pairs`, the query's words each
    with its successor.

    `guesses` are the gold's words that would be harmless in another gold's answer, and single
    letters; `rivals` are the stems of all words of their kinds; `query` is the query's text in
    small letters. The gold is pure if it consists of guesses.
    """

    def __init__(self, gold_lines: tuple[str, ...], query: str) -> None:
        query = _SLASH.sub(r"\1 or \2", query)
        query_words = [_bare(word) for word in query.split()]
        self.query = f" {' '.join(query_words).lower()} "
        self.query_pairs = set(pairwise(query_words))
        self.gold_words = frozenset(" ".join(gold_lines).split())
        self.own_kinds = set(map(_kind, self.gold_words))
        choices = _choices(query, self.gold_words)
        self.kinds = {*self.own_kinds, "word"}
        if "word" in self.own_kinds:
            self.kinds.add("file")
        if self.gold_words & choices:
            self.kinds |= {"file", "number"}
        harmless = set[str]()
        for word in query_words:
            if word not in choices:
                parts = word, *word.split("/"), *re.split(r"[/.]", word)
                harmless.update(map(str.lower, parts))
        for unit, start in _UNITS.items():
            if any(map(re.compile(start).match, harmless)):
                harmless.add(unit)
        self.known = set(map(_stem, harmless)) - set(map(_stem, self.gold_words))
        self.grammar = _GRAMMAR - {word.lower() for word in self.gold_words | choices}
        self.guesses = {word for word in self.gold_words if not _bare(word)}
        self.rivals = {""} if self.guesses else set[str]()
        queried = {word for word in harmless if _kind(word) == "word"}
        for words in (_GRAMMAR, queried - _GRAMMAR, ascii_lowercase):
            stems = set(map(_stem, words))
            fillers = {word for word in self.gold_words - choices if _stem(word) in stems}
            if fillers:
                self.guesses |= fillers
                self.rivals |= stems
        self.is_pure = self.gold_words == self.guesses

    def is_title(self, line: str) -> bool:
        """Return whether a line of harmless words is a title: it ends with a colon, or contains no
        value of the gold's kinds."""
        kinds = set(map(_kind, map(_bare, line.split())))
        unlike = not kinds >= self.own_kinds and not kinds & self.own_kinds - {"word"}
        return self.read(line) == "" and "word" in kinds and (line.endswith(":") or unlike)

    def body(self, lines: list[str]) -> list[str]:
        """Return the lines without titles and without a note at the end."""
        if len(lines) > 1 and self.is_title(lines[0]):
            lines = lines[1:]
        lines = [line for line in lines if not (line.endswith(":") and self.is_title(line))]
        if len(lines) > 1 and self.is_title(lines[-1]):
            lines = lines[:-1]
        return lines

    def read(self, line: str) -> str | None:
        """Return the gold's words in a line; None if another word in the line is not harmless."""
        words = self._read(line)
        if words is None and self.guesses:
            words = self._read(self._without_subject(line))
        return words

    def _without_subject(self, line: str) -> str:
        """Return what a sentence says of its subject, after the first `is` or colon."""
        if not (sign := _IS.search(line)):
            return line
        subject = " ".join(map(_bare, line[: sign.start()].split())).lower()
        queried = " " in subject and f" {subject} " in self.query
        return line[sign.end() :] if queried or _SUBJECT.fullmatch(subject) else line

    def _read(self, line: str) -> str | None:
        if "number" not in self.own_kinds:
            line = _MEASURED.sub("", line)
        words = list(map(self._word, line.split()))
        extra = set(words) - self.gold_words
        guessing = self.is_pure or not self.guesses.isdisjoint(words)
        if guessing and not self.rivals.isdisjoint(map(_stem, extra)):
            return None
        words = list(filter(None, words))
        for word, after in pairwise([*words, ""]):
            if word in extra and not self._harmless(word, after):
                return None
        return " ".join(word for word in words if word in self.gold_words)

    def _word(self, raw: str) -> str:
        """Return a word without punctuation around it, and a number without the unit that the query
        names."""
        word = raw if raw in self.gold_words else _bare(raw)
        value = _MEASURE.fullmatch(word)
        if value and value["number"] in self.gold_words and self._is_known(value["unit"]):
            return value["number"]
        return word

    def _harmless(self, word: str, after: str) -> bool:
        if word.lower() in _LIMITING:
            in_query = (word.lower(), after) in self.query_pairs and word.lower() not in _OR
            return in_query and after.lower() not in _GRAMMAR | _OR and after not in self.gold_words
        return self._is_known(word) or _kind(word) not in self.kinds

    def _is_known(self, word: str) -> bool:
        return word.lower() in self.grammar or _stem(word) in self.known


_reader_for = lru_cache(maxsize=16)(_Reader)


def _choices(query: str, gold_words: frozenset[str]) -> set[str]:
    """Return the words in the query that are alternative answers: if a word of the gold is in the
    query, all words of its kind. Plain words count only in a list, in quotes, next to `or`, after
    `print` or before `if`."""
    words = ["", *query.split(), ""]
    endings = tuple(f"/{word}" for word in gold_words)
    kinds = {_kind(word) for word in map(_bare, words) if f"/{word}".endswith(endings)}
    choices = set()
    for before, raw, after in zip(words, words[1:], words[2:], strict=False):
        word = _bare(raw)
        in_list = (
            {before.lower(), after.lower()} & _CHOICE
            or ((before.lower() in _PRINT or after.lower() in _IF) and word.lower() not in _GRAMMAR)
            or before.endswith(",")
            or raw.endswith(",")
            or raw[0] in "\"'`("
        )
        kind = _kind(word)
        if kind in kinds and (kind != "word" or in_list):
            choices.add(word)
    return choices


@lru_cache(maxsize=_WORDS)
def _bare(word: str) -> str:
    """Return the word without punctuation around it; comparison signs are kept."""
    if re.fullmatch(r"(?!\W*[-=]>)(?=[^<>~≈±≠≤≥]*+[<>~≈±≠≤≥])\W*+|!=+", word):
        return word
    bare = word.removesuffix("(s)").strip("\"'`()[]{}*|→=").rstrip(".,;:?\"'`)]}")
    if re.fullmatch(r"<.*>", bare):
        bare = bare[1:-1]
    return bare if re.search(r"[\w%€]", bare) else word.strip("\"'`()<>[]{}*#|→=:-–,;!?•")


@lru_cache(maxsize=_WORDS)
def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{2})('s|ing|ed|es|s|e)$", "", word.lower())


@lru_cache(maxsize=_WORDS)
def _kind(word: str) -> str:
    """Return the kind of a word: `number` (also for times), `file`, or `word`."""
    if _NUMBER.fullmatch(word):
        return "number"
    return "file" if _FILE.match(word) else "word"
