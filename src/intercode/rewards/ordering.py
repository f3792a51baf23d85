"""Whether a gold command orders the lines that it prints, read off the command itself.

    find . -name '*.c' | sort -rn | head -3
    └─ source: free ─┘   └ decides ┘  └ filter: keeps the order that it is given

The last pipeline is read from its end: filters are passed over, the first command that decides is the answer. Anything
unknown counts as ordered, so that a mistake here rather refuses a right answer than accepts a wrong one. Who picks lines of a
file by what they say (`grep x f | cut -f 1`) prints a set; who shows a file, or parts of it by their place, prints a text.

The result is a key: two answers have the same order if their lines have the same sequence of keys. `FREE` gives every
line the same key, `STRICT` its own, and a numeric sort the number it sorts by, so that lines that tie are free. What is told
of several things one by one (`stat -c %s a b`, `wc -l < a; wc -l < b`) has its place, as nothing else says what it is of;
a line that names one of them is free. So have several lines that a format makes of one thing, or that a usual `tr`, `sed`,
`awk` or `xargs` makes of its values (`wc < a | xargs -n 1`).
Left out: the inside of functions, `if`, `case` and braces (strict), and what a loop over names prints for each (free).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from intercode.rewards.demands import demanded

Key = Callable[[str], object]


def named(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


_TOKEN = re.compile(
    r"""\\. | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*` | \$?\( | [<>]\( | \) | [<>]&|&> | \|\||\|&?|&&?|;|\n | .""",
    re.VERBOSE | re.DOTALL,
)
_LOOP = re.compile(r"\b(for|while|until)\b(.*?)\bdo\b.*\bdone\b", re.DOTALL)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SUBSTITUTED = re.compile(r"\s*\w+=\$\((?:[^()]|\([^()]*\))*\)\s*$")
"""A command that does nothing but set a variable to what another prints."""
_ASKED = re.compile(
    r"\b(sort\w*|order(ed|ing)?|alphabet\w*|ascend\w*|increas\w*|decreas\w*|descend\w*|lexic\w*|chronolog\w*|rank\w*|top|revers\w*|sequen\w*"
    r"|(larg|bigg|small|long|short|high|low|new|old|lat|earli)est|(?<!at )(most|least)|first|last|recent\w*|(as|where) they)\b"
    r"|\ba to z\b|\bby (their |its |the )?(file ?)?(size|name|date|time|age|number|count|length|extension|frequency)\b",
    re.IGNORECASE,
)
"""Words of a query that ask for an order; without them a plain `sort`, `ls` or wildcard is taken for the gold's habit."""

_NO_ORDER = re.compile(
    r"\S*/\S*|\b(first|last|top)[ -](\w+ )?(columns?|fields?|words?|letters?|characters?|names?|parts?|levels?)\b",
    re.IGNORECASE,
)
"""What reads like an order and is none: paths, and what counts columns."""

_ANY = re.compile(r"\bin any order\b|\border (does not|doesn't) (matter|count)\b", re.IGNORECASE)
"""Words of a query that leave the order free, whatever the gold does."""

_FREE = named(
    "find locate du df ps env printenv set export declare alias which whereis type wc md5sum sha1sum sha224sum sha256sum "
    "sha384sum sha512sum cksum sum stat file basename dirname realpath readlink mount lsblk lsof netstat ss ip getent "
    "compgen who users w id groups lsmod dpkg jobs pgrep pidof test_free tar zipinfo unzip lsattr getfacl"
)
_MEASURES = named("stat file wc du df ps cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum")
"""Of these, those that tell values of a thing, each of another kind."""
_TOLD = (_MEASURES - named("df ps")) | named("readlink realpath dirname basename id getent printenv")
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
_AWKS = named("awk gawk mawk")
_ROWS = re.compile(r"%[^%]{0,80}(\\n|\n)[^%]{0,80}%")
"""A format that prints several lines of each thing."""
_FORMATS = frozenset(["-printf", "--printf"])
_ENDS = frozenset(["\\0", "\\00", "\\000", "\\r", "\\n", "\n"])
"""Of `tr`: what ends a line, or a name as `-print0` prints it."""
_AWK_PARTS = re.compile(
    r"""\bprint(f\b[^{};\n]{0,200}\\n"|\b)[^{};\n]{0,200}[;\n]\s*printf?\b | "[^"%]{0,80}%[^%"]{0,80}\\n[^"%]{0,80}%
    | (?<!RS=)"\\n"\s*[^\s};),] | sub\([^,]{0,80},\s*"[^"]{0,80}\\n""",
    re.VERBOSE,
)
_AWK_ONCE = re.compile(r"\b(BEGIN|END)\s*\{[^{}]*\}")
_EACH_ONCE = re.compile(r"! *\w+\[\$0\]\+\+")
"""How awk prints equal lines once: what is left is a set."""
_SED_PARTS = re.compile(
    r"""(?<![a-zA-Z]) s(\W) (?!\^?\1) (?:\\.|(?!\1)[^\\]){0,200} (?<!\$)\1
    (?!&\\n\1) (?:(?!\\n)\\.|(?!\1)[^\\]){0,200} \\[n\n]""",
    re.VERBOSE | re.DOTALL,
)
_ONE_FIELD = re.compile(
    r"""cut\ .*-f\ ?\d+(\ .*)? | [gm]?awk\ .*\{\ *print\ \$\w+\ *;?\ *\}(\ .*)?
    | (ps|df|stat|find|xargs)\ .*((-o\ ?|--output=)\w+=? | (-c\ ?|--format=)%\w)(\ .*)?""",
    re.VERBOSE | re.DOTALL,
)
"""What leaves one value of each thing, so that its parts are a set."""
_SILENT = named(
    "cd mkdir rmdir touch rm mv cp ln chmod chown chgrp unset test [ [[ true false : sleep wait gzip gunzip bzip2 bunzip2 "
    "xz unxz truncate install source . read mapfile readarray local shopt umask kill pkill pushd popd tar zip"
)
_WRAPPERS = named("sudo time command env nice nohup exec builtin then else do")
_GREP_VALUES = frozenset(["-A", "-B", "-C", "-m"])
_XARGS_VALUES = frozenset(["-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"])


def FREE(line: str) -> object:
    return None


def STRICT(line: str) -> object:
    return line


def order_key(gold: str, query: str) -> Key:
    """The key of the order in which `gold`, asked for by `query`, prints its lines."""
    if _ANY.search(demanded(query)):
        return FREE
    asked = bool(_ASKED.search(_NO_ORDER.sub(" ", query)))
    script = _LOOP.sub(lambda loop: _loop_name(loop, asked), gold)
    pipelines = printing(script)
    keys = [_pipeline_key(pipeline, asked) for pipeline in pipelines]
    if keys and all(key is FREE for key in keys):
        return _free_beside([thing for pipeline in pipelines for thing in _told_of(pipeline)])
    return keys[0] if len(keys) == 1 else STRICT


def _free_beside(things: Sequence[str]) -> Key:
    """Free, but for lines that name none of several things that the gold tells of one by one."""
    if len(things) < 2:
        return FREE
    names = [re.escape(thing.rstrip("/").rpartition("/")[2]) for thing in things if things.count(thing) == 1]
    named_one = re.compile(rf"(?<![\w.-])({'|'.join(filter(None, names)) or '(?!)'})(?![\w-]|\.\w)")
    return lambda line: None if named_one.search(line) else line


def _told_of(pipeline: Sequence[Sequence[str]]) -> list[str]:
    """What a pipeline tells of, if that is named one by one and not sorted; an empty name for what a command reads."""
    words = next((words for words in reversed(pipeline) if _tells(words) or words[:1] == ["sort"]), ["sort"])
    if words[0] == "sort":
        return []
    ends = zip(["", *words], words, strict=False)
    told = [word for last, word in ends if not re.match(r"-|\d?[<>&]|%", word) and not re.fullmatch(r"[12&]?>>?", last)]
    things = told[2 if "grep" in words[0] else 1 :]
    return [] if any(re.search(r"[*?[`]|\$\(", thing) for thing in things) else things or [""]


def _tells(words: Sequence[str]) -> bool:
    name = _name(words)
    return name in _TOLD or ("grep" in name and _has(words[1:], "c") and not _has(words[1:], "r"))


def printing(script: str) -> list[list[list[str]]]:
    """The pipelines that may print something, each a list of commands, each a list of words."""
    found = [[_words(command) for command in pipeline] for pipeline in split(script)]
    return [pipeline for pipeline in found if pipeline[-1] and not _silent(pipeline[-1])]


def split(script: str) -> list[list[str]]:
    """The commands of a script: a list of pipelines, cut at top level only (not in quotes, parentheses, backticks)."""
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
    """The words of a simple command, without assignments before it and wrappers such as sudo."""
    if _SUBSTITUTED.match(command):
        return []
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    while words and (words[0] in _WRAPPERS or _ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    return words


def _silent(words: Sequence[str]) -> bool:
    if any(re.match(r"1?>>?(?![&(])", word) for word in words):
        return True
    if words[0] == "sed":
        return any(re.match(r"-[nEr]*i|--in-place", word) for word in words)
    return words[0] in _SILENT and not _verbose(words)


def _verbose(words: Sequence[str]) -> bool:
    if words[0] == "tar":
        return len(words) > 1 and bool(re.match(r"-?[a-zA-Z]*[tvO]", words[1]))
    return any(re.match(r"-[a-z]*v|--verbose|-c$|--stdout", word) for word in words[1:])


def _loop_name(loop: re.Match[str], asked: bool) -> str:
    """A word that stands for a loop: the order of one over names that a wildcard or a command gave is free."""
    if loop[1] != "for":
        return "while_loop"
    return "test_free" if re.search(r"[*?`]|\$\(", loop[2]) and not asked else "for_loop"


def _pipeline_key(pipeline: Sequence[Sequence[str]], asked: bool) -> Key:
    if not asked and all(map(_line_by_line, pipeline)) and any(map(_picks, pipeline)):
        return STRICT if _splits(pipeline, 0) else FREE
    whole = True  # whether the lines are still those that the command printed
    for index in range(len(pipeline) - 1, -1, -1):
        key = _command_key(pipeline[index], asked, first=index == 0, whole=whole)
        if key is not None:
            return STRICT if key is FREE and _parts(pipeline, index) else key
        whole = whole and pipeline[index][:1] in (["head"], ["tail"], ["tee"])
    return STRICT


def _parts(pipeline: Sequence[Sequence[str]], start: int) -> bool:
    """Whether the values of one thing come on several lines, by a command from `start` on: by a format or a filter."""
    if any(_EACH_ONCE.search(_script(words)) for words in pipeline[start:]):
        return False
    return any(map(_rows, pipeline[start:])) or (any(map(_measures, pipeline)) and _splits(pipeline, start))


def _splits(pipeline: Sequence[Sequence[str]], start: int) -> bool:
    """Whether one from `start` on makes several lines of one that has several values."""
    places = [place for place in range(start, len(pipeline)) if _parts_lines(pipeline[place])]
    return bool(places) and not any(map(_leaves_one_field, pipeline[: places[0]]))


def _leaves_one_field(words: Sequence[str]) -> bool:
    return bool(_ONE_FIELD.fullmatch(" ".join([_name(words), *words[1:]])))


def _rows(words: Sequence[str]) -> bool:
    """Whether a format of `find` or `stat` prints several lines of each thing."""
    values = [word for last, word in zip(["", *words], words, strict=False) if last in _FORMATS or word.startswith("--printf=")]
    return any(map(_ROWS.search, values))


def _measures(words: Sequence[str]) -> bool:
    run = [word for last, word in zip(["", *words], words, strict=False) if last.startswith(("-exec", "-ok"))]
    run += _xargs_command(words[1:])[:1] if _name(words) == "xargs" else []
    return _name(words) in _MEASURES or not _MEASURES.isdisjoint(run)


def _parts_lines(words: Sequence[str]) -> bool:
    """Whether it makes several lines of one."""
    name, script = _name(words), _script(words)
    if name == "tr":
        operands = [word for word in words[1:] if word[:1] != "-"]
        return len(operands) > 1 and not _has(words, "d") and operands[0] not in _ENDS and operands[1].endswith(("\\n", "\n"))
    if name == "xargs":
        command = _xargs_command(words[1:])
        singly = re.search(r" (-\w*n ?|--max-args[ =])1( |$)", " ".join(words)) and not _has(words, "d0")
        return command == ["printf", "%s\\n"] or (bool(singly) and command in ([], ["echo"]))
    if name in _AWKS:
        return bool(_AWK_PARTS.search(_AWK_ONCE.sub("", script)))
    return name == "sed" and bool(_SED_PARTS.search(script))


def _name(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def _picks(words: Sequence[str]) -> bool:
    """Whether it prints the lines, or parts of them, that are of some kind, wherever they stand."""
    name, script = words[0] if words else "", _script(words)
    if name in ("grep", "egrep", "fgrep"):
        return not _has(words, "vABCmLcnb") and not any(word.startswith("--") for word in words)
    if name == "sed":
        return _has(words, "n") and bool(_SED_PICKS.fullmatch(script))
    return name in _AWKS and bool(_AWK_PICKS.fullmatch(script)) and not _AWK_MINDS.search(script)


def _line_by_line(words: Sequence[str]) -> bool:
    """Whether what it prints of a line depends on that line alone."""
    name, script = words[0] if words else "", _script(words)
    if name == "sed" and not _has(words, "n"):
        return bool(_SED_SHOWS.fullmatch(script))
    if name in _AWKS and _AWK_SHOWS.fullmatch(script):
        return not _AWK_MINDS.search(script)
    plain = (name == "cut") or (name == "cat" and len(words) < 3) or (name == "tr" and "\\n" not in "".join(words))
    return plain or _picks(words)


def _script(words: Sequence[str]) -> str:
    """The first argument that is neither an option nor the value of awk's -F and -v."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in ("-F", "-v") else 1 :]
    return rest[0] if rest else ""


def _command_key(words: Sequence[str], asked: bool, *, first: bool, whole: bool) -> Key | None:
    """What one command does to the order: a key if it decides, None if it keeps the order that it is given."""
    name, arguments = _name(words), words[1:]
    if name == "sort":
        return _sort_key(arguments, asked, whole)
    if name == "ls":
        return STRICT if asked or _has(arguments, "tSXvUcu") else FREE
    if "awk" in name and any(re.search(r"for\s*\(\s*\w+\s+in\s", word) for word in arguments):
        return FREE
    if name == "cat" and _has(arguments, "nb"):
        return STRICT
    if name == "xargs" and not first:
        return _xargs_key(arguments, asked)
    if name in _SORTED:
        return STRICT if asked else FREE
    if name in _FREE or ("grep" in name and first and _many(arguments)):
        return FREE
    return None if name in _FILTERS and not first else STRICT


def _xargs_key(arguments: Sequence[str], asked: bool) -> Key | None:
    rest = _xargs_command(arguments)
    return STRICT if rest[:1] == ["ls"] and (asked or _has(rest, "tSXvUcu")) else None


def _xargs_command(arguments: Sequence[str]) -> list[str]:
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in _XARGS_VALUES else 1 :]
    return rest


def _sort_key(arguments: Sequence[str], asked: bool, whole: bool) -> Key:
    if _has(arguments, "R"):
        return FREE
    plain = not any(word.startswith("--") for word in arguments) and not _has(arguments, "nghkVrMt")
    if plain:
        return STRICT if asked else FREE
    key = re.fullmatch(r"(?:-[nrh]+ )*(?:-k ?(\d+)(?:,\1)?[nrh]*)?(?: ?-[nrh]+)*", " ".join(arguments))
    numeric = key is not None and bool(re.search("[nh]", " ".join(arguments)))
    return _number_at(int(key[1] or 1)) if key is not None and numeric and whole else STRICT


def _number_at(field: int) -> Key:
    """The number (with its unit, as `sort -h` reads it) that the blank-separated field starts with."""

    def key(line: str) -> object:
        words = line.split()
        found = re.match(r"-?[\d.]+[KMGTP]?", words[field - 1]) if len(words) >= field else None
        return found[0] if found else ""

    return key


def _has(arguments: Sequence[str], letters: str) -> bool:
    """Whether one of these one-letter options is given, alone or in a group."""
    options = (word for word in arguments if re.match(r"-[a-zA-Z0-9]", word))
    return any(set(option[1:]) & set(letters) for option in options)


def _many(arguments: Sequence[str]) -> bool:
    """Whether a grep reads several files, or reports files rather than lines."""
    before = ["", *arguments]
    files = [word for word, last in zip(arguments, before, strict=False) if word[:1] != "-" and last not in _GREP_VALUES]
    return _has(arguments, "rRlLc") or len(files) > 2 or any("*" in word for word in files[1:])
