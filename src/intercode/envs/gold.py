"""Results of golds, each executed once for all environments that share a `GoldCache`; and whether a Bash gold failed.

Status 1 is an answer of a last command such as `grep` or `diff`, unless the last line is a complaint of that command or of
Bash. Any other status but 0 is a failure. The gold is not parsed: of `[ -f x ] && cat x` only `cat` is read, and status 1 of
an earlier command (by `&&`, `set -e` or `pipefail`) is taken for the status of the last command.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Generic, TypeVar

from intercode.errors import DataError, SandboxDied
from intercode.types import Task

Result = TypeVar("Result")
Key = tuple[str, ...]
"""A task's id, its gold, the template's digest, and the way of execution if there are several."""

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


def split_golds(task: Task) -> list[Task]:
    """Return one task for each gold, with that gold as `gold`: a reward reads the text of the gold that it compares with."""
    return [replace(task, gold=gold) for gold in task.golds]


class GoldCache(Generic[Result]):
    """Results by key. The first thread that asks for a key executes, and other threads wait for the result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Key, Future[Result]] = {}

    def get(self, key: Key, execute: Callable[[], Result]) -> Result:
        with self._lock:
            first = key not in self._results
            future = self._results.setdefault(key, Future())
        if first:
            try:
                future.set_result(execute())
            except BaseException as error:  # raised in all waiting threads, and not kept
                with self._lock:
                    del self._results[key]
                future.set_exception(error)
        return future.result()


def blame_gold(execute: Callable[[], Result], gold: str) -> Result:
    """Return the result of `execute`. Raises `DataError` if the gold itself ended its sandbox."""
    try:
        return execute()
    except SandboxDied as death:
        if death.by_agent:
            raise DataError(f"the gold {gold[:200]!r} ends its sandbox: {death}") from death
        raise


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
