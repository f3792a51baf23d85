"""Whether a pipeline prints several lines of each thing, by a format or by a usual `tr`, `sed`, `awk` or `xargs`.

    find . -printf '%p\\n%s\\n'       wc < a | xargs -n 1       stat -c '%s %n' * | tr ' ' '\\n'

Their order counts, as nothing else says which value is of which kind. The parts of a single field are a set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from intercode.rewards.pipelines import AWKS, before, command_name, has_option, named, script_of, xargs_command

MEASURES = named("stat file wc du df ps cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum")
"""Commands that tell values of a thing, each of another kind."""
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


def in_parts(pipeline: Sequence[Sequence[str]], start: int) -> bool:
    """Whether the values of one thing come on several lines, by a command from `start` on: by a format or a filter."""
    if any(_EACH_ONCE.search(script_of(words)) for words in pipeline[start:]):
        return False
    return any(map(_rows, pipeline[start:])) or (any(map(_measures, pipeline)) and splits(pipeline, start))


def splits(pipeline: Sequence[Sequence[str]], start: int) -> bool:
    """Whether one from `start` on makes several lines of one that has several values."""
    places = [place for place in range(start, len(pipeline)) if _parts_lines(pipeline[place])]
    return bool(places) and not any(map(_leaves_one_field, pipeline[: places[0]]))


def _leaves_one_field(words: Sequence[str]) -> bool:
    return bool(_ONE_FIELD.fullmatch(" ".join([command_name(words), *words[1:]])))


def _rows(words: Sequence[str]) -> bool:
    """Whether a format of `find` or `stat` prints several lines of each thing."""
    values = [word for last, word in before(words) if last in _FORMATS or word.startswith("--printf=")]
    return any(map(_ROWS.search, values))


def _measures(words: Sequence[str]) -> bool:
    run = [word for last, word in before(words) if last.startswith(("-exec", "-ok"))]
    run += xargs_command(words[1:])[:1] if command_name(words) == "xargs" else []
    return command_name(words) in MEASURES or not MEASURES.isdisjoint(run)


def _parts_lines(words: Sequence[str]) -> bool:
    """Whether it makes several lines of one."""
    name = command_name(words)
    if name in AWKS:
        return bool(_AWK_PARTS.search(_AWK_ONCE.sub("", script_of(words))))
    if name == "sed":
        return bool(_SED_PARTS.search(script_of(words)))
    return _tr_parts(words) if name == "tr" else name == "xargs" and _xargs_parts(words)


def _tr_parts(words: Sequence[str]) -> bool:
    operands = [word for word in words[1:] if word[:1] != "-"]
    if len(operands) < 2 or has_option(words, "d"):
        return False
    return operands[0] not in _ENDS and operands[1].endswith(("\\n", "\n"))


def _xargs_parts(words: Sequence[str]) -> bool:
    command = xargs_command(words[1:])
    singly = re.search(r" (-\w*n ?|--max-args[ =])1( |$)", " ".join(words)) and not has_option(words, "d0")
    return command == ["printf", "%s\\n"] or (bool(singly) and command in ([], ["echo"]))
