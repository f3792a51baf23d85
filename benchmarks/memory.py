"""What a live sandbox weighs: the PSS of all its processes.

    python benchmarks/memory.py [--count 300] [--json]

Each sandbox has a wall of its own and has run one command. Against it stands an idle `bash` of the
same machine. Exit status 1 if a sandbox holds more than 9 MiB while at least 300 are alive. Shared
pages are counted by share (PSS), so the figure falls as their number grows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

from measuring.memory import family, pss, pss_of
from measuring.rows import Row, command, finish

from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template, base

ALIVE, MOST = 300, 9.0
"""How many sandboxes the bound is for, and the MiB that each may hold."""
_MIB = 1 << 20


def weigh(count: int, template: Template | None = None) -> float:
    """MiB of PSS per sandbox with `count` alive."""
    with ExitStack() as alive:
        for _ in range(count):
            sandbox = alive.enter_context(LocalSandbox(template or base(None)))
            sandbox.exec("ls / > /tmp/listing; x=1")
        return sum(pss(pid) for pid in family(os.getpid()) - {os.getpid()}) / count / _MIB


def idle_bash() -> float:
    """MiB of PSS of a shell that waits."""
    done = subprocess.run(
        ["bash"], input="cat /proc/$$/smaps_rollup", capture_output=True, text=True, check=True
    )
    return pss_of(done.stdout) / _MIB


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--count", type=int, default=ALIVE)
    options = parser.parse_args()
    ours, bash = weigh(options.count), idle_bash()
    fault = f"a sandbox holds {ours:.2f} MiB, more than {MOST:g}"
    faults = [fault] if options.count >= ALIVE and ours > MOST else []
    row = Row(f"PSS of one of {options.count} sandboxes, MiB", ours, bash, unit="")
    words = f"{row.what}: {ours:.2f} (target: at most {MOST:g}); an idle bash: {bash:.2f}"
    return finish(options, [row], show=lambda: print(words), faults=faults)


if __name__ == "__main__":
    sys.exit(main())
