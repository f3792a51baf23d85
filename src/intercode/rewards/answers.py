"""Whether two printed answers say the same, apart from formatting noise.

Noise: colour, blank ends of the text, runs of blanks and tabs, blank lines in a list, a leading `./`, a slash at the end
of a path, doubled slashes, the ` -` that checksum tools print for standard input, and what tools say about files
that they may not read.

Noise unless the query is about it: one side's `total` lines; the character after a line number; a folder that the
task names, in front of every path; a value's file name; what the largest or newest were ranked by; a list on one line;
zeros that end a fraction; other signs than blanks between words. So is a sentence, a title or a column more around what the
gold says (`phrases`), unless the query wants that alone or gives a form.
Where the query or the gold is about blanks or empty lines, only colour and what no eye sees at the end of a line are noise.

Never noise: letters, digits, case, the number of equal lines, and (where the gold orders) the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from intercode.rewards.ordering import FREE, STRICT, Key, order_key
from intercode.rewards.phrases import FORM, is_file, without_extras, without_listing
from intercode.types import Task

Lines = list[str]

_TIMES, _ROOM = 4, 1 << 18
"""No noise makes an answer longer than this many times the gold's, and so many characters; it need not be looked at."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_COMPLAINT = re.compile(
    r"[\w./-]+: .*(: Permission denied|: Is a directory|: Broken pipe|[Ww]arning: .*)|tar: Removing leading .*"
)
_SPACES = re.compile(
    r"white ?space|\bblanks?\b|(?<!disk )(?<!free )\bspaces?\b(?! (used|left|available|usage))|\btabs?\b|indent|\btrim|\bstrip"
    r"|\bpad|\balign|squeeze|\bempty lines?|new ?lines?|line breaks?|\bfold(ed|ing)?\b|\bwrap|width|leading|trailing|justif",
    re.IGNORECASE,
)
_SPACE_TOOLS = re.compile(
    r"\b(un)?expand\b|\bfold\b|\bfmt\b|\btr +-[a-z]*[sd][a-z]* +\S*( |\\t|\\n|:space:|:blank:)|\bcat +-\w*[sAvtTeE]"
)
_TOTAL = re.compile(r"\b(total\w*|sum|overall|altogether|all together|combined)\b", re.IGNORECASE)
_IS_TOTAL = re.compile(r"total [\d.,]+[KMGTP]?|[\d.,]+[KMGTP]? total")
_FORMAT = re.compile(r":|colon|\bformat|separat|delimit|\bcommas?\b", re.IGNORECASE)
_LINE = re.compile(r"\blines?\b|separat|delimit|\bjoin|\bcommas?\b|column|space", re.IGNORECASE)
_SLASH = re.compile(r"slash|classif|indicator|\bmark|\btypes?\b", re.IGNORECASE)
_ONLY = re.compile(r"\b(only|just|nothing (but|else)|without)\b", re.IGNORECASE)
_PATHS = re.compile(
    r"absolute|(full|complete|entire) ?(file ?)?(path|name)|relative|base ?name|\bwhere\b|locat"
    r"|(only|just) (the |their )?(file ?)?names?|names? only"
    r"|(without|not) (the |their |its )?(leading |full )?(dir|path|folder)",
    re.IGNORECASE,
)
_STRIPS = re.compile(r"\bbasename\b|%f|##\*/|\.\*/|\$NF\b|%P")
_AVERAGE = re.compile(r"\b(average|mean|median|ratio|percent\w*|quotient|divided?)\b", re.IGNORECASE)
_PRECISION = re.compile(r"decimal|digits?|places?|precision|round", re.IGNORECASE)
_SUPERLATIVE = re.compile(r"\b(larg|bigg|small|long|short|old|new|lat)est\b", re.IGNORECASE)
_MEASURE = re.compile(
    r"\b(sizes?|count|numbers?|how|usage|bytes|length|dates?|times?|with|lines|words|frequen\w+|often)\b", re.IGNORECASE
)
_TRAILING = re.compile(r"trailing|\btrim|\bstrip|\bpad|\balign|justif|\bends? of|\bwidth", re.IGNORECASE)
_EXACT_NUMBER = re.compile(r"decimal|digits?|precision|round|zero|version|release|format", re.IGNORECASE)
_ZEROS = re.compile(r"(?<![\w.,:/-])(-?\d+)(?:\.0+|(\.\d*[1-9])0+)(?![\w.,:/-])")
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(,\d{3})+(?![\w,])")
_SEPARATOR = re.compile(r" *(?:[,;|=]|->|(?<!\d):|:(?!\d)) *")
_VALUE = re.compile(r"\d+(\.\d+)?[KMGTP]?i?B?|[0-9a-f]{32,128}")


