"""Compare two printed answers, apart from formatting noise.

Always noise: colour; `\\r` at line ends; blanks at the ends of the text; runs of blanks and tabs;
blank lines in a list; a leading `./`; a slash at the end of a path; doubled slashes; the ` -` that
checksum tools print for standard input; complaints of tools about files that they may not read; in
a printed environment, the variables `_` and `SHLVL`.

Noise unless the query is about it: one side's `total` lines; zeros at the end of an amount's
fraction, and the digits of an average; the character after a line number; a folder that the task
names, in front of every path; the file name of a value; signs other than blanks between words; a
sentence, a title or a column around the gold's words (`wording`). If the query or the gold is about
blanks or empty lines, or the gold sorts blank lines to the top, only colour and blanks at the end
of a line are noise.

Never noise: letters, digits, case, the number of equal lines, and (if the gold orders) the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from intercode.envs.bash.ordering import FREE, STRICT, Key, order_key, sorts
from intercode.envs.bash.wording import (
    FORM,
    about_the_answer,
    fixes_lines,
    reshapes,
    swaps_labels,
    without_extras,
    without_file_sentences,
    without_listing,
    word_set,
)
from intercode.types import Task

Lines = list[str]

_CONCEALS = r"(?:\d{1,3};){0,6}(?<!;5;)0?8[;m]"
_ON = rf"(?:\x1b\[0?m)?\x1b\[(?!0?m|{_CONCEALS})[0-9;]{{1,20}}m(?:\x1b\[K)?"
_OFF = r"(?:\x1b\[0?m(?:\x1b\[K)?){1,4}"
_COLOURED = re.compile(rf"(?:{_ON}[^\x1b]*+){{1,8}}{_OFF}|^{_OFF}|{_OFF}$", re.MULTILINE)
_CODE = re.compile(r"\x1b\[[0-9;]*[mK]")
_INVISIBLE = re.compile(
    r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)

_TOOL = re.compile(r"(?:/(?:usr/)?bin/)?(?P<name>[a-z][a-z0-9]*): ")
_TOOLS = word_set(
    "bash sh dash find ls dir grep egrep fgrep rg du df cat tac head tail sort uniq wc cut paste tr"
    " nl comm join cmp diff tar gzip gunzip zcat cp mv rm mkdir rmdir ln touch chmod chown chgrp"
    " stat file tee awk gawk mawk sed perl python3 xargs rsync tree md5sum sha1sum sha256sum"
    " sha512sum cksum sum base64 od xxd strings split readlink realpath"
)
_PATH = r"(?:'[^']+'|‘[^’]+’|\"[^\"]+\"|`[^`']+'|[.~]{0,2}/[^:]*|(?=[^:\s]*[^\W\d])[^:\s]+)"
_COMPLAINT = re.compile(
    rf"(?:line \d+: |\d+: )?(?:\w+: )?(?:[a-z][a-z' ]{{3,28}} )?"
    rf"(?:{_PATH}|\(standard (?:in|out)put\)|(?:write|read) (?:error|failed)(?:: {_PATH})?)"
    r": (?:Permission denied|Is a directory|Broken pipe)"
)
_ENVIRONMENT = re.compile(r"\b(env|printenv|export|declare|typeset|set)\b")
_SHELL_VARIABLES = re.compile(r"^(?:declare -\S+ |export )?(?:_|SHLVL)=.*\n?", re.MULTILINE)
"""Variables that each shell sets anew, in a printed environment."""

_TIMES, _ROOM = 4, 1 << 18
"""An answer longer than this many times the gold's, and so many characters, is refused unread."""

