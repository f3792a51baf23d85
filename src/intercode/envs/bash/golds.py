"""The faults of a gold in Bash that its execution shows, for `intercode check` and for errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from intercode.envs.workspace import Workspace, execute_gold
from intercode.types import ExecResult, Outcome, Task, TaskIssue

_MISSING = re.compile(r"^\S*bash: line \d+: (.+): command not found$", re.MULTILINE)
_PATH = re.compile(r"(?<![^\s=<>&|;(])(/[\w.+-]+(?:/[\w.+-]+)+)/?(?![\w.+/*?\[{$-])")
"""An absolute path of two or more names that is a separate word, without quotes and wildcards."""
_WRITTEN = re.compile(r">\s*(/[\w./+-]+)")
"""A path that output is written to."""
_COMPLAINT = re.compile(
    r"^(?:\S*bash: line \d+: (?!(?:\S+: )?warning: |.+: command not found$)"
    r"|([\w.+-]+): .*(?:(?:missing|extra) operand|No such file|cannot |failed to |invalid "
    r"|unrecognized |denied)).*$",
    re.MULTILINE,
)
"""An error message from Bash, or from a tool whose messages begin with its name."""
_CHANGES_OWNER = re.compile(r"^ch(?:own|grp): changing .*(?:not permitted|Invalid argument)")
_TEXT = re.compile(
    r"(?:^|[|;&(`\n]|\bxargs|-exec|\bdo|\bthen)\s*(?:basename|dirname|echo|printf)\b[^|;&<>()`\n]*"
)
"""A command that handles its arguments as text: a path among them need not exist."""
_QUOTE = re.compile(r"""["'`,;:()]|\.(?=\s|$)""")
_ABSENT = """
for path; do
    IFS=/ read -r _ top _ <<<"$path"
    [[ ! -e /$top ]] || compgen -G "$path*" >/dev/null || printf '%s\\n' "$path"
done
"""
"""Print each argument that no existing path begins with, if the argument's top-level folder
exists."""
_ANSWERING = (
    "diff", "cmp", "zdiff", "zcmp", "grep", "egrep", "fgrep", "rgrep", "zgrep", "pgrep",
    "test", "[", "[[", "((", "!", "expr", "let",
)  # fmt: skip
"""Commands whose status 1 is an answer."""
_NOT_CODE = re.compile(
    r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<![^\s;&|()])#[^\n]*"""
    r"""|\$\(\(?|[<>]\(|\d*&?[<>]+&?[ \t]*[^\s;&|()]*""",
    re.DOTALL,
)
"""Quoted text, comments, redirections, and the beginning of a substitution."""
_COMMAND = re.compile(
    r"(?:^|&&|[;\n|&({])[\s({]*?(?:\w+=\S*\s+)*(?:[^\s;|&]*/)?(!(?=\s)|\[\[?(?=\s)|\(\(|[\w.+-]+)"
)
_LAST_COMPLAINT = re.compile(
    r"\S*bash: line \d+: |Try '|([^\s:]+): (?=.*(operand|No such|[Cc]annot|[Ii]nvalid|unrecognized"
    r"|denied|\bnot\b|[Ff]ailed|omitting|[Ee]rror|exists|Is a|[Uu]sage))"
)


