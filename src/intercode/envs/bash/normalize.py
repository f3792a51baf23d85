"""What a terminal and its tools put beside an answer: colours, and complaints about files that may not be read.

Each is known by its whole form, so that nothing else passes for it: a colour is switched on before a text and off behind it; a
complaint begins with a tool's name and ends with what the kernel said of a path. Warnings are free text, and no noise.
"""

from __future__ import annotations

import re

from intercode.envs.bash.pipelines import named

_CONCEALS = r"(?:\d{1,3};){0,6}(?<!;5;)0?8[;m]"
_ON = rf"(?:\x1b\[0?m)?\x1b\[(?!0?m|{_CONCEALS})[0-9;]{{1,20}}m(?:\x1b\[K)?"
_OFF = r"(?:\x1b\[0?m(?:\x1b\[K)?){1,4}"
_COLOURED = re.compile(rf"(?:{_ON}[^\x1b]*+){{1,8}}{_OFF}|^{_OFF}|{_OFF}$", re.MULTILINE)
_CODE = re.compile(r"\x1b\[[0-9;]*[mK]")
_INVISIBLE = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

_TOOL = re.compile(r"(?:/(?:usr/)?bin/)?(?P<name>[a-z][a-z0-9]*): ")
_TOOLS = named(
    "bash sh dash find ls dir grep egrep fgrep rg du df cat tac head tail sort uniq wc cut paste tr nl comm join cmp diff tar "
    "gzip gunzip zcat cp mv rm mkdir rmdir ln touch chmod chown chgrp stat file tee awk gawk mawk sed perl python3 xargs rsync "
    "tree md5sum sha1sum sha256sum sha512sum cksum sum base64 od xxd strings split readlink realpath"
)
_PATH = r"(?:'[^']+'|‘[^’]+’|\"[^\"]+\"|`[^`']+'|[.~]{0,2}/[^:]*|(?=[^:\s]*[^\W\d])[^:\s]+)"
_SAID = re.compile(
    rf"(?:line \d+: |\d+: )?(?:\w+: )?(?:[a-z][a-z' ]{{3,28}} )?"
    rf"(?:{_PATH}|\(standard (?:in|out)put\)|(?:write|read) (?:error|failed)(?:: {_PATH})?)"
    r": (?:Permission denied|Is a directory|Broken pipe)"
)
_ENVIRONMENT = re.compile(r"\b(env|printenv|export|declare|typeset|set)\b")
_OF_SHELL = re.compile(r"^(?:declare -\S+ |export )?(?:_|SHLVL)=.*\n?", re.MULTILINE)
"""Variables of a printed environment that each shell sets anew."""


def without_colour(text: str) -> str:
    """The text as it stands without colours; a code that is no part of a pair stays, and so does what hides the text."""
    return _COLOURED.sub(lambda found: _CODE.sub("", found[0]), text) if "\x1b" in text else text


def hides(ours: str, theirs: str) -> bool:
    """Whether ours has characters that no one sees, other than blanks, tabs and line ends, and that theirs do not have."""
    return not set(_INVISIBLE.findall(ours)) <= set(_INVISIBLE.findall(theirs))


def without_complaints(ours: str, theirs: str) -> tuple[str, str]:
    """Both texts without lines about unreadable files, unless those are all that the gold has to say."""
    a, b = (text.split("\n") for text in (ours, theirs))
    kept = [line for line in b if not _is_complaint(line)]
    if not any(kept) and any(b):
        return ours, theirs
    return "\n".join(line for line in a if not _is_complaint(line)), "\n".join(kept)


def without_shell_variables(ours: str, theirs: str, gold: str) -> tuple[str, str]:
    """Both texts without `_` and `SHLVL`, where the gold prints an environment and not these alone."""
    kept = _OF_SHELL.sub("", theirs)
    return (_OF_SHELL.sub("", ours), kept) if _ENVIRONMENT.search(gold) and kept.strip() else (ours, theirs)


def _is_complaint(line: str) -> bool:
    tool = _TOOL.match(line)
    return bool(tool and tool["name"] in _TOOLS and _SAID.fullmatch(line[tool.end() :]))
