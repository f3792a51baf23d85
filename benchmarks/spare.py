"""What a spare episode saves and weighs: the reset of a sandbox after an action and 50 ms of
thinking, with a spare and without, in turns; and the PSS of all processes of each.

    .venv/bin/python benchmarks/spare.py [--runs 100] [--json]

Exit status 1 if a reset with a spare takes more than a tenth of one without.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator

from measuring.memory import family, pss
from measuring.rows import Row, command, finish

import intercode
from intercode_sandbox.client import GuestSandbox

THINKING, BOUND = 0.05, 0.1
"""Seconds between the action and the next reset, and the most that the ratio may be."""
_MIB = 1 << 20


def reset(box: GuestSandbox) -> float:
    """Play a short episode; return the seconds of the reset that follows."""
    box.exec("ls / > /tmp/listing; x=1")
    time.sleep(THINKING)
    began = time.perf_counter()
    box.reset()
    return time.perf_counter() - began


def memory(box: GuestSandbox) -> float:
    """Return the MiB of PSS of the sandbox's processes."""
    return sum(map(pss, family(box.host._process.pid))) / _MIB


def rows(runs: int) -> Iterator[Row]:
    with intercode.sandbox() as spared, intercode.sandbox() as plain:
        plain.host.spares = False
        pairs = [(reset(spared), reset(plain)) for _ in range(runs)]
        with_spare, without = (statistics.median(times) for times in zip(*pairs[3:], strict=True))
        yield Row("reset with a spare, against one without", with_spare, without, BOUND)
        time.sleep(THINKING)
        yield Row("MiB with a spare, against without", memory(spared), memory(plain), unit="")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    return finish(options, list(rows(options.runs)))


if __name__ == "__main__":
    sys.exit(main())
