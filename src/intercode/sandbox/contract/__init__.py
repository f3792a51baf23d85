"""The contract of `Sandbox` as clauses that can be tried on any backend.

    check_sandbox ── actions.py   exec, sessions
                  ── files.py     read, write, diff
                  ── copies.py    reset, fork, close

Hostile actions are no part of it: a backend needs tests of its own for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from intercode.errors import SandboxError, UsageError
from intercode.sandbox.base import Sandbox
from intercode.sandbox.contract import actions, copies, files
from intercode.sandbox.contract.words import Clause

_BOTH = actions.BOTH + files.BOTH + copies.BOTH
_SESSION = {"persistent": actions.PERSISTENT + copies.PERSISTENT, "stateless": actions.STATELESS}


def check_sandbox(make: Callable[[], Sandbox], *, excused: Mapping[str, str] | None = None) -> None:
    """Raise AssertionError naming every clause that sandboxes from `make` break.

    `make` gives a new sandbox of either session at each call; its template needs bash, coreutils and `find`, the file
    /etc/passwd and the folders /var/tmp and /tmp. `excused` has names of clauses that need not hold, each with the reason: one
    that is tried and holds all the same is named, too. Takes some seconds.
    """
    excused = excused or {}
    found = [*_broken(make, excused), *_broken_ends(make, excused)]
    if broken := [line for line in found if line]:
        raise AssertionError("the sandbox breaks its contract:\n" + "\n".join(f"  - {line}" for line in broken))


def _broken(make: Callable[[], Sandbox], excused: Mapping[str, str]) -> Iterator[str]:
    with make() as sandbox:
        for clause in _BOTH + _SESSION[sandbox.session]:
            sandbox.reset()
            yield _try(clause, sandbox, excused)


def _broken_ends(make: Callable[[], Sandbox], excused: Mapping[str, str]) -> Iterator[str]:
    for clause in copies.ENDS:
        with make() as sandbox:
            yield _try(clause, sandbox, excused)


def _try(clause: Clause, sandbox: Sandbox, excused: Mapping[str, str]) -> str:
    """What is wrong with it, if anything."""
    name = clause.__name__.strip("_")
    try:
        clause(sandbox)
    except (AssertionError, OSError, SandboxError, UsageError) as error:
        return "" if name in excused else f"{clause.__doc__} [{name}] {type(error).__name__}: {error}"
    return f"{clause.__doc__} [{name}] holds, but is excused: {excused[name]}" if name in excused else ""
