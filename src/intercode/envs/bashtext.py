"""What a gold ends with, by its text and by the last line that it printed.

It is no parser: what cannot run last is taken out (quoted texts, comments, here-documents, substitutions, redirections), and
the rest is cut where commands end. Compound commands (`if`, `while`, functions) end with a word that is no command, and so do
those that run another (`time`, `env`). Quotes in a substitution that is quoted itself, and those of `$'…'`, are cut as if they
were plain ones. Where a text can end early, a complaint that it overcomes (`set -e; rm x || true`) is taken for a failure;
a failure that says nothing, or not in these words, is not seen, nor are `shopt` and a `set` that is quoted (`eval`, `trap`). An
answer that itself ends the last list (`grep x f || exit 1`) is taken for a failure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PLAIN, _MERGED, _STDERR = "\0", "\1", "\2"
"""Stand where a redirection was: `2>&1` is the merged one, which hides errors only beside another (`> file 2>&1`)."""
_MARK = re.compile("[\0-\2]")
_TELLING = {
    "diff", "cmp", "zdiff", "zcmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep",
    "test", "[", "[[", "!", "expr", "let",
}  # fmt: skip
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w++)\1([^\n]{0,500})\n(?:[^\n]*\n){0,500}?[ \t]*\2[ \t]*(?=\n|$)")
_QUOTED = re.compile(r"""(?P<comment>(?<![^\s;&|()])#[^\n]*)|\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)
_CONDITION = re.compile(r"\[\[\s[^\n]{0,500}?\s\]\]|\(\([^\n]{0,500}?\)\)")
"""At most so long, for a long text to take no longer than its length."""
_REDIRECTED = re.compile(r"(?<!\d)\d*(?:&>>?|<<<|[<>]{1,2}[&|]?)[ \t]*[^\s;&|()]*")
_BRACE = re.compile(r"(?<!\S)[{}](?!\S)|[()]")
_LIST = re.compile(r"(?<!&)&(?!&)|[;\n]")
_CHAINED = re.compile(r"(&&|\|\|)")
_UNFINISHED = re.compile(r"(&&|\|)[ \t]*\n")
WARNING = re.compile(r"(?:\S+: )?warning: (?!No such)")
"""What Bash says, under its own name or a builtin's, of what succeeds all the same."""
_COMPLAINT = re.compile(r"(?:(?P<bash>\S*bash: line \d+: )|(?=[^\s:]+: ))(?P<name>[^:]+): (?P<why>.+)")
_ERROR = re.compile(
    r"operand|No such|[Cc]annot|[Ii]nvalid|unrecognized|denied|\bnot\b|[Ff]ailed|omitting|[Ee]rror|exists|Is a|[Uu]sage"
)
"""What a tool's complaint says, and its remarks do not (`tar: Removing leading ...`)."""
_ADVICE = re.compile(r"Try '.+ --help' for more information\.")
_ABANDONS = re.compile(r"^\w+: readonly variable$|^[^:]*: division by 0|^[^:]*: bad substitution$|^no match: ")
"""Why Bash gives up the text, and not only a builtin (`let`). Of a subshell alone it says the same."""
_ENDS_EARLY = re.compile(
    r"(?:^|[;&|\n!]|\b(?:if|elif|while|until|then|else|do|time|eval|command|builtin)\b)(?:[\0-\2 \t]|\w+=\S*[ \t]){0,20}"
    r"(?:(?:exit|return)(?![^\s;&|])|set[ \t](?:[^;&|\n]{0,200}[ \t])?-(?:\w*e|\w*o[ \t]+(?:errexit|pipefail)))"
)
"""A command that ends the text, or lets any other end it."""
_ASSIGNED = re.compile(r"(?:\w+=\S*\s+)*")


class End(NamedTuple):
    """The list of commands that runs last."""

    names: list[str]
    """Of the commands that can give its status: the last one, then those that `&&` puts before it."""
    redirected: bool
    hidden: bool
    """Whether errors are not printed."""
    early: bool
    """Whether a command before it can have given the status: by `exit` or `return`, `set -e` or `pipefail`."""


def answers(gold: str, said: str) -> bool:
    """Whether status 1 is the answer of the command that gave it: two files differ, nothing was found, or it is not so.

    Behind `&&` several can have given it. One that fails says why in the last line, unless that is hidden; one that answers
    lets none follow that could print. Where the text can end early, any command that says why it failed may have ended it.
    """
    end = _end(gold)
    if end.early and any(_fails(line, gold) for line in said.splitlines()):
        return False
    if end.names[0] in _TELLING:
        return not _complains(said.rstrip("\n").rpartition("\n")[2], end)
    return not (said.strip() or end.hidden) and any(name in _TELLING for name in end.names)


def ends_in_failure(status: int | None, gold: str, said: str) -> bool:
    """Not where status 1 is the answer of a `grep` that finds nothing, or of a `diff`. `said` is what was printed."""
    return bool(status) and not (status == 1 and answers(gold, said))


def only_fails(status: int | None, gold: str, said: str) -> bool:
    """Whether the gold ends in failure, and all that it printed are errors."""
    lines = said.split("\n") if said.strip() and ends_in_failure(status, gold, said) else []
    return any(lines) and all(not line or _fails(line, gold) or _ADVICE.fullmatch(line) for line in lines)


def _fails(line: str, gold: str) -> bool:
    found = _complaint(line)
    return found is not None and bool(found["bash"] or (found["name"] in gold and _ERROR.search(found["why"])))


def _complaint(line: str) -> re.Match[str] | None:
    found = _COMPLAINT.fullmatch(line)
    return found if found and not WARNING.match(f"{found['name']}: {found['why']}") else None


def _end(gold: str) -> End:
    bare = _bare(gold)
    parts = _LIST.split(bare)
    at = max((at for at, each in enumerate(parts) if _MARK.sub("", each).strip()), default=0)
    *before, command = _CHAINED.split(_MARK.sub(" ", parts[at]))
    names = [_name(command)]
    while before and before.pop() == "&&":
        names.append(_name(before.pop()))
    marks = _MARK.findall("".join(parts[at:]))
    return End(names, bool(marks), _STDERR in marks or (_MERGED in marks and len(marks) > 1), bool(_ENDS_EARLY.search(bare)))


def _name(pipeline: str) -> str:
    if pipeline.split()[:1] == ["!"]:
        return "!"
    words = _ASSIGNED.sub("", pipeline.rpartition("|")[2].strip(), count=1).split()
    return words[0].rpartition("/")[2] if words else ""


def _complains(line: str, end: End) -> bool:
    """Whether one of its commands failed, or a redirection of theirs, of which Bash tells without a command's name."""
    found = _complaint(line)
    if not found:
        return False
    name = found["name"].replace("((", "[[")
    if found["bash"] and name not in _TELLING and _ABANDONS.search(f"{name}: {found['why']}"):
        return True
    if name in end.names:
        return bool(found["bash"]) or (name not in _TELLING and bool(_ERROR.search(found["why"])))
    return bool(found["bash"]) and end.redirected and ": " not in found["why"]


def _bare(gold: str) -> str:
    text = _HEREDOC.sub(r"\3", gold.replace("\\\n", " "))
    text = _QUOTED.sub(lambda found: "" if found["comment"] else "''", text)
    text = _without_substitutions(text)
    text = _REDIRECTED.sub(_marked, _CONDITION.sub("[[", text))
    return _BRACE.sub(";", _UNFINISHED.sub(r"\1 ", text))


def _marked(found: re.Match[str]) -> str:
    mark = _MERGED if found[0] == "2>&1" else _STDERR if found[0].startswith(("2>", "&>")) else _PLAIN
    return f" {mark} "


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
