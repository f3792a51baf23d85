"""What the Python environment costs, and what a Jupyter kernel costs beside it.

    .venv/bin/python benchmarks/python.py [--json] [--jupyter PYTHON]

**Figures.** A round times each operation nine times in a row, in an order that is shuffled anew; a block is five rounds. Of six
blocks the one that took least time in all counts (the quietest moment, judged by both sides together), and a figure is the
median of its 45 times. A step is one of an episode under way; a grading is `submit NAME` on a task with three asserts, all of
which pass, under `exact`; a fork copies an interpreter with 100 variables and is timed without closing the twin.

**Jupyter** is `jupyter_client` (blocking) with an `ipykernel`, in a virtual environment of its own, whose interpreter
`--jupyter` (or `$JUPYTER_PYTHON`) names: `execute_interactive("x = 1")`, from the request to the kernel's idle, as a notebook
does. It is measured in the same rounds, by a process that times itself; where it is absent its row is skipped, with the reason.
A kernel walls off nothing: it is what others build a Python tool on.

Exit status 1 if a bound is missed. `--json` prints a list of {what, ours, against, ratio}, times in seconds; a bound in seconds
stands as `against`. All golds of MBPP are timed by `mbpp.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from intercode.env import InterCodeEnv
from intercode.envs import prepare

BLOCKS, ROUNDS, IN_A_ROW = 6, 5, 9
TASK = {
    "id": "squares",
    "query": "Write a function that sums the squares below n.",
    "gold": "def squares(n):\n    return sum(i * i for i in range(n))",
    "tests": ["assert squares(3) == 5", "assert squares(4) == 14", "assert squares(0) == 0"],
}
VARIABLES = "\n".join(f"v{number} = [{number}, 'word', {{'k': {number}.5}}]" for number in range(100))
Measure = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """`bound` is on the ratio; where the bound is a time, that time is `against`, and the ratio may reach 1."""

    what: str
    ours: float
    against: float
    bound: float = 1.0

    @property
    def ratio(self) -> float:
        return self.ours / self.against

    @property
    def missed(self) -> bool:
        return self.ratio > self.bound


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


# -- ours ---------------------------------------------------------------------------------------------------------------


def begin(env: InterCodeEnv, *actions: str) -> None:
    env.reset(options={"task": TASK["id"]})
    for action in actions:
        env.step(action)


def step(env: InterCodeEnv) -> float:
    return timed(lambda: env.step("x = 1"))


def reset(env: InterCodeEnv) -> float:
    begin(env, "x = 1")
    return timed(lambda: begin(env))


def grading(env: InterCodeEnv) -> float:
    begin(env, str(TASK["gold"]))
    started = time.perf_counter()
    _, reward, *_ = env.step("submit squares")
    seconds = time.perf_counter() - started
    assert reward == 1
    return seconds


def fork(env: InterCodeEnv) -> float:
    begin(env, VARIABLES)
    started = time.perf_counter()
    twin = env.fork()
    seconds = time.perf_counter() - started
    assert twin.step("v99[2]")[0].strip() == "{'k': 99.5}"
    twin.close()
    return seconds


# -- Jupyter ------------------------------------------------------------------------------------------------------------

SERVE = """
import os, sys, time
replies = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel()
step = lambda: client.execute_interactive("x = 1", output_hook=lambda message: None)
assert step()["content"]["status"] == "ok"
replies.write("ready\\n")
for line in sys.stdin:
    started = time.perf_counter()
    step()
    replies.write(repr(time.perf_counter() - started) + "\\n")
client.stop_channels()
manager.shutdown_kernel(now=True)
"""


class Kernel:
    """A Jupyter kernel with its client, in an interpreter of its own that times each execution."""

    def __init__(self, python: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([python, "-c", SERVE], **pipes)
        if self._hear() != "ready":
            _, words = self._process.communicate()
            raise OSError((words.strip().splitlines() or ["it did not start"])[-1][:200])

    def measure(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        return float(self._hear())

    def close(self) -> None:
        self._process.communicate()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return str(self._process.stdout.readline()).strip()


def start_kernel(python: str | None) -> Kernel | None:
    if python is None:
        print("Jupyter: skipped, no interpreter is named for it (see --help)", file=sys.stderr)
        return None
    try:
        return Kernel(python)
    except OSError as error:
        print(f"Jupyter: skipped, {error}", file=sys.stderr)
        return None


# -- the table ----------------------------------------------------------------------------------------------------------


def measure(env: InterCodeEnv, kernel: Kernel | None) -> dict[str, float]:
    """The medians of the quietest block."""
    table: dict[str, Measure] = {each.__name__: partial(each, env) for each in (step, reset, grading, fork)}
    if kernel is not None:
        table["kernel"] = kernel.measure
    chance = random.Random(0)
    blocks = [block(table, env, chance) for _ in range(BLOCKS)]
    quietest = min(blocks, key=lambda samples: sum(map(sum, samples.values())))
    return {name: statistics.median(times) for name, times in quietest.items()}


def block(table: dict[str, Measure], env: InterCodeEnv, chance: random.Random) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(ROUNDS):
        for name in chance.sample(sorted(table), len(table)):
            begin(env, "x = 1")
            samples[name] += [table[name]() for _ in range(IN_A_ROW)]
    return samples


def rows(at: dict[str, float]) -> list[Row]:
    table = [Row("step `x = 1`, against 0.3 ms", at["step"], 0.3e-3)]
    if "kernel" in at:
        table.append(Row("step `x = 1`, against a Jupyter kernel's", at["step"], at["kernel"], 0.1))
    return [
        *table,
        Row("reset, against 10 ms", at["reset"], 10e-3),
        Row("grading three asserts, against 25 ms", at["grading"], 25e-3),
        Row("fork with 100 variables, against 30 ms", at["fork"], 30e-3),
    ]


def show(table: list[Row]) -> None:
    print(f"{'':46}{'ours':>11}{'against':>11}{'ratio':>8}{'bound':>8}")
    for row in table:
        mark = "  missed" if row.missed else ""
        print(f"{row.what:46}{row.ours * 1e3:8.3f} ms{row.against * 1e3:8.3f} ms{row.ratio:8.3f}{row.bound:8.3g}{mark}")


def main() -> int:
    parser = argparse.ArgumentParser(description="What the Python environment costs, against bounds and a Jupyter kernel.")
    parser.add_argument("--json", action="store_true", help="print a list of {what, ours, against, ratio}, in seconds")
    parser.add_argument(
        "--jupyter", default=os.environ.get("JUPYTER_PYTHON"), help="a Python with jupyter_client and ipykernel"
    )
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        data = Path(folder) / "tasks.json"
        data.write_text(json.dumps([TASK]))
        setting = prepare("python", data=str(data), max_turns=None)
    kernel = start_kernel(options.jupyter)
    try:
        with closing(setting()) as env:
            table = rows(measure(env, kernel))
    finally:
        if kernel is not None:
            kernel.close()
    if options.json:
        shown = [{"what": row.what, "ours": row.ours, "against": row.against, "ratio": row.ratio} for row in table]
        print(json.dumps(shown, indent=1))
    else:
        show(table)
    for row in table:
        if row.missed:
            print(f"missed: {row.what}: {row.ratio:.3f} > {row.bound:.3g}", file=sys.stderr)
    return int(any(row.missed for row in table))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