def same_answer(ours: str, theirs: str, task: Task) -> bool:
    """Whether the agent's output says what the gold's says; `task` tells what the question was and how gold orders."""
    if len(ours) > _TIMES * len(theirs) + _ROOM:
        return False
    key = order_key(task.gold, task.query)
    exact = bool(_SPACES.search(task.query) or _SPACE_TOOLS.search(task.gold))
    a, b = (_lines(text, task, key, exact) for text in _without_complaints(ours, theirs))
    a, b = _without_totals(a, b, task)
    spaced = exact and any(not line or line != " ".join(line.split()) for line in (*a, *b))
    for ours_now, theirs_now in ((a, b), *_rebased(a, b, task), *_evened(a, b, task)):
        if _match(ours_now, theirs_now, key) or _same_names(ours_now, theirs_now, task):
            return True
        if not spaced and any(_same_amid(read, theirs_now, key, task) for read in _readings(ours_now, theirs_now, task)):
            return True
    return not exact and (_same_value(a, b, task) or _same_list(a, b, key, task))


def _match(a: Lines, b: Lines, key: Key) -> bool:
    return sorted(a) == sorted(b) and [key(line) for line in a] == [key(line) for line in b]


def _without_complaints(ours: str, theirs: str) -> tuple[str, str]:
    """Both texts without lines about unreadable files, unless those are all that the gold has to say."""
    a, b = (_COLOUR.sub("", text).split("\n") for text in (ours, theirs))
    kept = [line for line in b if not _COMPLAINT.fullmatch(line)]
    if not any(kept) and any(b):
        return "\n".join(a), "\n".join(b)
    return "\n".join(line for line in a if not _COMPLAINT.fullmatch(line)), "\n".join(kept)


def _lines(text: str, task: Task, key: Key, exact: bool) -> Lines:
    """The lines in their plainest form."""
    if exact:
        lines = text.rstrip("\n").split("\n")
        return lines if _TRAILING.search(task.query) else [line.rstrip() for line in lines]
    lines = [_plain(line, task) for line in text.strip("\n").split("\n")]
    return _trimmed(lines) if key is STRICT else [line for line in lines if line]


def _plain(line: str, task: Task) -> str:
    line = re.sub(r"[ \t]+", " ", line).strip(" ")
    line = re.sub(r"(?<![^ '\"(=])\./+(?=[^ /])", "", line)
    line = re.sub(r"(?<=[^/:])//+", "/", line)
    line = line if _SLASH.search(task.query) else re.sub(r"(?<=[\w.-])/(?= |:|$)", "", line)
    line = re.sub(r"^([0-9a-f]{32,128}) \*?-$", r"\1", line)
    line = re.sub(r"^(/bin/|/usr/bin/)?bash: line \d+: ", "bash: ", line)
    return line if _FORMAT.search(task.query) else re.sub(r"^(\d+)[:.)] ?(?=\D)", r"\1 ", re.sub(r"^(\d+): ", r"\1:", line))


def _without_totals(a: Lines, b: Lines, task: Task) -> tuple[Lines, Lines]:
    """Both without `total 12` of ls and `7 total` of wc, if only one side has such lines and the query is not about totals."""
    ours, theirs = ([line for line in lines if not _IS_TOTAL.fullmatch(line)] for lines in (a, b))
    one_sided = (ours == a) != (theirs == b)
    return (ours, theirs) if one_sided and not _TOTAL.search(task.query) else (a, b)


def _trimmed(lines: Lines) -> Lines:
    """Without blank lines at either end."""
    full = [index for index, line in enumerate(lines) if line]
    return lines[full[0] : full[-1] + 1] if full else []


def _rebased(a: Lines, b: Lines, task: Task) -> Iterator[tuple[Lines, Lines]]:
    """Both answers with paths relative to each folder that the task names, as long as no two lines become one."""
    if len(a) != len(b) or _PATHS.search(task.query) or _STRIPS.search(task.gold):
        return
    for folder in sorted(_folders(f"{task.gold} {task.query}")):
        ours, theirs = _relative(a, folder), _relative(b, folder)
        if len(set(ours)) == len(set(a)) and len(set(theirs)) == len(set(b)):
            yield ours, theirs


def _evened(a: Lines, b: Lines, task: Task) -> Iterator[tuple[Lines, Lines]]:
    """Both answers without zeros at the end of a fraction, unless the query is about digits."""
    if not _EXACT_NUMBER.search(task.query):
        yield [_ZEROS.sub(r"\1\2", line) for line in a], [_ZEROS.sub(r"\1\2", line) for line in b]


