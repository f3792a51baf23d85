"""A run that a test can kill, printing when it starts: `calculator_run.py FOLDER TASKS WORKERS
SECONDS [AGENT]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from calculator import Calculator, make_tasks

from intercode.agents import Act, Ask, StrategySteps
from intercode.runner.run import evaluate
from intercode.runs.store import RunStore
from intercode.types import Message, Reply, Task

folder, count, workers, seconds, *agent = sys.argv[1:]


class SlowModel:
    name = "slow"

    def complete(self, messages: Sequence[Message]) -> Reply:
        time.sleep(600)
        return Reply("")


def slow_gold(task: Task, protocol: str) -> StrategySteps:
    """Solves odd tasks and fails even ones, so that results differ by task."""
    yield Act(f"sleep {seconds}")
    yield Act(task.gold if int(task.id[1:]) % 2 else "1")
    yield Act("submit")


def asking(task: Task, protocol: str) -> StrategySteps:
    yield Ask([{"role": "user", "content": task.query}])


tasks = make_tasks(int(count))
with RunStore.create(Path(folder), {"env": "calculator", "tasks": count}, resume=True) as store:
    print("started", flush=True)
    try:
        evaluate(
            lambda: Calculator(tasks),
            asking if agent else slow_gold,
            SlowModel(),
            tasks=tasks,
            store=store,
            workers=int(workers),
            seed=5,
            on_episode=lambda episode: print(episode.task, flush=True),
        )
    except KeyboardInterrupt:
        print("alive:", Calculator.alive, flush=True)
        sys.exit(130)
