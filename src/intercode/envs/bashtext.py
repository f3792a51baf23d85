"""What a gold ends with, by its text.

It is no parser: what cannot run last is taken out (quoted texts, comments, here-documents, substitutions, redirections), and
the rest is cut where commands end. Compound commands (`if`, `while`, functions) end with a word that is no command; quotes in a
substitution that is quoted itself, and those of `$'…'`, are cut as if they were plain ones.
"""

from __future__ import annotations

import re

_TELLING = {"diff", "cmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep", "test", "[", "[["}
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(?:[^\n]*\n)*?[ \t]*\2[ \t]*(?=\n|$)")
_QUOTED = re.compile(r"""(?P<comment>(?<![^\s;&|()])#[^\n]*)|\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)
_CONDITION = re.compile(r"\[\[\s[^\n]{0,500}?\s\]\]|\(\([^\n]{0,500}?\)\)")
_REDIRECTED = re.compile(r"(?<!\d)\d*(?:&>>?|<<<|[<>]{1,2}[&|]?)[ \t]*[^\s;&|()]*")
_BRACE = re.compile(r"(?<!\S)[{}](?!\S)|[()]")
_LIST = re.compile(r"(?<!&)&(?!&)|[;\n]")
_CHAINED = re.compile(r"(&&|\|\|)")
_ASSIGNED = re.compile(r"(?:\w+=\S*\s+)*")


def tells_by_status(gold: str) -> bool:
    """Whether status 1 can be the answer of its last command: two files differ, nothing was found, or it is not so."""
    return any(_tells(each) for each in _last_to_run(_bare(gold)))


def _last_to_run(text: str) -> list[str]:
    """The pipelines that can give the status: what stands last, and what `&&` puts before it."""
    lists = [each.strip() for each in _LIST.split(text) if each.strip()]
    *before, last = [each.strip() for each in _CHAINED.split(lists[-1])] if lists else [""]
    found = [last]
    while len(before) > 1 and before.pop() == "&&":
        found.append(before.pop())
    return found


def _tells(pipeline: str) -> bool:
    if pipeline.startswith("! "):
        return True
    words = _ASSIGNED.sub("", pipeline.rpartition("|")[2].strip(), count=1).split()
    return bool(words) and words[0].rpartition("/")[2] in _TELLING


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
