"""A shell script as its pipelines: each a list of commands, each a list of words.

    cd x && find . -type f | sort; ls > y        →    [[["find", ".", "-type", "f"], ["sort"]]]    of those that print

Read as far as the order of lines needs it: quotes, parentheses and backticks are kept together, nothing is expanded.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence


def named(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


_TOKEN = re.compile(
    r"""\\. | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*` | \$?\( | [<>]\( | \) | [<>]&|&> | \|\||\|&?|&&?|;|\n | .""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SUBSTITUTED = re.compile(r"\s*\w+=\$\((?:[^()]|\([^()]*\))*\)\s*$")
"""A command that does nothing but set a variable to what another prints."""
AWKS = named("awk gawk mawk")
_XARGS_VALUES = frozenset(["-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"])
_SILENT = named(
    "cd mkdir rmdir touch rm mv cp ln chmod chown chgrp unset test [ [[ true false : sleep wait gzip gunzip bzip2 bunzip2 "
    "xz unxz truncate install source . read mapfile readarray local shopt umask kill pkill pushd popd tar zip"
)
_WRAPPERS = named("sudo time command env nice nohup exec builtin then else do")


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
    return words[0] in _SILENT and not any(re.match(r"-[a-z]*v|--verbose|-c$|--stdout", word) for word in words[1:])


def command_name(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def before(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word behind the one that stands before it, which is empty for the first."""
    return zip(["", *words], words, strict=False)


def script_of(words: Sequence[str]) -> str:
    """The first argument that is neither an option nor the value of awk's -F and -v."""
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
    """Whether one of these one-letter options is given, alone or in a group."""
    options = (word for word in arguments if re.match(r"-[a-zA-Z0-9]", word))
    return any(set(option[1:]) & set(letters) for option in options)
