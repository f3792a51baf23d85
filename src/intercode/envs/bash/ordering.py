"""Whether a gold command orders the lines that it prints, read off the command itself.

    find . -name '*.c' | sort -rn | head -3
    └─ source: free ─┘   └ decides ┘  └ filter: keeps the order that it is given

The last pipeline is read from its end: filters are passed over, the first command that decides is the answer. Anything
unknown counts as ordered, so that a mistake here rather refuses a right answer than accepts a wrong one. Who picks lines of a
file by what they say (`grep x f | cut -f 1`) prints a set; who shows a file, or parts of it by their place, prints a text.

The result is a key: two answers have the same order if their lines have the same sequence of keys. `FREE` gives every
line the same key, `STRICT` its own, and a numeric sort the number it sorts by, so that lines that tie are free. What is told
of several things one by one (`stat -c %s a b`, `wc -l < a; wc -l < b`) has its place, as nothing else says what it is of;
a line that names one of them is free.
Left out: the inside of functions, `if`, `case` and braces (strict), and what a loop over names prints for each (free).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from intercode.envs.bash.demands import demanded
from intercode.envs.bash.pipelines import AWKS, before, command_name, has_option, named, printing, script_of, xargs_command

Key = Callable[[str], object]

_LOOP = re.compile(r"\b(for|while|until)\b(.*?)\bdo\b.*\bdone\b", re.DOTALL)
_ASKED = re.compile(
    r"\b(sort\w*|order(ed|ing)?|alphabet\w*|ascend\w*|increas\w*|decreas\w*|descend\w*|lexic\w*|chronolog\w*|rank\w*|top|revers\w*|sequen\w*"
    r"|(larg|bigg|small|long|short|high|low|new|old|lat|earli)est|(?<!at )(most|least)|first|last|recent\w*|(as|where) they)\b"
    r"|\ba to z\b|\bby (their |its |the )?(file ?)?(size|name|date|time|age|number|count|length|extension|frequency)\b",
    re.IGNORECASE,
)
"""Words of a query that ask for an order; without them a plain `sort`, `ls` or wildcard is taken for the gold's habit."""

_NO_ORDER = re.compile(r"(?<!\S)\S*/\S*|\b(first|last|top)[ -](\w+ )?(column|field|word|letter|name|level)s?\b", re.IGNORECASE)
"""What reads like an order and is none: paths, and what counts columns."""

_ANY = re.compile(r"\bin any order\b|\border (does not|doesn't) (matter|count)\b", re.IGNORECASE)
"""Words of a query that leave the order free, whatever the gold does."""

_FREE = named(
    "find locate du df ps env printenv set export declare alias which whereis type wc md5sum sha1sum sha224sum sha256sum "
    "sha384sum sha512sum cksum sum stat file basename dirname realpath readlink mount lsblk lsof netstat ss ip getent "
    "compgen who users w id groups lsmod dpkg jobs pgrep pidof test_free tar zipinfo unzip lsattr getfacl"
)
_TOLD = named(
    "stat file wc du cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "readlink realpath dirname basename id getent printenv"
)
"""Those that tell something of each of their arguments, or of what they read."""
_SORTED = named("comm join")
"""These keep the order of sorted files."""
_FILTERS = named(
    "grep egrep fgrep zgrep sed awk gawk mawk cut tr rev head tail uniq column paste tee cat expand unexpand fold fmt iconv "
    "perl jq xargs while_loop more less"
)
_AWK_PICKS = re.compile(r"\s*(?!!)[^{},\s][^{},]*(\{[^{}]*\}\s*)?")
"""An awk program of one rule that holds for the lines of a kind."""
_AWK_SHOWS = re.compile(r"\s*\{[^{}]*\}\s*")
_AWK_MINDS = re.compile(r"\b(N?F?NR|BEGIN|END|RS|ORS|getline|next|exit)\b|(?<![=!<>~])=(?![=~])|\+\+|--|\+=")
"""What an awk program has that knows of other lines than the one at hand."""
_SED_PICKS = re.compile(r"(/[^,]*/I? *)?(s(\W).*\3[gI]*)?p")
_SED_SHOWS = re.compile(r"s(\W).*\1[gI]*(; *s(\W).*\3[gI]*)*")
_GREP_VALUES = frozenset(["-A", "-B", "-C", "-m"])


def FREE(line: str) -> object:
    return None


def STRICT(line: str) -> object:
    return line


def order_key(gold: str, query: str) -> Key:
    """The key of the order in which `gold`, asked for by `query`, prints its lines."""
    if _ANY.search(demanded(query)):
        return FREE
    asked = bool(_ASKED.search(_NO_ORDER.sub(" ", query)))

    def loop_name(loop: re.Match[str]) -> str:
        """A word that stands for a loop: the order of one over names that a wildcard or a command gave is free."""
        free = "test_free" if re.search(r"[*?`]|\$\(", loop[2]) and not asked else "for_loop"
        return free if loop[1] == "for" else "while_loop"

    pipelines = printing(_LOOP.sub(loop_name, gold))
    keys = [_pipeline_key(pipeline, asked) for pipeline in pipelines]
    if keys and all(key is FREE for key in keys):
        things = [thing for pipeline in pipelines for thing in _told_of(pipeline)]
        if len(things) < 2:
            return FREE
        names = [re.escape(thing.rstrip("/").rpartition("/")[2]) for thing in things if things.count(thing) == 1]
        named_one = re.compile(rf"(?<![\w.-])({'|'.join(filter(None, names)) or '(?!)'})(?![\w-]|\.\w)")
        return lambda line: None if named_one.search(line) else line
    return keys[0] if len(keys) == 1 else STRICT


