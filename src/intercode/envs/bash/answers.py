"""Whether two printed answers say the same, apart from formatting noise.

Noise: colour, blank ends of the text, runs of blanks and tabs, blank lines in a list, a leading `./`, a slash at the end
of a path, doubled slashes, the ` -` that checksum tools print for standard input, and what tools say about files
that they may not read; in a printed environment, the variables `_` and `SHLVL`.

Noise unless the query is about it: one side's `total` lines; zeros that end an amount's fraction, and an average's digits; the
character after a line number; a folder that the task names, in front of every path; a value's file name; other signs than
blanks between words. So is a sentence, a title or a column more around what the gold says (`phrases`), unless the query wants
that alone or gives a form.
Where the query or the gold is about blanks or empty lines, or the gold sorts blank lines to the top, only colour and what no
eye sees at the end of a line are noise.

Never noise: letters, digits, case, the number of equal lines, and (where the gold orders) the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from intercode.envs.bash.demands import demanded, of_the_answer, reshapes
from intercode.envs.bash.normalize import hides, without_colour, without_complaints, without_shell_variables
from intercode.envs.bash.ordering import FREE, STRICT, Key, order_key, sorts
from intercode.envs.bash.wording import FORM, fixes_lines, swaps_labels, without_extras, without_listing
from intercode.types import Task

Lines = list[str]

_TIMES, _ROOM = 4, 1 << 18
"""No noise makes an answer longer than this many times the gold's, and so many characters; it need not be looked at."""

_NOTES = 4
"""All lines but blank ones, titles and notes have a word of the gold's."""
_SPACES = re.compile(
    r"white ?space|\bblanks?\b|(?<!disk )(?<!free )\bspaces?\b(?! (used|left|available|usage))|\btabs?\b|indent|\btrim|\bstrip"
    r"|\bpad|\balign|squeeze|\bempty lines?|new ?lines?|line breaks?|\bfold(ed|ing)?\b|\bwrap|width|leading|trailing|justif"
    r"|\bcent(er|re)",
    re.IGNORECASE,
)
_SPACE_TOOLS = re.compile(
    r"\b(un)?expand\b|\bfold\b|\bfmt\b|\btr +-[a-z]*[sd][a-z]* +\S*( |\\t|\\n|:space:|:blank:)|\bcat +-\w*[sAvtTeE]"
)
_NUMBERS = re.compile(r"[\d.,\n]+")
_PARTED = re.compile(
    r"(?-i:\b[A-Z]{2,}[^\w\s`'\"/.]+[A-Z]{2,}\b)|colon|\bformat|separat|delimit|\bcommas?\b|\bparted\b",
    re.IGNORECASE,
)
_FORMAT = re.compile(r":|colon|\bformat|separat|delimit|\bcommas?\b", re.IGNORECASE)
_SLASH = re.compile(r"slash|classif|indicator|\bmark|\btypes?\b", re.IGNORECASE)
_ONLY = re.compile(r"\b(only|just|alone|bare|nothing (but|else)|without)\b", re.IGNORECASE)
_VALUE = re.compile(r"\d+(\.\d+)?[KMGTP]?i?B?|[0-9a-f]{32,128}")
_WORD_ENDS = re.compile(r"[\s'\"`|;&<>()=]+")
_PATHS = re.compile(
    r"absolute|\bslash|\bno (folder|dir|path)|(begin|start)\w* with /"
    r"|(full|complete|entire) ?(file ?)?(path|name)|relative|base ?name|\bwhere\b|locat"
    r"|(only|just) (the |their )?(file ?)?names?|names? only"
    r"|(without|not) (the |their |its )?(leading |full )?(dir|path|folder)",
    re.IGNORECASE,
)
_TOTAL = re.compile(r"\b(total\w*|sum|overall|altogether|combined|in all)\b", re.IGNORECASE)
_COUNTS = re.compile(r"\b(wc|du|ls)\b")
"""Tools that add a total of their own."""
_AVERAGE = re.compile(r"\b(average|mean|median|ratio|percent\w*)\b", re.IGNORECASE)
_AMOUNT = re.compile(rf"{_AVERAGE.pattern}|{_TOTAL.pattern}|\b(price|cost)\b", re.IGNORECASE)
_COMPUTES = re.compile(r"\bawk\b|\bbc\b|python|perl|\$\(\(")
_SHOWS = re.compile(r"^\s*(cat|head|tail|tac)\b")
"""A gold that shows a file as it is."""
_WRITTEN = re.compile(r"decimal|digit|places|precision|round|version|release", re.IGNORECASE)
"""Words of a query by which a number is its digits."""
_NUMBER = re.compile(r"(?<![\w.,:/-])-?[0-9]{1,18}(\.[0-9]{1,18})?(?![\w:/-]|[.,]\d)")  # no other script's digits
_SHORT = 1 << 10
"""Characters of an answer whose amounts are compared with each of the gold's."""
_LISTED = re.compile(r"[-dlbcps][-rwxsStT]{9}")
_TRAILING = re.compile(r"trailing|\btrim|\bstrip|\bpad|\balign|justif|\bends? of|\bwidth", re.IGNORECASE)
_BLANK_LINE = re.compile(r"[ \t]*\n")
_BLANKS = re.compile(r"[ \t]+")
_ALIKE = [(re.compile(r"(?<![^ '\"(=])\./+(?=[^ /])"), ""), (re.compile(r"(?<=[^/:])//+"), "/")]
_FOLDERS = [(re.compile(r"(?<=[\w.-])/(?= |:|$)"), "")]
_OF_TOOLS = [
    (re.compile(r"^([0-9a-f]{32,128}) \*?-$"), r"\1"),
    (re.compile(r"^(/bin/|/usr/bin/)?bash: line \d+: "), "bash: "),
]
_NUMBERED = [(re.compile(r"^(\d+)[:.)] ?(?=\D)"), r"\1 ")]
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(,\d{3})+(?![\w,])")
_SEPARATOR = re.compile(r" *(?:[,;|]|(?<![!<>=~])=(?![=~])|->|(?<!\d):|:(?!\d)) *")