def run_checked(
    workspace: Workspace, golds: Iterable[str], task: Task
) -> tuple[Outcome, list[str]]:
    """Execute a gold after those of earlier rounds, and return its outcome and faults, among them
    paths that are missing. Raises `DataError` if the gold kills its sandbox."""
    *earlier, command = golds
    used = _TEXT.sub(" ", command)
    named = set(_PATH.findall(used))
    for path in _PATH.findall(_QUOTE.sub(" ", task.query)):
        if path in used or path not in command:
            named.add(path)
    if named:
        workspace.replay(earlier)
    missing = _missing_paths(workspace, named)
    outcome = execute_gold(workspace, command, earlier).outcome
    last = workspace.last
    faults = list(find_faults(last, command))
    # in a pipe or a substitution, the status does not show that a tool failed
    complaint = ""
    for match in _COMPLAINT.finditer(last.output):
        if not match[1] or match[1] in command:
            complaint = match[0]
            break
    fine = last.exit_code is not None and not ends_in_failure(last.exit_code, command, last.output)
    if complaint and fine:
        why = f"gold succeeds, but prints an error: {complaint:.150}"
        faults.append(TaskIssue(why, "gold_complains"))
    if outcome.output.strip() == "0" and not outcome.changes:
        faults.append(TaskIssue("gold finds nothing: it prints 0 and changes nothing", "by_luck"))
    # a query may mention a path that should not exist; a gold may remove a file it wrote
    missing -= set(_WRITTEN.findall(command))
    for path in sorted(_missing_paths(workspace, missing)):
        who, kind = "query", "disagrees"
        if path in command:
            who, kind = "gold", "missing"
        why = f"{who} names {path}, which exists neither before nor after it runs"
        faults.append(TaskIssue(why, kind))
    return outcome, faults


def find_faults(result: ExecResult, gold: str) -> Iterator[str]:
    """Yield the faults of a gold that one execution shows."""
    if result.timed_out:
        yield "gold runs out of time"
    elif result.exit_code is None:
        yield f"gold does not finish: {result.output[:200]}"
    for tool in sorted(set(_MISSING.findall(result.output))):
        yield f"gold calls {tool}, which is not installed here"
    if _MISSING.search(result.output):
        return
    if not ends_in_failure(result.exit_code, gold, result.output):
        return
    fault = f"gold ends with status {result.exit_code}"
    last = result.output.strip().rpartition("\n")[2][:200]
    if last:
        fault += f": {last}"
    if _CHANGES_OWNER.search(last):
        fault += "; the sandbox has one user, so no file can be given to another"
    yield fault


def only_fails(
    workspace: Workspace, gold: str, outcome: Outcome, earlier: Sequence[str] = ()
) -> bool:
    """Return whether the gold failed, changed nothing, and printed nothing but error messages.

    `outcome` is the outcome of the gold, which must be the last action; `earlier` are the golds of
    earlier rounds. If the gold printed
    something, it is executed again with standard error discarded. `2>&1` in a gold makes the
    error message its answer.
    """
    last = workspace.last
    if outcome.changes or outcome.probe:
        return False
    if not ends_in_failure(last.exit_code, gold, last.output):
        return False
    if not last.output.strip():
        return True
    workspace.replay(earlier)
    silent = ["bash", "-c", 'eval "$1" 2>/dev/null', "bash", gold]
    return not workspace.sandbox.exec("", argv=silent, cwd="/").output.strip()


def _missing_paths(workspace: Workspace, paths: set[str]) -> set[str]:
    """Return the `paths` that no existing path begins with although their top-level folder
    exists."""
    if not paths:
        return paths
    argv = ["bash", "-c", _ABSENT, "bash", *sorted(paths)]
    return set(workspace.sandbox.exec("", argv=argv, cwd="/").output.splitlines())


def ends_in_failure(status: int | None, gold: str, output: str) -> bool:
    """Return whether the gold failed.

    Status 1 is an answer if the last command is one like `grep` or `diff`, unless the last line is
    an error message from that command or from Bash. Any other nonzero status is a failure. The gold
    is not parsed: in `[ -f x ] && cat x` only `cat` is considered, and status 1 from an earlier
    command (by `&&`, `set -e` or `pipefail`) is attributed to the last command.
    """
    if status != 1:
        return bool(status)
    commands = _COMMAND.findall(_NOT_CODE.sub("''", gold))
    if not commands or commands[-1] not in _ANSWERING:
        return True
    complaint = _LAST_COMPLAINT.match(output.rstrip("\n").rpartition("\n")[2])
    return complaint is not None and complaint[1] in (None, commands[-1])
