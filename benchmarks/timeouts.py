"""How late a time-out ends an action, against a bare `subprocess` that is killed at the same limit.

    python benchmarks/timeouts.py [--runs 200] [--json]

Every action ignores the signals that it may. Both sides are run in turn, so that they meet the same
noise. `overshoot` is the time from the start of the call to its return, less the limit. Exit status
1 if our p99 is over 150 ms beyond the bare kill's.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial

from measuring.clock import timed
from measuring.rows import Row, command, finish, table

from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import base

LIMIT = 0.1
BEYOND = 0.15
PROGRAMS = (
    "trap '' INT TERM HUP QUIT USR1 USR2; exec sleep 60",
    "trap '' INT TERM HUP QUIT USR1 USR2; while :; do :; done",
)


def ours(sandbox: LocalSandbox, program: str) -> None:
    result = sandbox.exec(f"bash -c {shlex.quote(program)}", timeout=LIMIT)
    assert result.timed_out
    assert not result.session_lost


def bare(program: str) -> None:
    with subprocess.Popen(["bash", "-c", program]) as process:
        try:
            process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()


def overshoot(run: Callable[[], None]) -> float:
    return timed(run) - LIMIT


def measure(runs: int) -> tuple[list[float], list[float]]:
    """Overshoots in seconds, ours and the bare kill's, sorted."""
    here, there = [], []
    with LocalSandbox(base(None)) as sandbox:
        for number in range(runs):
            program = PROGRAMS[number % len(PROGRAMS)]
            here.append(overshoot(partial(ours, sandbox, program)))
            there.append(overshoot(partial(bare, program)))
    return sorted(here), sorted(there)


def row(here: Sequence[float], there: Sequence[float], share: float) -> Row:
    ours, other = (each[min(len(each) - 1, round(share * len(each)))] for each in (here, there))
    return Row(f"time-out overshoot p{share * 100:g}, s", ours, other)


def show(rows: Sequence[Row], beyond: float) -> None:
    table(rows)
    print(f"beyond the bare kill at p99: {beyond * 1e3:.1f} ms (at most {BEYOND * 1e3:g} ms)")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    here, there = measure(options.runs)
    rows = [row(here, there, share) for share in (0.5, 0.99)]
    beyond = rows[1].ours - (rows[1].against or 0.0)
    faults = [f"p99 is {beyond * 1e3:.1f} ms beyond the bare kill's"] if beyond > BEYOND else []
    return finish(options, rows, show=lambda: show(rows, beyond), faults=faults)


if __name__ == "__main__":
    sys.exit(main())
