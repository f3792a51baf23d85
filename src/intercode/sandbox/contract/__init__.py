"""The contract of `Sandbox` as clauses that can be tried on any backend.

    check_sandbox ── actions.py   exec, sessions
                  ── files.py     read, write, diff
                  ── copies.py    reset, fork, close

Hostile actions are no part of it: a backend needs tests of its own for those.
"""

from __future__ import annotations

from collections.abc import Callable

from intercode.errors import SandboxError, UsageError
from intercode.sandbox.base import Sandbox
from intercode.sandbox.contract import actions, copies, files
from intercode.sandbox.contract.words import Clause

_BOTH = actions.BOTH + files.BOTH + copies.BOTH
_SESSION = {"persistent": actions.PERSISTENT + copies.PERSISTENT, "stateless": actions.STATELESS}


def check_sandbox(make: Callable[[], Sandbox]) -> None:
    """Raise AssertionError naming every clause that sandboxes from `make` break.

    `make` gives a new sandbox of either session at each call; its template needs bash, coreutils and `find`, the file
    /etc/passwd and the folders /var/tmp and /tmp. Takes some seconds.
    """
    found = []
    with make() as sandbox:
        for clause in _BOTH + _SESSION[sandbox.session]:
            sandbox.reset()
            found.append(_try(clause, sandbox))
    for clause in copies.ENDS:
        with make() as sandbox:
            found.append(_try(clause, sandbox))
    if broken := [line for line in found if line]:
        raise AssertionError("the sandbox breaks its contract:\n" + "\n".join(f"  - {line}" for line in broken))


def _try(clause: Clause, sandbox: Sandbox) -> str:
    """What is wrong with it, if anything."""
    try:
        clause(sandbox)
    except (AssertionError, OSError, SandboxError, UsageError) as error:
        return f"{clause.__doc__} [{clause.__name__.strip('_')}] {type(error).__name__}: {error}"
    return ""