def same_answer(ours: str, theirs: str, task: Task) -> bool:
    """Whether the agent's output says what the gold's says; `task` tells what the question was and how gold orders."""
    if len(ours) > _TIMES * len(theirs) + _ROOM:
        return False
    ours, theirs = without_colour(ours), without_colour(theirs)
    if hides(ours, theirs):
        return False
    ours, theirs = without_shell_variables(ours, theirs, task.gold)
    key = order_key(task.gold, task.query)
    exact = bool(_SPACES.search(demanded(task.query)) or _SPACE_TOOLS.search(task.gold)) and not _NUMBERS.fullmatch(theirs)
    exact = exact or bool(_BLANK_LINE.match(theirs) and sorts(task.gold))
    a, b = (_lines(text, task, key, exact) for text in without_complaints(ours, theirs))
    if not _TOTAL.search(task.query) and _without_total(b) == b:
        a = _without_total(a)
    elif not _TOTAL.search(task.query) and _COUNTS.search(task.gold) and _without_total(a) == a:
        b = _without_total(b)
    if len(a) > 2 * len(theirs.split()) + _NOTES or swaps_labels(a, b, task.query):
        return False
    spaced = exact and any(not line or line != " ".join(line.split()) for line in (*a, *b))
    for ours_now, theirs_now in _each_once(((a, b), *_rebased(a, b, task), *_renumbered(a, b, task.query, task.gold))):
        if _match(ours_now, theirs_now, key):
            return True
        if not spaced and any(_same_amid(*read, key, task) for read in _each_once(_readings(ours_now, theirs_now, task))):
            return True
    return not exact and _same_value(a, b, task)


def _each_once(pairs: Iterable[tuple[Lines, Lines]]) -> Iterator[tuple[Lines, Lines]]:
    seen: list[tuple[Lines, Lines]] = []
    for pair in pairs:
        if pair not in seen:
            seen.append(pair)
            yield pair


