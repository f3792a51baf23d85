"""What the loop itself costs: a turn played by `play` against the same step made by hand, without a model.

    .venv/bin/python benchmarks/driver.py [--turns 200] [--json]

The environment does nothing, so that all but the step is the driver's: the strategy's generator, the limits, the record.
Exit status 1 if that is more than 0.2 ms a turn. `--json` prints a list of {what, ours, against, ratio}, times in seconds.
"""

from __future__ import annotations

import sys
from typing import Any

from measuring.clock import in_turns, timed
from measuring.rows import Row, command, finish

from intercode.agents import Act, Moves
from intercode.runner.episode import play
from intercode.runner.meter import Limits, Meter
from intercode.types import Task

BOUND = 0.2e-3
BLOCKS = 5
TASK = Task("nothing", "Do nothing.", "")
INFO = {"exit_code": 0, "timed_out": False, "truncated_output": False, "session_lost": False}


class Nothing:
    """An environment that answers at once and never ends."""

    protocol = "submit"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return TASK.query, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", 0.0, False, False, dict(INFO)

    def close(self) -> None:
        pass


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    env, turns = Nothing(), options.turns

    def noops(task: Task, protocol: str) -> Moves:
        for _ in range(turns):
            yield Act("true")

    def by_hand() -> None:
        env.reset()
        for _ in range(turns):
            env.step("true")

    table = {
        "play": lambda: timed(lambda: play(env, TASK, noops, None, Meter(Limits(turns)))) / turns,
        "by hand": lambda: timed(by_hand) / turns,
    }
    times = in_turns(table, lambda: None, BLOCKS)
    cost = times["play"] - times["by hand"]
    rows = [Row("a turn by play / by hand", times["play"], times["by hand"])]
    return finish(options, [*rows, Row("the driver's own share of a turn", cost, BOUND, 1.0)])


if __name__ == "__main__":
    sys.exit(main())
