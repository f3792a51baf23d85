"""Four tasks with known rewards, on an environment whose machine fails at one of them, and what a
scripted model answers."""

from __future__ import annotations

from collections.abc import Mapping

from intercode import BashEnv, ExecResult, Outcome, Score, Task
from intercode.errors import SandboxDied

ANSWERS: Mapping[str, str | list[str]] = {
    "Print the sum of 2 and 3.": "echo 5",
    "Print the sum of 4 and 4.": ["ls /", "echo 8"],
    "Print the product of 6 and 7.": "echo 41",
    "Print the product of 9 and 9.": "echo 81",
}
"""The code that the model answers to each query, one turn after the other; then it submits."""

REWARDS = {"right": 1.0, "late": 1.0, "wrong": 0.0, "broken": None}
"""What a framework gets for each task with these answers, by id: success."""

SHAPED = {**REWARDS, "wrong": 0.5}
"""What it gets with `shaped`."""


class ShakyEnv(BashEnv):
    data = "shaky.jsonl"

    def reward(self, agent: Outcome, gold: Outcome, task: Task) -> Score:
        solved = agent.output == gold.output
        return Score(1.0 if solved else 0.5, solved)

    def execute(self, action: str) -> ExecResult:
        if self.task.id == "broken":
            raise SandboxDied("the machine has lost the sandbox")
        return super().execute(action)