def _match(a: Lines, b: Lines, key: Key) -> bool:
    return sorted(a) == sorted(b) and [key(line) for line in a] == [key(line) for line in b]


def _lines(text: str, task: Task, key: Key, exact: bool) -> Lines:
    """The lines in their plainest form."""
    if exact:
        lines = text.rstrip("\n").split("\n")
        return lines if _TRAILING.search(task.query) else [line.rstrip() for line in lines]
    steps = [*_ALIKE, *([] if _SLASH.search(task.query) else _FOLDERS), *_OF_TOOLS]
    steps += [] if _FORMAT.search(of_the_answer(task.query)) else _NUMBERED
    lines = []
    for line in text.split("\n"):
        plain = _BLANKS.sub(" ", line).strip(" ")
        for pattern, kept in steps:
            plain = pattern.sub(kept, plain)
        lines.append(plain)
    return "\n".join(lines).strip("\n").split("\n") if key is STRICT else [line for line in lines if line]


def _rebased(a: Lines, b: Lines, task: Task) -> Iterator[tuple[Lines, Lines]]:
    """Both answers with paths relative to each folder that the task names, as long as no two lines become one."""
    if _PATHS.search(task.query) or "readlink" in task.gold or any("/" in line and line in task.query.split() for line in b):
        return
    folders = {"/"}  # the paths that gold and query name and the folders above them, absolute (everything starts in `/`)
    for word in re.findall(r"(?<![\w./~$-])(?:\./|/)?[\w.@+-]+(?:/[\w.@+-]+)*", f"{task.gold} {task.query}"):
        names = [name for name in word.split("/") if name not in ("", ".")]
        folders |= {"/" + "/".join(names[:end]) for end in range(1, len(names) + 1)}
    for folder in sorted(folders):
        # `.` may stand for a folder: what something below is printed of, or what the gold measures
        below = re.compile(rf"(?<![^ :='\"(,])/?{re.escape(folder.strip('/'))}/?(?<=/)[^ /]")
        dot = any(map(below.search, (*a, *b))) or bool(re.search(rf"\bdu\b[^|;&]* {re.escape(folder)}/?( |$)", task.gold))
        ours, theirs = _relative(a, folder, dot), _relative(b, folder, dot)
        if len(set(ours)) == len(set(a)) and len(set(theirs)) == len(set(b)):
            yield ours, theirs


def _renumbered(a: Lines, b: Lines, query: str, gold: str) -> Iterator[tuple[Lines, Lines]]:
    """Ours with amounts as the gold writes them: `1.5` as 1.50, and of an average `1.496`, or `0.66` as 0.6667."""
    if _AMOUNT.search(query) and not _WRITTEN.search(query) and all(len("".join(lines)) < _SHORT for lines in (a, b)):
        wanted = [found[0] for found in _NUMBER.finditer("\n".join(b))]
        rounded = len(wanted) == 1 and bool(_AVERAGE.search(query) and _COMPUTES.search(gold))

        def as_theirs(ours: re.Match[str]) -> str:
            return next((number for number in wanted if _same_amount(ours[0], number, rounded)), ours[0])

        yield [_NUMBER.sub(as_theirs, line) for line in a], b


def _same_amount(ours: str, theirs: str, rounded: bool) -> bool:
    """Whether they are equal decimals, or, if `rounded`, as far as both are written out: at least to two digits behind the
    point. Our shorter one may be cut as well. A number that begins with needless zeros is a name."""
    if any(re.match(r"-?0\d", number) for number in (ours, theirs)):
        return ours == theirs
    a, b = Decimal(ours), Decimal(theirs)
    step = Decimal(1).scaleb(-min(len(number.partition(".")[2]) for number in (ours, theirs)))
    apart, cut = abs(a - b), len(ours) < len(theirs) and 0 <= abs(b) - abs(a) < step
    return a == b or (rounded and a * b > 0 and step < Decimal("0.1") and (2 * apart <= step or cut))


