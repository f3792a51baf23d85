"""What a gold ends with, by its text and by the last line that it printed.

It is no parser: what cannot run last is taken out (quoted texts, comments, here-documents, substitutions, redirections), and
the rest is cut where commands end. Compound commands (`if`, `while`, functions) end with a word that is no command, and so do
those that run another (`time`, `env`). Quotes in a substitution that is quoted itself, and those of `$'…'`, are cut as if they
were plain ones.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MARK = "\0"
"""Stands where a redirection was."""
_TELLING = {"diff", "cmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep", "test", "[", "[[", "!"}
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(?:[^\n]*\n)*?[ \t]*\2[ \t]*(?=\n|$)")
_QUOTED = re.compile(r"""(?P<comment>(?<![^\s;&|()])#[^\n]*)|\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)
_CONDITION = re.compile(r"\[\[\s[^\n]{0,500}?\s\]\]|\(\([^\n]{0,500}?\)\)")
_REDIRECTED = re.compile(r"(?<!\d)\d*(?:&>>?|<<<|[<>]{1,2}[&|]?)[ \t]*[^\s;&|()]*")
_BRACE = re.compile(r"(?<!\S)[{}](?!\S)|[()]")
_LIST = re.compile(r"(?<!&)&(?!&)|[;\n]")
_CHAINED = re.compile(r"(&&|\|\|)")
_COMPLAINT = re.compile(r"(\S*bash: line \d+: )?(?P<name>[^\s:]+): (.+)")
_ASSIGNED = re.compile(r"(?:\w+=\S*\s+)*")


class End(NamedTuple):
    """The list that runs last. `names`: of commands that can give its status, the last first, then what `&&` puts before."""

    names: list[str]
    redirected: bool


def answers(gold: str, said: str) -> bool:
    """Whether status 1 is the answer of the command that gave it: two files differ, nothing was found, or it is not so.

    Behind `&&` several can have given it. One that fails says why in the last line; one that answers lets none follow that
    could print.
    """
    end = find_end(gold)
    if end.names[0] in _TELLING:
        return not _complains(said.rstrip("\n").rpartition("\n")[2], end)
    return not said.strip() and any(name in _TELLING for name in end.names)


def find_end(gold: str) -> End:
    lists = [each.strip() for each in _LIST.split(_bare(gold)) if each.strip(f" {_MARK}")]
    last = lists[-1] if lists else ""
    *before, command = _CHAINED.split(last.replace(_MARK, " "))
    names = [_name(command)]
    while before and before.pop() == "&&":
        names.append(_name(before.pop()))
    return End(names, _MARK in last)


def _name(pipeline: str) -> str:
    if pipeline.split()[:1] == ["!"]:
        return "!"
    words = _ASSIGNED.sub("", pipeline.rpartition("|")[2].strip(), count=1).split()
    return words[0].rpartition("/")[2] if words else ""


def _complains(line: str, end: End) -> bool:
    """Whether one of its commands failed, or a redirection of theirs, of which Bash tells without a command's name."""
    found = _COMPLAINT.fullmatch(line)
    if not found or found["name"] == "warning":
        return False
    by_bash, name, why = found.groups()
    if name in end.names:
        return bool(by_bash) or name not in _TELLING
    return bool(by_bash) and end.redirected and ": " not in why


def _bare(gold: str) -> str:
    text = _HEREDOC.sub(r"\3", gold.replace("\\\n", " "))
    text = _QUOTED.sub(lambda found: "" if found["comment"] else "''", text)
    text = _without_substitutions(text)
    for taken_out, left in ((_CONDITION, "[["), (_REDIRECTED, f" {_MARK} "), (_BRACE, ";")):
        text = taken_out.sub(left, text)
    return text


def _without_substitutions(text: str) -> str:
    kept, depth = [], 0
    for before, here in zip(" " + text, text, strict=False):
        if depth:
            depth += {"(": 1, ")": -1}.get(here, 0)
        elif here == "(" and before in "$<>":
            depth = 1
        else:
            kept.append(here)
    return "".join(kept)
