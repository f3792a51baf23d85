"""How late a time-out ends an action, against a bare `subprocess` that is killed at the same limit.

    python benchmarks/timeouts.py [--runs 200] [--json]

Every action ignores the signals that it may. Both sides are run in turn, so that they meet the same noise. `overshoot` is the
time from the start of the call to its return, less the limit. Target: our p99 at most 150 ms beyond the bare kill's.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import base

LIMIT = 0.1
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
    start = time.perf_counter()
    run()
    return time.perf_counter() - start - LIMIT


def measure(runs: int) -> tuple[list[float], list[float]]:
    """Overshoots in seconds, ours and the bare kill's, sorted."""
    here, there = [], []
    with LocalSandbox(base(None)) as sandbox:
        for number in range(runs):
            program = PROGRAMS[number % len(PROGRAMS)]
            here.append(overshoot(partial(ours, sandbox, program)))
            there.append(overshoot(partial(bare, program)))
    return sorted(here), sorted(there)


def rows(here: list[float], there: list[float]) -> list[dict[str, Any]]:
    def row(share: float) -> dict[str, Any]:
        mine, other = (each[min(len(each) - 1, round(share * len(each)))] for each in (here, there))
        return {"what": f"time-out overshoot p{share * 100:g}, s", "ours": mine, "against": other, "ratio": mine / other}

    return [row(0.5), row(0.99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    found = rows(*measure(options.runs))
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for row in found:
        print(f"{row['what']:<30} ours {row['ours'] * 1000:6.1f} ms   bare kill {row['against'] * 1000:6.1f} ms")
    print(f"beyond the bare kill at p99: {(found[1]['ours'] - found[1]['against']) * 1000:.1f} ms (target: at most 150 ms)")


if __name__ == "__main__":
    main()
