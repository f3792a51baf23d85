"""The faults of a gold in Bash that its execution shows, for `intercode check` and for errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from intercode.envs.workspace import Workspace, ends_in_failure, execute_gold, missing_paths
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


def run_checked(workspace: Workspace, command: str, task: Task) -> tuple[Outcome, list[str]]:
    """Execute a gold and return its outcome and faults, among them paths that are missing. Raises
    `DataError` if the gold kills its sandbox."""
    used, asked = _TEXT.sub(" ", command), _PATH.findall(_QUOTE.sub(" ", task.query))
    named = [*_PATH.findall(used), *(path for path in asked if path in used or path not in command)]
    if named:
        workspace.start_episode()
    missing = missing_paths(workspace, named)
    outcome = execute_gold(workspace, command).outcome
    last = workspace.last
    faults = list(find_faults(last, command))
    # in a pipe or a substitution, the status does not show that a tool failed
    complaints = _COMPLAINT.finditer(last.output)
    complaint = next((m[0] for m in complaints if not m[1] or m[1] in command), "")
    fine = last.exit_code is not None and not ends_in_failure(last.exit_code, command, last.output)
    if complaint and fine:
        why = f"gold succeeds, but prints an error: {complaint:.150}"
        faults.append(TaskIssue(why, "gold_complains"))
    if outcome.output.strip() == "0" and not outcome.changes:
        faults.append(TaskIssue("gold finds nothing: it prints 0 and changes nothing", "by_luck"))
    # a query may mention a path that should not exist; a gold may remove a file it wrote
    unwritten = [path for path in missing if path not in _WRITTEN.findall(command)]
    for path in missing_paths(workspace, unwritten):
        who, kind = ("gold", "missing") if path in command else ("query", "disagrees")
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
    if ends_in_failure(result.exit_code, gold, result.output) and not _MISSING.search(
        result.output
    ):
        last = result.output.strip().rpartition("\n")[2][:200]
        owner = (
            "; the sandbox has one user, so no file can be given to another"
            if _CHANGES_OWNER.search(last)
            else ""
        )
        yield f"gold ends with status {result.exit_code}" + (f": {last}" if last else "") + owner
