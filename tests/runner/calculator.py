"""A small real environment for the runner's tests: a stack calculator that behaves as the contract
says.

Actions are words: numbers are pushed, `+` and `*` combine, `sleep X` waits, `break` breaks the
environment for good, `suicide` is an agent's own fault. The state is solved when the top of the
stack is the task's gold result.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import gymnasium

from intercode.errors import DataError, SandboxDied, UsageError
from intercode.types import Score, Task

OPERATIONS = {"+": lambda a, b: a + b, "*": lambda a, b: a * b}


def make_tasks(count: int) -> list[Task]:
    return [
        Task(f"t{i:03}", f"make {i} plus {2 * i}", f"{i} {2 * i} +", {"result": 3 * i})
        for i in range(1, count + 1)
    ]


class Calculator(gymnasium.Env[str, str]):
    alive = 0
    built = 0
    _count = threading.Lock()

    def __init__(self, tasks: list[Task], protocol: str = "submit") -> None:
        self.tasks, self.protocol = tasks, protocol
        self.broken = self.closed = False
        self.thread: int | None = None
        with Calculator._count:
            Calculator.alive += 1
            Calculator.built += 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        if self.broken or self.closed:
            raise UsageError("reset of an environment that is gone")
        self.thread = self.thread or threading.get_ident()
        assert self.thread == threading.get_ident(), "one environment, one thread"
        self.task = next(task for task in self.tasks if task.id == (options or {})["task"])
        if self.task.extra.get("bad_data"):
            raise DataError(f"task {self.task.id} has no gold")
        self.stack: list[int] = []
        return self.task.query, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        info: dict[str, Any] = {
            "timed_out": False,
            "truncated_output": False,
            "session_lost": False,
        }
        if action == "suicide":
            return (
                "the sandbox is gone",
                0.0,
                True,
                False,
                {**info, "exit_code": None, "ended": "agent_fault"},
            )
        submitted = self.protocol == "submit" and action == "submit"
        observation, code = ("submitted", 0) if submitted else self._run(action)
        info["exit_code"] = code
        scored = submitted or self.protocol == "paper"
        score = self.score() if scored else None
        if score:
            info["score"] = score
        solved = self.protocol == "paper" and score is not None and score.reward == 1
        if submitted or solved:
            info["ended"] = "submit" if submitted else "solved"
        return observation, score.reward if score else 0.0, submitted or solved, False, info

    def _run(self, action: str) -> tuple[str, int]:
        words = action.split()
        if words[:1] == ["sleep"]:
            time.sleep(float(words[1]))
            return "", 0
        if words == ["break"]:
            self.broken = True
            raise SandboxDied("the calculator fell apart")
        for word in words:
            if word in OPERATIONS:
                if len(self.stack) < 2:
                    return "stack is empty", 1
                self.stack.append(OPERATIONS[word](self.stack.pop(), self.stack.pop()))
            elif word.isdigit():
                self.stack.append(int(word))
            else:
                return f"unknown word: {word}", 127
        return str(self.stack[-1]) if self.stack else "", 0

    def score(self) -> Score:
        top, wanted = (self.stack or [0])[-1], self.task.extra["result"]
        reward = 1.0 if top == wanted else round(0.5 / (1 + abs(top - wanted)), 3)
        return Score(reward, reward == 1, {"distance": float(abs(top - wanted))})

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with Calculator._count:
                Calculator.alive -= 1