def sorts(gold: str) -> bool:
    """Whether what `gold` prints passes through `sort`."""
    return any(command_name(words) == "sort" for pipeline in printing(gold) for words in pipeline)


def _told_of(pipeline: Sequence[Sequence[str]]) -> list[str]:
    """What a pipeline tells of, if that is named one by one and not sorted; an empty name for what a command reads."""
    for words in reversed(pipeline):
        name = command_name(words)
        counts = "grep" in name and has_option(words[1:], "c") and not has_option(words[1:], "r")
        if name in _TOLD or counts or name == "sort":
            break
    else:
        return []
    if name == "sort":
        return []
    ends = before(words)
    told = [word for last, word in ends if not re.match(r"-|\d?[<>&]|%", word) and not re.fullmatch(r"[12&]?>>?", last)]
    things = told[2 if "grep" in words[0] else 1 :]
    return [] if any(re.search(r"[*?[`]|\$\(", thing) for thing in things) else things or [""]


def _pipeline_key(pipeline: Sequence[Sequence[str]], asked: bool) -> Key:
    if not asked and all(map(_line_by_line, pipeline)) and any(map(_picks, pipeline)):
        return FREE
    whole = True  # whether the lines are still those that the command printed
    for index in range(len(pipeline) - 1, -1, -1):
        key = _command_key(pipeline[index], asked, first=index == 0, whole=whole)
        if key is not None:
            return key
        whole = whole and pipeline[index][:1] in (["head"], ["tail"], ["tee"])
    return STRICT


def _picks(words: Sequence[str]) -> bool:
    """Whether it prints the lines, or parts of them, that are of some kind, wherever they stand."""
    name, script = words[0] if words else "", script_of(words)
    if name in ("grep", "egrep", "fgrep"):
        return not has_option(words, "vABCmLcnb") and not any(word.startswith("--") for word in words)
    if name == "sed":
        return has_option(words, "n") and bool(_SED_PICKS.fullmatch(script))
    return name in AWKS and bool(_AWK_PICKS.fullmatch(script)) and not _AWK_MINDS.search(script)


def _line_by_line(words: Sequence[str]) -> bool:
    """Whether what it prints of a line depends on that line alone."""
    name, script = words[0] if words else "", script_of(words)
    if name == "sed" and not has_option(words, "n"):
        return bool(_SED_SHOWS.fullmatch(script))
    if name in AWKS and _AWK_SHOWS.fullmatch(script):
        return not _AWK_MINDS.search(script)
    plain = (name == "cut") or (name == "cat" and len(words) < 3) or (name == "tr" and "\\n" not in "".join(words))
    return plain or _picks(words)


def _command_key(words: Sequence[str], asked: bool, *, first: bool, whole: bool) -> Key | None:
    """What one command does to the order: a key if it decides, None if it keeps the order that it is given."""
    name, arguments = command_name(words), words[1:]
    if name == "sort":
        return _sort_key(arguments, asked, whole)
    if name == "ls":
        return STRICT if asked or has_option(arguments, "tSXvUcu") else FREE
    if "awk" in name and any(re.search(r"for\s*\(\s*\w+\s+in\s", word) for word in arguments):
        return FREE
    if name == "cat" and has_option(arguments, "nb"):
        return STRICT
    if name == "xargs" and not first:
        run = xargs_command(arguments)
        return STRICT if run[:1] == ["ls"] and (asked or has_option(run, "tSXvUcu")) else None
    if name in _SORTED:
        return STRICT if asked else FREE
    if "grep" in name and first:  # of several files, or of files rather than lines
        files = [word for last, word in before(arguments) if word[:1] != "-" and last not in _GREP_VALUES]
        if has_option(arguments, "rRlLc") or len(files) > 2 or any("*" in word for word in files[1:]):
            return FREE
    if name in _FREE:
        return FREE
    return None if name in _FILTERS and not first else STRICT


def _sort_key(arguments: Sequence[str], asked: bool, whole: bool) -> Key:
    if has_option(arguments, "R"):
        return FREE
    plain = not any(word.startswith("--") for word in arguments) and not has_option(arguments, "nghkVrMt")
    if plain:
        return STRICT if asked else FREE
    key = re.fullmatch(r"(?:-[nrh]+ )*(?:-k ?(\d+)(?:,\1)?[nrh]*)?(?: ?-[nrh]+)*", " ".join(arguments))
    if key is None or not re.search("[nh]", " ".join(arguments)) or not whole:
        return STRICT
    # the number, with its unit as `sort -h` reads it, that the blank-separated field starts with
    number = re.compile(rf"\s*(?:\S+\s+){{{int(key[1] or 1) - 1}}}(-?[\d.]+[KMGTP]?)")
    return lambda line: found[1] if (found := number.match(line)) else ""