def _folders(text: str) -> set[str]:
    """The paths in a text and the folders above them, absolute (everything starts in `/`)."""
    found = {"/"}
    for word in re.findall(r"(?<![\w./~$-])(?:\./|/)?[\w.@+-]+(?:/[\w.@+-]+)*", text):
        names = [name for name in word.split("/") if name not in ("", ".")]
        found |= {"/" + "/".join(names[:end]) for end in range(1, len(names) + 1)}
    return found


def _relative(lines: Lines, folder: str) -> Lines:
    """Paths at or below the folder as seen from there; those elsewhere stay as they are."""
    start, end = r"(?<![^ :='\"(,])", r"(?=[ :,'\")]|$)"
    here = "/" if folder == "/" else rf"/?{re.escape(folder[1:])}"
    below = here if folder == "/" else f"{here}/"
    return [re.sub(f"{start}{below}(?=[^ /])", "", re.sub(f"{start}{here}{end}", ".", line)) for line in lines]


def _same_value(a: Lines, b: Lines, task: Task) -> bool:
    """One value on both sides, where one side also names the file that it is of (`3` and `3 notes.txt`)."""
    if len(a) != 1 or len(b) != 1 or _ONLY.search(task.query):
        return False
    (ours, named), (theirs, other) = _value(a[0]), _value(b[0])
    if not ours or not theirs or (named and other and named != other):
        return False
    if not all(not name or is_file(name) or name in f"{task.query} {task.gold}" for name in (named, other)):
        return False
    return ours == theirs or bool(_AVERAGE.search(task.query) and not _PRECISION.search(task.query) and _close(ours, theirs))


def _same_names(a: Lines, b: Lines, task: Task) -> bool:
    """The largest, newest, … things on both sides, in one order, where only one side shows what they were ranked by."""
    if len(a) != len(b) or not _SUPERLATIVE.search(task.query) or _MEASURE.search(task.query):
        return False
    long, short = (a, b) if len("".join(a)) > len("".join(b)) else (b, a)
    parts = [re.fullmatch(r"[\d.]+[KMGTP]? (?P<name>(?=\S*[^\W\d])\S+)", line) for line in long]
    return bool(parts) and [part and part["name"] for part in parts] == short


def _readings(a: Lines, b: Lines, task: Task) -> Iterator[Lines]:
    """Ways to read the agent's lines: as they are; without what `ls -l` says; with blanks for other signs between words."""
    yield a
    if FORM.search(task.query):
        return
    bare = without_listing(a, b)
    if bare != a:
        yield bare
    if not _FORMAT.search(task.query):
        wanted = {word for line in b for word in line.split()}
        yield [_SEPARATOR.sub(" ", _THOUSANDS.sub(lambda number: _joined(number[0], wanted), line)).strip() for line in a]


def _joined(number: str, wanted: set[str]) -> str:
    """1,234 as 1234, if that is what the gold says."""
    plain = number.replace(",", "")
    return plain if plain in wanted else number


def _same_amid(a: Lines, b: Lines, key: Key, task: Task) -> bool:
    """The same, once a sentence, a title or more columns are taken away from the agent's."""
    ours = without_extras(a, b, task.query)
    return ours is not None and _match(ours, [" ".join(line.split()) for line in b], key)


def _value(line: str) -> tuple[str, str]:
    """A line's value and the name with it: `3 notes.txt` and `notes.txt:3` are 3 of notes.txt; empty if it is not that."""
    name = r"(?P<name>(?=\S*[^\W\d])\S+?)"
    for pattern in (rf"(?P<value>{_VALUE.pattern})( {name})?", rf"{name}: ?(?P<value>{_VALUE.pattern})"):
        found = re.fullmatch(pattern, line)
        if found:
            return found["value"], found["name"] or ""
    return "", ""


def _close(ours: str, theirs: str) -> bool:
    """Whether two decimal numbers agree as far as both are written out, rounded or cut (`3`, `3.0`; `0.67`, `0.6666`)."""
    if not all(re.fullmatch(r"\d+(\.\d+)?", text) for text in (ours, theirs)):
        return False
    digits = [len(text.partition(".")[2]) for text in (ours, theirs)]
    if 0 in digits:
        return float(ours) == float(theirs)
    return min(digits) > 1 and abs(float(ours) - float(theirs)) < 10.0 ** -min(digits)


def _same_list(a: Lines, b: Lines, key: Key, task: Task) -> bool:
    """One word a line on one side, all on one line on the other."""
    if (len(a) == 1) == (len(b) == 1) or _LINE.search(task.query):
        return False
    one, many = (a, b) if len(a) == 1 else (b, a)
    if any(" " in line for line in many):
        return False
    words: Sequence[str] = one[0].split(" ")
    return sorted(words) == sorted(many) if key is FREE else list(words) == many