_NOTES = 4
"""Lines of an answer that need no word of the gold: titles and notes."""
_SPACES = re.compile(
    r"white ?space|\bblanks?\b|(?<!disk )(?<!free )\bspaces?\b(?!"
    r" (used|left|available|usage))|\btabs?\b|indent|\btrim|\bstrip"
    r"|\bpad|\balign|squeeze|\bempty lines?|new ?lines?|line"
    r" breaks?|\bfold(ed|ing)?\b|\bwrap|width|leading|trailing|justif"
    r"|\bcent(er|re)",
    re.IGNORECASE,
)
_SPACE_TOOLS = re.compile(
    r"\b(un)?expand\b|\bfold\b|\bfmt\b|\btr +-[a-z]*[sd][a-z]* +\S*("
    r" |\\t|\\n|:space:|:blank:)|\bcat +-\w*[sAvtTeE]"
)
_NUMBERS = re.compile(r"[\d.,\n]+")
_GIVES_SEPARATOR = re.compile(
    r"(?-i:\b[A-Z]{2,}[^\w\s`'\"/.]+[A-Z]{2,}\b)"
    r"|colon|\bformat|separat|delimit|\bcommas?\b|\bparted\b",
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
"""Tools that print a total themselves."""
_AVERAGE = re.compile(r"\b(average|mean|median|ratio|percent\w*)\b", re.IGNORECASE)
_AMOUNT = re.compile(rf"{_AVERAGE.pattern}|{_TOTAL.pattern}|\b(price|cost)\b", re.IGNORECASE)
_COMPUTES = re.compile(r"\bawk\b|\bbc\b|python|perl|\$\(\(")
_SHOWS = re.compile(r"^\s*(cat|head|tail|tac)\b")
"""A gold that prints a file unchanged."""
_DIGITS_COUNT = re.compile(r"decimal|digit|places|precision|round|version|release", re.IGNORECASE)
"""Words in a query that make every digit of a number count."""
_NUMBER = re.compile(
    r"(?<![\w.,:/-])-?[0-9]{1,18}(\.[0-9]{1,18})?(?![\w:/-]|[.,]\d)"
)  # no other script's digits
_SHORT = 1 << 10
"""Longest answer, in characters, whose amounts are compared with each of the gold's."""
_LINE_END = re.compile(r"\r(?:\n|\Z)")
_LISTED = re.compile(r"[-dlbcps][-rwxsStT]{9}")
_TRAILING = re.compile(
    r"trailing|\btrim|\bstrip|\bpad|\balign|justif|\bends? of|\bwidth", re.IGNORECASE
)
_BLANK_LINE = re.compile(r"[ \t]*\n")
_BLANKS = re.compile(r"[ \t]+")
_SAME_PATHS = [
    (re.compile(r"(?<![^ '\"(=])\./+(?=[^ /])"), ""),
    (re.compile(r"(?<=[^/:])//+"), "/"),
]
_FOLDERS = [(re.compile(r"(?<=[\w.-])/(?= |:|$)"), "")]
_TOOL_PREFIXES = [
    (re.compile(r"^([0-9a-f]{32,128}) \*?-$"), r"\1"),
    (re.compile(r"^(/bin/|/usr/bin/)?bash: line \d+: "), "bash: "),
]
_NUMBERED = [(re.compile(r"^(\d+)[:.)] ?(?=\D)"), r"\1 ")]
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(,\d{3})+(?![\w,])")
_SEPARATOR = re.compile(r" *(?:[,;|]|(?<![!<>=~])=(?![=~])|->|(?<!\d):|:(?!\d)) *")


def same_answer(ours: str, theirs: str, task: Task) -> bool:
    """Return whether the agent's output equals the gold's, apart from noise; the task gives the
    query and the gold's order."""
    if len(ours) > _TIMES * len(theirs) + _ROOM:
        return False
    ours, theirs = (without_colour(_LINE_END.sub("\n", text)) for text in (ours, theirs))
    if hides(ours, theirs):
        return False
    ours, theirs = without_shell_variables(ours, theirs, task.gold)
    key = order_key(task.gold, task.query)
    about_spaces = _SPACES.search(without_file_sentences(task.query)) or _SPACE_TOOLS.search(
        task.gold
    )
    exact = bool(about_spaces) and not _NUMBERS.fullmatch(theirs)
    exact = exact or bool(_BLANK_LINE.match(theirs) and sorts(task.gold))
    a, b = (_lines(text, task, key, exact) for text in without_complaints(ours, theirs))
    if not _TOTAL.search(task.query) and _without_total(b) == b:
        a = _without_total(a)
    elif not _TOTAL.search(task.query) and _COUNTS.search(task.gold) and _without_total(a) == a:
        b = _without_total(b)
    if len(a) > 2 * len(theirs.split()) + _NOTES or swaps_labels(a, b, task.query):
        return False
    spaced = exact and any(not line or line != " ".join(line.split()) for line in (*a, *b))
    for ours_now, theirs_now in _each_once(
        ((a, b), *_rebased(a, b, task), *_renumbered(a, b, task.query, task.gold))
    ):
        if _match(ours_now, theirs_now, key):
            return True
        readings = _each_once(_readings(ours_now, theirs_now, task))
        if not spaced and any(_same_without_extras(*read, key, task) for read in readings):
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
    """Return the lines without noise."""
    if exact:
        lines = text.rstrip("\n").split("\n")
        return lines if _TRAILING.search(task.query) else [line.rstrip() for line in lines]
    steps = [*_SAME_PATHS, *([] if _SLASH.search(task.query) else _FOLDERS), *_TOOL_PREFIXES]
    steps += [] if _FORMAT.search(about_the_answer(task.query)) else _NUMBERED
    lines = []
    for line in text.split("\n"):
        plain = _BLANKS.sub(" ", line).strip(" ")
        for pattern, kept in steps:
            plain = pattern.sub(kept, plain)
        lines.append(plain)
    return (
        "\n".join(lines).strip("\n").split("\n")
        if key is STRICT
        else [line for line in lines if line]
    )


def _rebased(a: Lines, b: Lines, task: Task) -> Iterator[tuple[Lines, Lines]]:
    """Yield both answers with paths relative to each folder that the task names, unless two lines
    become equal."""
    if (
        _PATHS.search(task.query)
        or "readlink" in task.gold
        or any("/" in line and line in task.query.split() for line in b)
    ):
        return
    # the paths that gold and query name and the folders above them, absolute (everything starts
    # in `/`)
    folders = {"/"}
    for word in re.findall(
        r"(?<![\w./~$-])(?:\./|/)?[\w.@+-]+(?:/[\w.@+-]+)*", f"{task.gold} {task.query}"
    ):
        names = [name for name in word.split("/") if name not in ("", ".")]
        folders |= {"/" + "/".join(names[:end]) for end in range(1, len(names) + 1)}
    for folder in sorted(folders):
        # `.` may stand for a folder: what something below is printed of, or what the gold measures
        below = re.compile(rf"(?<![^ :='\"(,])/?{re.escape(folder.strip('/'))}/?(?<=/)[^ /]")
        dot = any(map(below.search, (*a, *b))) or bool(
            re.search(rf"\bdu\b[^|;&]* {re.escape(folder)}/?( |$)", task.gold)
        )
        ours, theirs = _relative(a, folder, dot), _relative(b, folder, dot)
        if len(set(ours)) == len(set(a)) and len(set(theirs)) == len(set(b)):
            yield ours, theirs


def _renumbered(a: Lines, b: Lines, query: str, gold: str) -> Iterator[tuple[Lines, Lines]]:
    """Yield our lines with amounts written as in the gold: `1.5` as 1.50; and of an average
    `1.496`, or `0.66` as 0.6667."""
    if (
        _AMOUNT.search(query)
        and not _DIGITS_COUNT.search(query)
        and all(len("".join(lines)) < _SHORT for lines in (a, b))
    ):
        wanted = [found[0] for found in _NUMBER.finditer("\n".join(b))]
        rounded = len(wanted) == 1 and bool(_AVERAGE.search(query) and _COMPUTES.search(gold))

        def as_theirs(ours: re.Match[str]) -> str:
            return next(
                (number for number in wanted if _same_amount(ours[0], number, rounded)), ours[0]
            )

        yield [_NUMBER.sub(as_theirs, line) for line in a], b


def _same_amount(ours: str, theirs: str, rounded: bool) -> bool:
    """Return whether two decimals are equal; if `rounded`, whether they are equal to the digits
    that both have, at least two after the point. Our number may be cut instead of rounded. A number
    that begins with needless zeros is a name.
    """
    if any(re.match(r"-?0\d", number) for number in (ours, theirs)):
        return ours == theirs
    a, b = Decimal(ours), Decimal(theirs)
    step = Decimal(1).scaleb(-min(len(number.partition(".")[2]) for number in (ours, theirs)))
    difference, cut = abs(a - b), len(ours) < len(theirs) and 0 <= abs(b) - abs(a) < step
    return a == b or (
        rounded and a * b > 0 and step < Decimal("0.1") and (2 * difference <= step or cut)
    )


def _without_total(lines: Lines) -> Lines:
    """Return the lines without `total 12` of ls, and without `7 total` of wc and du if the columns
    add up to it."""
    if (
        len(lines) > 1
        and re.fullmatch(r"total \S+", lines[0])
        and all(map(_LISTED.match, lines[1:]))
    ):
        return lines[1:]
    if len(lines) < 3 or not re.fullmatch(r"([0-9]{1,18} )+total", lines[-1]):
        return lines
    width = lines[-1].count(" ")
    rows = [
        [int(word) for word in line.split()[:width] if re.fullmatch("[0-9]{1,18}", word)]
        for line in lines
    ]
    added = all(len(row) == width for row in rows) and all(
        sum(column) == 2 * column[-1] for column in zip(*rows, strict=True)
    )
    return lines[:-1] if added else lines


def _relative(lines: Lines, folder: str, dot: bool) -> Lines:
    """Return the lines with paths below the folder made relative to it, and the folder itself as
    `.` if `dot`.

    Other paths stay, and so does a folder at the top: `root` is not `/root`.
    """
    start, end = r"(?<![^ :='\"(,])", r"(?=[ :,'\")]|$)"
    here = "/" if folder == "/" else rf"/?{re.escape(folder[1:])}"
    below = here if folder == "/" else f"{here}/"
    lines = [re.sub(f"{start}{here}{end}", ".", line) for line in lines] if dot else lines
    rest = "[^ /]+/[^ /]" if folder == "/" else "[^ /]"
    return [re.sub(f"{start}{below}(?={rest})", "", line) for line in lines]


def _same_value(a: Lines, b: Lines, task: Task) -> bool:
    """Return whether both print one equal value, and one of them also a file that the gold names
    (`3` and `3 notes.txt`)."""
    if len(a) != 1 or len(b) != 1 or _ONLY.search(task.query):
        return False
    short, long = sorted((a[0], b[0]), key=len)
    value, _, name = long.partition(" ")
    named = any(f"/{word}".endswith(f"/{name}") for word in _WORD_ENDS.split(task.gold))
    return bool(name and _VALUE.fullmatch(short)) and short == value and named


def _readings(a: Lines, b: Lines, task: Task) -> Iterator[tuple[Lines, Lines]]:
    """Yield readings of both: unchanged; ours without the columns of `ls -l`; ours with blanks for
    signs between words."""
    yield a, b
    if FORM.search(about_the_answer(task.query)):
        return
    bare = without_listing(a, b)
    if bare != a:
        yield bare, b
    if reshapes(task.query) or _GIVES_SEPARATOR.search(about_the_answer(task.query)):
        return
    wanted = {word for line in b for word in line.split()}

    def joined(number: re.Match[str]) -> str:
        """Return 1,234 as 1234 if the gold prints 1234."""
        plain = number[0].replace(",", "")
        return plain if plain in wanted else number[0]

    plain = [_SEPARATOR.sub(" ", _THOUSANDS.sub(joined, line)).strip() for line in a]
    yield plain, b


def _same_without_extras(a: Lines, b: Lines, key: Key, task: Task) -> bool:
    """Return whether the answers are equal without a sentence, a title or extra columns in the
    agent's.

    Where the gold prints one line with numbers or one word a line, the agent may print its words on
    more or fewer lines, unless the query says what a line is or the gold prints a file.
    """
    ours, theirs = without_extras(a, b, task.query), [" ".join(line.split()) for line in b]
    if ours is None or _match(ours, theirs, key):
        return ours is not None
    words, wanted = " ".join(ours).split(), " ".join(theirs).split()
    row = len(theirs) == 1 and any(map(_NUMBER.fullmatch, wanted))
    if len(ours) == len(theirs) or "" in theirs or not (row or len(theirs) == len(wanted)):
        return False
    if fixes_lines(task.query) or _SHOWS.search(task.gold):
        return False
    return words == wanted or (key is FREE and len(ours) == 1 and sorted(words) == sorted(wanted))


# -- colours and complaints: each is known by its whole form, so that no other text passes for one -


def without_colour(text: str) -> str:
    """Return the text without colours; a code that is no part of a pair stays, and so does a code
    that hides text."""
    return _COLOURED.sub(lambda found: _CODE.sub("", found[0]), text) if "\x1b" in text else text


def hides(ours: str, theirs: str) -> bool:
    """Return whether ours has invisible characters (other than blanks, tabs and line ends) that
    theirs has not."""
    return not set(_INVISIBLE.findall(ours)) <= set(_INVISIBLE.findall(theirs))


def without_complaints(ours: str, theirs: str) -> tuple[str, str]:
    """Return both texts without complaints about unreadable files, unless the gold prints nothing
    else."""
    a, b = (text.split("\n") for text in (ours, theirs))
    kept = [line for line in b if not _is_complaint(line)]
    if not any(kept) and any(b):
        return ours, theirs
    return "\n".join(line for line in a if not _is_complaint(line)), "\n".join(kept)


def without_shell_variables(ours: str, theirs: str, gold: str) -> tuple[str, str]:
    """Return both texts without `_` and `SHLVL`, if the gold prints an environment and not these
    variables alone."""
    kept = _SHELL_VARIABLES.sub("", theirs)
    return (
        (_SHELL_VARIABLES.sub("", ours), kept)
        if _ENVIRONMENT.search(gold) and kept.strip()
        else (ours, theirs)
    )


def _is_complaint(line: str) -> bool:
    tool = _TOOL.match(line)
    return bool(tool and tool["name"] in _TOOLS and _COMPLAINT.fullmatch(line[tool.end() :]))
