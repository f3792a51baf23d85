"""What it costs to start: our import against Gymnasium's, our help against the libraries that print it.

    .venv/bin/python benchmarks/startup.py [--starts 15] [--json]

Each figure is the median of new processes, ours and the other started in turn so that they meet the same noise. Exit status 1
if a ratio is above `BOUND`. `--json` prints a list of {what, ours, against, ratio}, times in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BOUND = 1.3
PYTHON = sys.executable
HELP = [str(Path(PYTHON).with_name("intercode")), "--help"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""So that our bytecode is kept as that of an installed package is; the first start, which may write it, is not counted."""
PAIRS = {
    "import intercode / import gymnasium": ([PYTHON, "-c", "import intercode"], [PYTHON, "-c", "import gymnasium"]),
    "intercode --help / import click, rich": (HELP, [PYTHON, "-c", "import click, rich"]),
}


def start(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    return time.perf_counter() - began


def measure(what: str, ours: list[str], against: list[str], starts: int) -> dict[str, Any]:
    for command in (ours, against):
        start(command)
    times = [(start(ours), start(against)) for _ in range(starts)]
    here, there = (statistics.median(column) for column in zip(*times, strict=True))
    return {"what": what, "ours": round(here, 4), "against": round(there, 4), "ratio": round(here / there, 3)}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--starts", type=int, default=15)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    rows = [measure(what, *pair, chosen.starts) for what, pair in PAIRS.items()]
    if chosen.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print(f"{row['what']:40} {row['ours']:.3f} s / {row['against']:.3f} s = {row['ratio']:.2f}  (at most {BOUND})")
    return int(any(row["ratio"] > BOUND for row in rows))


if __name__ == "__main__":
    sys.exit(main())
