"""What a fork costs, against the other way to the same state.

    .venv/bin/python benchmarks/search.py [--forks 20] [--json]

A fork is timed with its close, after three actions, against the reset of an episode and those
actions again. `--json` prints a list of {what, ours, against, ratio}, times in seconds.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Sequence

from measuring.clock import timed
from measuring.rows import Row, absent, command, finish

import intercode
from intercode.env import InterCodeEnv

ACTIONS = {
    "bash": ["cd /depot", "count=$(ls | wc -l)", "echo $count > /tmp/count"],
    "sql": ["SELECT 1", "SELECT 2", "SELECT 3"],
    "python": ["import math", "x = [math.sqrt(n) for n in range(1000)]", "def f(): return x"],
    "ctf": ["ls", "pwd", "echo a > /tmp/a"],
}


def of_forks(language: str, forks: int) -> Row:
    env = intercode.make(language, max_turns=None)
    try:
        _reach(env, ACTIONS[language])
        ours = [timed(lambda: env.fork().close()) for _ in range(forks)]
        against = [timed(lambda: _reach(env, ACTIONS[language])) for _ in range(forks)]
    finally:
        env.close()
    return Row(
        f"{language}: fork and close / play again",
        statistics.median(ours),
        statistics.median(against),
    )


def _reach(env: InterCodeEnv, actions: Sequence[str]) -> None:
    env.reset(options={"task": 0})
    for action in actions:
        env.step(action)


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--forks", type=int, default=20)
    options = parser.parse_args()
    if absent(options, why=None if shutil.which("bwrap") else "bubblewrap is not installed"):
        return 0
    return finish(options, [of_forks(language, options.forks) for language in ACTIONS])


if __name__ == "__main__":
    sys.exit(main())
