"""What a gold ends with, by its text.

It is no parser: what cannot run last is taken out (quoted texts, comments, here-documents, substitutions, redirections), and
the rest is cut where commands end. Compound commands (`if`, `while`, functions) end with a word that is no command.
"""

from __future__ import annotations

import re

_TELLING = {"diff", "cmp", "grep", "egrep", "fgrep", "zgrep", "test", "[", "[["}
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(?:[^\n]*\n)*?[ \t]*\2[ \t]*(?=\n|$)")
_QUOTED = re.compile(r"""(?P<comment>(?<![^\s;&|()])#[^\n]*)|\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)
_CONDITION = re.compile(r"\[\[\s[^\n]*?\s\]\]|\(\([^\n]*?\)\)")
_REDIRECTED = re.compile(r"\d*(?:&>>?|<<<|[<>]{1,2}[&|]?)[ \t]*[^\s;&|()]*")
_BRACE = re.compile(r"(?<!\S)[{}](?!\S)|[()]")
_END = re.compile(r"\|\||[;&\n]")
_ASSIGNED = re.compile(r"(?:\w+=\S*\s+)*")


def tells_by_status(gold: str) -> bool:
    """Whether status 1 is the answer of its last command: two files differ, nothing was found, or it is not so."""
    pipelines = [each.strip() for each in _END.split(_bare(gold)) if each.strip()]
    if not pipelines:
        return False
    if pipelines[-1].startswith("! "):
        return True
    command = _ASSIGNED.sub("", pipelines[-1].rpartition("|")[2].strip(), count=1)
    return command.partition(" ")[0].rpartition("/")[2] in _TELLING


def _bare(gold: str) -> str:
    text = _HEREDOC.sub(r"\3", gold.replace("\\\n", " "))
    text = _QUOTED.sub(lambda found: "" if found["comment"] else "''", text)
    text = _without_substitutions(text)
    for taken_out, left in ((_CONDITION, "[["), (_REDIRECTED, " "), (_BRACE, ";")):
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
