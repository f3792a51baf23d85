"""Decide whether a gold failed, from its exit status, its last command and its output.

Status 1 is an answer of a last command such as `grep` or `diff`, unless the last line is a complaint of that command or of
Bash. Any other status but 0 is a failure. The gold is not parsed: of `[ -f x ] && cat x` only `cat` is read, and status 1 of
an earlier command (by `&&`, `set -e` or `pipefail`) is taken for the status of the last command.
"""

from __future__ import annotations

import re

_ANSWERING = {
    "diff", "cmp", "zdiff", "zcmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep",
    "test", "[", "[[", "((", "!", "expr", "let",
}  # fmt: skip
_NOT_CODE = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|()])#[^\n]*|\$\(\(?|[<>]\(|\d*&?[<>]+&?[ \t]*[^\s;&|()]*""", re.DOTALL
)
"""Quoted texts, comments, redirections and the begin of a substitution."""
_COMMAND = re.compile(r"(?:^|&&|[;\n|&({])[\s({]*?(?:\w+=\S*\s+)*(?:[^\s;|&]*/)?(!(?=\s)|\[\[?(?=\s)|\(\(|[\w.+-]+)")
_COMPLAINT = re.compile(
    r"\S*bash: line \d+: |Try '|([^\s:]+): (?=.*(operand|No such|[Cc]annot|[Ii]nvalid|unrecognized|denied|\bnot\b|[Ff]ailed"
    r"|omitting|[Ee]rror|exists|Is a|[Uu]sage))"
)


def ends_in_failure(status: int | None, gold: str, output: str) -> bool:
    """Return whether the gold failed; status 1 of a `grep` that finds nothing, or of a `diff`, is no failure."""
    if status != 1:
        return bool(status)
    commands = _COMMAND.findall(_NOT_CODE.sub("''", gold))
    if not commands or commands[-1] not in _ANSWERING:
        return True
    complaint = _COMPLAINT.match(output.rstrip("\n").rpartition("\n")[2])
    return complaint is not None and complaint[1] in (None, commands[-1])


def only_fails(status: int | None, gold: str, output: str) -> bool:
    """Return whether the gold failed and printed nothing but complaints of its programs or of Bash."""
    lines = [_COMPLAINT.match(line) for line in output.splitlines() if line]
    return ends_in_failure(status, gold, output) and bool(lines) and all(found and (found[1] or "") in gold for found in lines)
