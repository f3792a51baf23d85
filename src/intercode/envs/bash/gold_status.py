"""Whether a gold ended in failure, by its status, its last command, and what it printed.

Status 1 is the answer of a last command such as `grep` or `diff`, unless the last line is a complaint of it or of Bash. Any
other status but 0 is a failure. The gold is not parsed: of `[ -f x ] && cat x` only `cat` is looked at, and status 1 of an
earlier command (by `&&`, `set -e` or `pipefail`) is taken for that of the last one.
"""

from __future__ import annotations

import re

_TELLING = {
    "diff", "cmp", "zdiff", "zcmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep",
    "test", "[", "[[", "((", "!", "expr", "let",
}  # fmt: skip
_NOT_CODE = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|()])#[^\n]*|\$\(\(?|[<>]\(|\d*&?[<>]+&?[ \t]*[^\s;&|()]*""", re.DOTALL
)
"""Quoted texts, comments, redirections, and what begins a substitution."""
_COMMAND = re.compile(r"(?:^|&&|[;\n|&({])[\s({]*?(?:\w+=\S*\s+)*(?:[^\s;|&]*/)?(!(?=\s)|\[\[?(?=\s)|\(\(|[\w.+-]+)")
_COMPLAINT = re.compile(
    r"\S*bash: line \d+: |Try '|([^\s:]+): (?=.*(operand|No such|[Cc]annot|[Ii]nvalid|unrecognized|denied|\bnot\b|[Ff]ailed"
    r"|omitting|[Ee]rror|exists|Is a|[Uu]sage))"
)


def ends_in_failure(status: int | None, gold: str, said: str) -> bool:
    """Not where status 1 is the answer of a `grep` that finds nothing, or of a `diff`. `said` is what was printed."""
    if status != 1:
        return bool(status)
    commands = _COMMAND.findall(_NOT_CODE.sub("''", gold))
    if not commands or commands[-1] not in _TELLING:
        return True
    complaint = _COMPLAINT.match(said.rstrip("\n").rpartition("\n")[2])
    return complaint is not None and complaint[1] in (None, commands[-1])


def only_fails(status: int | None, gold: str, said: str) -> bool:
    """Whether the gold ends in failure, and each line that it printed begins as a complaint of its programs or Bash does."""
    lines = [_COMPLAINT.match(line) for line in said.splitlines() if line]
    return ends_in_failure(status, gold, said) and bool(lines) and all(found and (found[1] or "") in gold for found in lines)
