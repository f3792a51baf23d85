"""What the Python environment costs, and what a Jupyter kernel costs beside it.

    .venv/bin/python benchmarks/python.py [--json] [--jupyter PYTHON]

**Figures.** A round times each operation nine times in a row, in an order that is shuffled anew; a
block is five rounds. Of six blocks the one that took least time in all counts (the quietest moment,
judged by both sides together), and a figure is the median of its 45 times. A step is one of an
episode under way; a grading is `submit NAME` on a task with three asserts, all of which pass, under
`exact`; a program is graded by 20 tests, against the same lines in a function, `submit main`, whose
tests run in copies of the agent's own interpreter; a fork executes again the action that made 100
variables, and is timed without closing the twin.

**Jupyter** is `jupyter_client` (blocking) with an `ipykernel`, in a virtual environment of its own,
whose interpreter `--jupyter` (or `$JUPYTER_PYTHON`) names: `execute_interactive("x = 1")`, from the
request to the kernel's idle, as a notebook does. It is measured in the same rounds, by a process
that times itself; where it is absent its row is skipped, with the reason. A kernel walls off
nothing: it is what others build a Python tool on.

Exit status 1 if a bound is missed. `--json` prints a list of {what, ours, against, ratio}, times in
seconds; a bound in seconds stands as `against`. All golds of MBPP are timed by `mbpp.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

from measuring.clock import Measure, in_turns, timed
from measuring.peer import Candidate, Peer, installed
from measuring.rows import Row, command, finish

from intercode.env import InterCodeEnv
from intercode.envs import prepare
from intercode.factory import EnvFactory

BLOCKS = 6
TASK = {
    "id": "squares",
    "query": "Write a function that sums the squares below n.",
    "gold": "def squares(n):\n    return sum(i * i for i in range(n))",
    "tests": ["assert squares(3) == 5", "assert squares(4) == 14", "assert squares(0) == 0"],
}
PROGRAM = "n = int(input())\nprint(sum(i * i for i in range(n)))"
READING = {
    "id": "reading",
    "query": "Read n; print the sum of the squares below n.",
    "gold": PROGRAM,
    "cases": {"inputs": ["3\n"] * 20, "outputs": ["5\n"] * 20},
}
VARIABLES = "\n".join(
    f"v{number} = [{number}, 'word', {{'k': {number}.5}}]" for number in range(100)
)


# -- ours ------------------------------------------------------------------------------------------


def begin(env: InterCodeEnv, *actions: str, task: Mapping[str, Any] = TASK) -> None:
    env.reset(options={"task": task["id"]})
    for action in actions:
        env.step(action)


def step(env: InterCodeEnv) -> float:
    return timed(lambda: env.step("x = 1"))


def reset(env: InterCodeEnv) -> float:
    begin(env, "x = 1")
    return timed(lambda: begin(env))


def grading(env: InterCodeEnv) -> float:
    begin(env, str(TASK["gold"]))
    return submission(env, "submit squares")


def program(env: InterCodeEnv) -> float:
    begin(env, PROGRAM, task=READING)
    return submission(env, "submit")


def function(env: InterCodeEnv) -> float:
    begin(env, "def main():\n" + indent(PROGRAM, "    "), task=READING)
    return submission(env, "submit main")


def submission(env: InterCodeEnv, action: str) -> float:
    started = time.perf_counter()
    _, reward, *_ = env.step(action)
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


# -- Jupyter ---------------------------------------------------------------------------------------

SETUP = """
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel()
step = lambda: client.execute_interactive("x = 1", output_hook=lambda message: None)
assert step()["content"]["status"] == "ok"
operations = {"step": step}
"""
ENDING = """
client.stop_channels()
manager.shutdown_kernel(now=True)
"""


# -- the table -------------------------------------------------------------------------------------


def factory() -> EnvFactory:
    with TemporaryDirectory() as folder:
        data = Path(folder) / "tasks.json"
        data.write_text(json.dumps([TASK, READING]))
        return prepare("python", data=str(data), max_turns=None)


def measure(env: InterCodeEnv, kernels: Sequence[Peer]) -> dict[str, float]:
    table: dict[str, Measure] = {
        each.__name__: partial(each, env)
        for each in (step, reset, grading, program, function, fork)
    }
    table |= {kernel.name: partial(kernel.measure, "step") for kernel in kernels}
    return in_turns(table, partial(begin, env, "x = 1"), BLOCKS)


def rows(at: dict[str, float]) -> list[Row]:
    """A bound that is a time stands as `against`."""
    kernel = (
        [Row("step `x = 1`, against a Jupyter kernel's", at["step"], at["Jupyter"], 0.1)]
        if "Jupyter" in at
        else []
    )
    return [
        Row("step `x = 1`, against 0.3 ms", at["step"], 0.3e-3, 1),
        *kernel,
        Row("reset, against 10 ms", at["reset"], 10e-3, 1),
        Row("grading three asserts, against 25 ms", at["grading"], 25e-3, 1),
        Row("20 tests of a program, against a function's", at["program"], at["function"], 1.5),
        Row("fork with 100 variables, against 30 ms", at["fork"], 30e-3, 1),
    ]


def main() -> int:
    parser = command(__doc__)
    parser.add_argument(
        "--jupyter",
        default=os.environ.get("JUPYTER_PYTHON"),
        help="a Python with jupyter_client and ipykernel",
    )
    options = parser.parse_args()
    made = factory()
    with (
        installed([Candidate("Jupyter", options.jupyter, SETUP, ("step",), ENDING)]) as kernels,
        closing(made()) as env,
    ):
        table = rows(measure(env, kernels))
    return finish(options, table)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
