"""What a sandbox reports, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeGuard


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether `value` is a number that a record can hold: finite, and within 64 bits if it
    is an integer."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and -(2**63) <= value < 2**63


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The output of one action and how the action ended.

    `output` is stdout and stderr in the order in which they came, decoded as UTF-8 (other bytes
    become ``\\xNN``), complete up to the sandbox's output limit; if there was more, `overflow` is
    the hex digest of all output. `exit_code` is None if the shell died first. `session_lost`: the
    shell died and a new shell replaced it. `cwd` is the directory in which the next action starts;
    empty in environments without directories. `limits` names the limits of the sandbox that were
    hit meanwhile: memory, processes, disk. Time and output have fields of their own. `killed`: all
    processes were killed meanwhile, since one of these limits was exceeded.
    """

    output: str
    exit_code: int | None
    timed_out: bool = False
    session_lost: bool = False
    overflow: str | None = None
    cwd: str = "/"
    limits: tuple[str, ...] = ()
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Completed:
    """The exit code and the output of a command that ran outside the session.

    `exit_code` is that of a shell: 128 + N after the signal N, 127 for a missing program, 126 for
    one that cannot be executed; None if the time was up. `limits` names the limits that were hit:
    memory, processes, disk, or output, if only the first bytes of `stdout` or `stderr` are there.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    limits: tuple[str, ...] = ()

    def texts(self) -> tuple[str, str]:
        """Return stdout and stderr as texts."""
        return self.stdout.decode("utf-8", "replace"), self.stderr.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the template.

    `mode` holds the permission bits (``0o7777`` mask); `digest` is the hex digest of a regular
    file's content and `target` the target of a symbolic link; all are None or 0 for a removed path.
    `held` is a digest of the contents of an archive, independent of its packing, and `attributes`
    are digests of its members' owners, modes and times; an environment that compares archives asks
    for them. `type` is "other" with mode 0 for a path that cannot be read or that changes during
    the comparison.
    """

    kind: Literal["added", "changed", "removed"]
    type: Literal["file", "dir", "link", "other"]
    mode: int = 0
    digest: str | None = None
    target: str | None = None
    held: str | None = None
    attributes: tuple[str, ...] = ()
