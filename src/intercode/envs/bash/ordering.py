"""Read from a gold command whether the order of the lines that it prints matters.

    find . -name '*.c' | sort -rn | head -3
    └─ source: free ─┘   └ decides ┘  └ filter: keeps the order of its input

The last pipeline is read from its end: filters are passed over, and the first command that decides
gives the result. An unknown command counts as ordered, so that a mistake here refuses a right
answer rather than accepts a wrong one. A command that picks lines of a file by their content (`grep
x f | cut -f 1`) prints a set; a command that prints a file, or parts of it by their position,
prints a text.

The result is a key: two answers have the same order if their lines have the same sequence of keys.
`FREE` gives every line the same key, `STRICT` the line itself, and a numeric sort the number that
it sorts by, so that ties are free. Lines about several arguments (`stat -c %s a b`, `wc -l < a; wc
-l < b`) keep their order, because nothing else says which argument a line is about; a line that
names its argument is free. Not read: the inside of functions, `if`, `case` and braces (strict), and
what a loop over names prints for each (free).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from intercode.envs.bash.wording import without_file_sentences, word_set

Key = Callable[[str], object]

_TOKEN = re.compile(
    r"""\\. | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*` | \$?\( | [<>]\( | \)
    | [<>]&|&> | \|\||\|&?|&&?|;|\n | .""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SUBSTITUTED = re.compile(r"\s*\w+=\$\((?:[^()]|\([^()]*\))*\)\s*$")
"""A command that only sets a variable to another command's output."""
AWKS = word_set("awk gawk mawk")
_XARGS_VALUES = frozenset(["-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"])
_SILENT = word_set(
    "cd mkdir rmdir touch rm mv cp ln chmod chown chgrp unset test [ [[ true false : sleep wait"
    " gzip gunzip bzip2 bunzip2 xz unxz truncate install source . read mapfile readarray local"
    " shopt umask kill pkill pushd popd tar zip"
)
_WRAPPERS = word_set("sudo time command env nice nohup exec builtin then else do")
_LOOP = re.compile(r"\b(for|while|until)\b(.*?)\bdo\b.*\bdone\b", re.DOTALL)
_ASKS_FOR_ORDER = re.compile(
    r"\b(sort\w*|order(ed|ing)?|alphabet\w*|ascend\w*|increas\w*|decreas\w*|descend\w*|lexic\w*"
    r"|chronolog\w*|rank\w*|top|revers\w*|sequen\w*"
    r"|(larg|bigg|small|long|short|high|low|new|old|lat|earli)est|(?<!at )(most|least)"
    r"|first|last|recent\w*|(as|where) they)\b|\ba to z\b"
    r"|\bby (their |its |the )?(file ?)?"
    r"(size|name|date|time|age|number|count|length|extension|frequency)\b",
    re.IGNORECASE,
)
"""Words in a query that ask for an order; without them a plain `sort`, `ls` or wildcard does not
make the order count."""

_NO_ORDER = re.compile(
    r"(?<!\S)\S*/\S*|\b(first|last|top)[ -](\w+ )?(column|field|word|letter|name|level)s?\b",
    re.IGNORECASE,
)
"""Text that only looks like a request for an order: paths, and `first column` and its like."""

_ANY = re.compile(r"\bin any order\b|\border (does not|doesn't) (matter|count)\b", re.IGNORECASE)
"""Words in a query that leave the order free, whatever the gold does."""

_FREE = word_set(
    "find locate du df ps env printenv set export declare alias which whereis type wc md5sum"
    " sha1sum sha224sum sha256sum sha384sum sha512sum cksum sum stat file basename dirname realpath"
    " readlink mount lsblk lsof netstat ss ip getent compgen who users w id groups lsmod dpkg jobs"
    " pgrep pidof free-loop tar zipinfo unzip lsattr getfacl"
)
_REPORTING = word_set(
    "stat file wc du cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "readlink realpath dirname basename id getent printenv"
)
"""Commands that print one line about each argument, or about their input."""
_SORTED = word_set("comm join")
"""Commands that keep the order of sorted files."""
_FILTERS = word_set(
    "grep egrep fgrep zgrep sed awk gawk mawk cut tr rev head tail uniq column paste tee cat expand"
    " unexpand fold fmt iconv perl jq xargs while-loop more less"
)
_AWK_PICKS = re.compile(r"\s*(?!!)[^{},\s][^{},]*(\{[^{}]*\}\s*)?")
"""An awk program of one rule with a condition."""
_AWK_SHOWS = re.compile(r"\s*\{[^{}]*\}\s*")
_AWK_USES_OTHER_LINES = re.compile(
    r"\b(N?F?NR|BEGIN|END|RS|ORS|getline|next|exit)\b|(?<![=!<>~])=(?![=~])|\+\+|--|\+="
)
"""Parts of an awk program that depend on other lines than the current one."""
_SED_PICKS = re.compile(r"(/[^,]*/I? *)?(s(\W).*\3[gI]*)?p")
_SED_SHOWS = re.compile(r"s(\W).*\1[gI]*(; *s(\W).*\3[gI]*)*")
_GREP_VALUES = frozenset(["-A", "-B", "-C", "-m"])


def FREE(line: str) -> object:
    return None


def STRICT(line: str) -> object:
    return line


def order_key(gold: str, query: str) -> Key:
    """Return the key of the order in which the gold prints its lines."""
    if _ANY.search(without_file_sentences(query)):
        return FREE
    order_asked = bool(_ASKS_FOR_ORDER.search(_NO_ORDER.sub(" ", query)))

    def loop_name(loop: re.Match[str]) -> str:
        """Return a word in the place of a loop; the order of a loop over the names of a wildcard or
        a command is free."""
        free = "free-loop" if re.search(r"[*?`]|\$\(", loop[2]) and not order_asked else "for-loop"
        return free if loop[1] == "for" else "while-loop"

    pipelines = printing(_LOOP.sub(loop_name, gold))
    keys = [_pipeline_key(pipeline, order_asked) for pipeline in pipelines]
    if keys and all(key is FREE for key in keys):
        things = [thing for pipeline in pipelines for thing in _reported(pipeline)]
        if len(things) < 2:
            return FREE
        names = [
            re.escape(thing.rstrip("/").rpartition("/")[2])
            for thing in things
            if things.count(thing) == 1
        ]
        named_one = re.compile(
            rf"(?<![\w.-])({'|'.join(filter(None, names)) or '(?!)'})(?![\w-]|\.\w)"
        )
        return lambda line: None if named_one.search(line) else line
    return keys[0] if len(keys) == 1 else STRICT


def sorts(gold: str) -> bool:
    """Return whether the gold's output passes through `sort`."""
    return any(command_name(words) == "sort" for pipeline in printing(gold) for words in pipeline)


def _reported(pipeline: Sequence[Sequence[str]]) -> list[str]:
    """Return the arguments that a pipeline prints a line about, if listed and not sorted; an empty
    name for its input."""
    for words in reversed(pipeline):
        name = command_name(words)
        counts = "grep" in name and has_option(words[1:], "c") and not has_option(words[1:], "r")
        if name in _REPORTING or counts or name == "sort":
            break
    else:
        return []
    if name == "sort":
        return []
    ends = with_predecessor(words)
    arguments = [
        word
        for last, word in ends
        if not re.match(r"-|\d?[<>&]|%", word) and not re.fullmatch(r"[12&]?>>?", last)
    ]
    things = arguments[2 if "grep" in words[0] else 1 :]
    return [] if any(re.search(r"[*?[`]|\$\(", thing) for thing in things) else things or [""]


def _pipeline_key(pipeline: Sequence[Sequence[str]], order_asked: bool) -> Key:
    if not order_asked and all(map(_line_by_line, pipeline)) and any(map(_picks, pipeline)):
        return FREE
    whole = True  # whether the lines are still those that the command printed
    for index in range(len(pipeline) - 1, -1, -1):
        key = _command_key(pipeline[index], order_asked, first=index == 0, whole=whole)
        if key is not None:
            return key
        whole = whole and pipeline[index][:1] in (["head"], ["tail"], ["tee"])
    return STRICT


def _picks(words: Sequence[str]) -> bool:
    """Return whether a command prints the lines that fit a condition, or parts of them, wherever
    they are."""
    name, script = words[0] if words else "", script_of(words)
    if name in ("grep", "egrep", "fgrep"):
        return not has_option(words, "vABCmLcnb") and not any(
            word.startswith("--") for word in words
        )
    if name == "sed":
        return has_option(words, "n") and bool(_SED_PICKS.fullmatch(script))
    return (
        name in AWKS
        and bool(_AWK_PICKS.fullmatch(script))
        and not _AWK_USES_OTHER_LINES.search(script)
    )


def _line_by_line(words: Sequence[str]) -> bool:
    """Return whether a command prints of a line what depends on that line alone."""
    name, script = words[0] if words else "", script_of(words)
    if name == "sed" and not has_option(words, "n"):
        return bool(_SED_SHOWS.fullmatch(script))
    if name in AWKS and _AWK_SHOWS.fullmatch(script):
        return not _AWK_USES_OTHER_LINES.search(script)
    plain = (
        (name == "cut")
        or (name == "cat" and len(words) < 3)
        or (name == "tr" and "\\n" not in "".join(words))
    )
    return plain or _picks(words)


def _command_key(
    words: Sequence[str], order_asked: bool, *, first: bool, whole: bool
) -> Key | None:
    """Return the key if the command decides the order, None if it keeps the order of its input."""
    name, arguments = command_name(words), words[1:]
    if name == "sort":
        return _sort_key(arguments, order_asked, whole)
    if name == "ls":
        return STRICT if order_asked or has_option(arguments, "tSXvUcu") else FREE
    if "awk" in name and any(re.search(r"for\s*\(\s*\w+\s+in\s", word) for word in arguments):
        return FREE
    if name == "cat" and has_option(arguments, "nb"):
        return STRICT
    if name == "xargs" and not first:
        run = xargs_command(arguments)
        return STRICT if run[:1] == ["ls"] and (order_asked or has_option(run, "tSXvUcu")) else None
    if name in _SORTED:
        return STRICT if order_asked else FREE
    if "grep" in name and first:  # of several files, or of files rather than lines
        files = [
            word
            for last, word in with_predecessor(arguments)
            if word[:1] != "-" and last not in _GREP_VALUES
        ]
        if (
            has_option(arguments, "rRlLc")
            or len(files) > 2
            or any("*" in word for word in files[1:])
        ):
            return FREE
    if name in _FREE:
        return FREE
    return None if name in _FILTERS and not first else STRICT


def _sort_key(arguments: Sequence[str], order_asked: bool, whole: bool) -> Key:
    if has_option(arguments, "R"):
        return FREE
    plain = not any(word.startswith("--") for word in arguments) and not has_option(
        arguments, "nghkVrMt"
    )
    if plain:
        return STRICT if order_asked else FREE
    key = re.fullmatch(
        r"(?:-[nrh]+ )*(?:-k ?(\d+)(?:,\1)?[nrh]*)?(?: ?-[nrh]+)*", " ".join(arguments)
    )
    if key is None or not re.search("[nh]", " ".join(arguments)) or not whole:
        return STRICT
    # the number, with its unit as `sort -h` reads it, that the blank-separated field starts with
    number = re.compile(rf"\s*(?:\S+\s+){{{int(key[1] or 1) - 1}}}(-?[\d.]+[KMGTP]?)")
    return lambda line: found[1] if (found := number.match(line)) else ""


# -- a script as its pipelines: quotes, parentheses and backticks are kept together, nothing is expa


def printing(script: str) -> list[list[list[str]]]:
    """Return the pipelines that may print something, each a list of commands, each a list of
    words."""
    found = [[_words(command) for command in pipeline] for pipeline in split(script)]
    return [pipeline for pipeline in found if pipeline[-1] and not _silent(pipeline[-1])]


def split(script: str) -> list[list[str]]:
    """Return the commands of a script: a list of pipelines, cut at top level only (not in quotes,
    parentheses, backticks)."""
    pipelines, depth = [[""]], 0
    for token in _TOKEN.findall(script):
        depth += token.endswith("(") and not token.startswith(("\\", "'", '"'))
        depth = max(0, depth - (token == ")"))
        if depth == 0 and token in ("|", "|&"):
            pipelines[-1].append("")
        elif depth == 0 and token in ("||", "&&", "&", ";", "\n"):
            pipelines.append([""])
        else:
            pipelines[-1][-1] += token
    return [pipeline for pipeline in pipelines if any(command.strip() for command in pipeline)]


def _words(command: str) -> list[str]:
    """Return the words of a simple command, without the assignments before it and without wrappers
    such as sudo."""
    if _SUBSTITUTED.match(command):
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    while words and words != ["env"] and (words[0] in _WRAPPERS or _ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    return words


def _silent(words: Sequence[str]) -> bool:
    if any(re.match(r"1?>>?(?![&(])", word) for word in words):
        return True
    if words[0] == "sed":
        return any(re.match(r"-[nEr]*i|--in-place", word) for word in words)
    if words[0] == "tar":
        return len(words) < 2 or not re.match(r"-?[a-zA-Z]*[tvO]", words[1])
    return words[0] in _SILENT and not any(
        re.match(r"-[a-z]*v|--verbose|-c$|--stdout", word) for word in words[1:]
    )


def command_name(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def with_predecessor(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word after its predecessor, which is empty for the first word."""
    return zip(["", *words], words, strict=False)


def script_of(words: Sequence[str]) -> str:
    """Return the first argument that is neither an option nor the value of awk's -F and -v."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in ("-F", "-v") else 1 :]
    return rest[0] if rest else ""


def xargs_command(arguments: Sequence[str]) -> list[str]:
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in _XARGS_VALUES else 1 :]
    return rest


def has_option(arguments: Sequence[str], letters: str) -> bool:
    """Return whether the arguments have one of these one-letter options, alone or in a group."""
    options = (word for word in arguments if re.match(r"-[a-zA-Z0-9]", word))
    return any(set(option[1:]) & set(letters) for option in options)
