"""What golds and doing nothing earn on MBPP's 974 tasks, and how long all golds take.

    gold, exact    ≥ 970 solved, in < 60 s with two workers: submitted, all asserts
    gold, paper    ≥ 970 solved, in the first system's protocol
    noop           0 solved
    faults         what the data check says of the golds that miss: executed raw, twice

`python benchmarks/mbpp.py [--json] [--out FILE] [--workers N]`; exit status 1 if a bound is missed.
Skipped without the data.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from fidelity import data
from measuring.rows import Row, absent, command, finish

from intercode.agents import Strategy, gold, noop
from intercode.env import EnvFactory
from intercode.envs import prepare
from intercode.runner.run import evaluate
from intercode.validate.check import check

SOLVED, SECONDS = 970, 60.0


def play(factory: EnvFactory, agent: Strategy, workers: int) -> dict[str, Any]:
    started = time.perf_counter()
    episodes = evaluate(factory, agent, tasks=factory.tasks, workers=workers)
    seconds = time.perf_counter() - started
    missed = [episode.task for episode in episodes if not episode.success]
    return {"solved": len(episodes) - len(missed), "seconds": seconds, "missed": missed[:50]}


def measure(path: Path, workers: int) -> dict[str, Any]:
    exact = prepare("python", data=str(path))
    paper = prepare("python", data=str(path), protocol="paper")
    played = {
        name: play(factory, gold, workers) for name, factory in (("exact", exact), ("paper", paper))
    }
    missed = {task for each in played.values() for task in each["missed"]}
    checked = (
        check(exact, [task for task in exact.tasks if task.id in missed], workers=workers)
        if missed
        else {"broken": []}
    )
    faults = {
        finding["task"]: finding["why"]
        for finding in checked["broken"]
        if finding["kind"] != "duplicate"
    }
    return {
        "tasks": len(exact.tasks),
        **played,
        "noop": play(exact, noop, workers),
        "faults": faults,
    }


def show(figures: dict[str, Any]) -> None:
    for name in ("exact", "paper", "noop"):
        row = figures[name]
        print(
            f"{name:6} {row['solved']:4} of {figures['tasks']} solved in {row['seconds']:.1f} s;"
            f" missed: {row['missed'] or '-'}"
        )
    print("golds that miss and that the check finds fault with:")
    for task, why in figures["faults"].items():
        print(f"  {task}: {why}")


def rows(figures: dict[str, Any]) -> list[Row]:
    tasks, least = figures["tasks"], SOLVED / figures["tasks"]
    return [
        Row("all golds of MBPP, against a minute", figures["exact"]["seconds"], SECONDS, 1),
        Row(
            "golds solved under exact",
            figures["exact"]["solved"],
            tasks,
            least,
            floor=True,
            unit="",
        ),
        Row(
            "golds solved under paper",
            figures["paper"]["solved"],
            tasks,
            least,
            floor=True,
            unit="",
        ),
        Row("solved by doing nothing", figures["noop"]["solved"], tasks, 0, unit=""),
    ]


def main() -> int:
    options = command(__doc__, out=True, workers=True).parse_args()
    path = data.folder() / "mbpp" / "ic_mbpp.json"
    if absent(options, path):
        return 0
    figures = measure(path, options.workers)
    return finish(options, rows(figures), show=lambda: show(figures), details=figures)


if __name__ == "__main__":
    sys.exit(main())