def _without_total(lines: Lines) -> Lines:
    """Without `total 12` of ls, and `7 total` of wc and du where each column of numbers makes that."""
    if len(lines) > 1 and re.fullmatch(r"total \S+", lines[0]) and all(map(_LISTED.match, lines[1:])):
        return lines[1:]
    if len(lines) < 3 or not re.fullmatch(r"([0-9]{1,18} )+total", lines[-1]):
        return lines
    width = lines[-1].count(" ")
    rows = [[int(word) for word in line.split()[:width] if re.fullmatch("[0-9]{1,18}", word)] for line in lines]
    added = all(len(row) == width for row in rows) and all(sum(column) == 2 * column[-1] for column in zip(*rows, strict=True))
    return lines[:-1] if added else lines


def _relative(lines: Lines, folder: str, dot: bool) -> Lines:
    """Paths below the folder as seen from there, itself as `.` if `dot`; those elsewhere stay as they are.

    A folder at the top stays as well: `root` is not `/root`.
    """
    start, end = r"(?<![^ :='\"(,])", r"(?=[ :,'\")]|$)"
    here = "/" if folder == "/" else rf"/?{re.escape(folder[1:])}"
    below = here if folder == "/" else f"{here}/"
    lines = [re.sub(f"{start}{here}{end}", ".", line) for line in lines] if dot else lines
    rest = "[^ /]+/[^ /]" if folder == "/" else "[^ /]"
    return [re.sub(f"{start}{below}(?={rest})", "", line) for line in lines]


def _same_value(a: Lines, b: Lines, task: Task) -> bool:
    """One value on both sides, where one side also names a file of the gold's (`3` and `3 notes.txt`)."""
    if len(a) != 1 or len(b) != 1 or _ONLY.search(task.query):
        return False
    short, long = sorted((a[0], b[0]), key=len)
    value, _, name = long.partition(" ")
    named = any(f"/{word}".endswith(f"/{name}") for word in _WORD_ENDS.split(task.gold))
    return bool(name and _VALUE.fullmatch(short)) and short == value and named


def _readings(a: Lines, b: Lines, task: Task) -> Iterator[tuple[Lines, Lines]]:
    """Ways to read both: as they are; ours without what `ls -l` says; with blanks for other signs between words."""
    yield a, b
    if FORM.search(of_the_answer(task.query)):
        return
    bare = without_listing(a, b)
    if bare != a:
        yield bare, b
    if reshapes(task.query) or _PARTED.search(of_the_answer(task.query)):
        return
    wanted = {word for line in b for word in line.split()}

    def joined(number: re.Match[str]) -> str:
        """1,234 as 1234, if that is what the gold says."""
        plain = number[0].replace(",", "")
        return plain if plain in wanted else number[0]

    plain = [_SEPARATOR.sub(" ", _THOUSANDS.sub(joined, line)).strip() for line in a]
    yield plain, b


def _same_amid(a: Lines, b: Lines, key: Key, task: Task) -> bool:
    """The same, once a sentence, a title or more columns are taken away from the agent's."""
    ours, theirs = without_extras(a, b, task.query), [" ".join(line.split()) for line in b]
    return ours is not None and (_match(ours, theirs, key) or _on_other_lines(ours, theirs, key, task))


def _on_other_lines(a: Lines, b: Lines, key: Key, task: Task) -> bool:
    """The gold's words on more or fewer lines, where it has one line with numbers, or a word a line; unless the query says
    what a line is, or the gold shows a file."""
    ours, theirs = " ".join(a).split(), " ".join(b).split()
    row = len(b) == 1 and any(map(_NUMBER.fullmatch, theirs))
    if len(a) == len(b) or "" in b or fixes_lines(task.query) or _SHOWS.search(task.gold) or not (row or len(b) == len(theirs)):
        return False
    return ours == theirs or (key is FREE and len(a) == 1 and sorted(ours) == sorted(theirs))
