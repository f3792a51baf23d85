"""What it costs to start: our import against Gymnasium's, our help against the libraries that print
it.

    .venv/bin/python benchmarks/startup.py [--starts 15] [--json]

Each figure is the median of new processes, ours and the other started in turn so that they meet the
same noise. Exit status 1 if a ratio is above `BOUND`. `--json` prints a list of {what, ours,
against, ratio}, times in seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

from measuring.clock import timed
from measuring.rows import Row, command, finish

BOUND = 1.5
PYTHON = sys.executable
HELP = [str(Path(PYTHON).with_name("intercode")), "--help"]
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
"""So that our bytecode is kept as that of an installed package is; the first start, which may write
it, is not counted."""
PAIRS = {
    "import intercode / import gymnasium": (
        [PYTHON, "-c", "import intercode"],
        [PYTHON, "-c", "import gymnasium"],
    ),
    "intercode --help / import click, rich": (HELP, [PYTHON, "-c", "import click, rich"]),
}


def start(words: list[str]) -> float:
    return timed(
        partial(subprocess.run, words, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    )


def measure(what: str, ours: list[str], against: list[str], starts: int) -> Row:
    for words in (ours, against):
        start(words)
    times = [(start(ours), start(against)) for _ in range(starts)]
    here, there = (statistics.median(column) for column in zip(*times, strict=True))
    return Row(what, here, there, BOUND)


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--starts", type=int, default=15)
    options = parser.parse_args()
    return finish(options, [measure(what, *pair, options.starts) for what, pair in PAIRS.items()])


if __name__ == "__main__":
    sys.exit(main())
