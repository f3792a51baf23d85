"""Is this data set sound? Each gold is executed twice, and played, and so is doing nothing.

    two raw executions differ        → nondeterministic         the gold scores below 1    → its parts
    the execution itself complains   → missing tool, status …   doing nothing succeeds     → noop
    it names what is not there, or a general one is constant    two tasks ask the same     → which

The two raw executions lie at least `APART` seconds apart, so that a clock in the answer shows.
"""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from intercode.agents import Strategy, gold, noop
from intercode.env import InterCodeEnv, Trial
from intercode.runner.run import evaluate
from intercode.types import Episode, Task

APART = 1.1
PASSES = 4
"""How often `tick` is called for each task."""
Finding = dict[str, str]
Tick = Callable[[], None]


def check(
    make_env: Callable[[], InterCodeEnv], tasks: Sequence[Task], *, workers: int = 1, tick: Tick = lambda: None
) -> dict[str, Any]:
    """The fixed keys of `check --json`: counts, and `broken` with one entry for each complaint about a task."""
    first = _trials(make_env, tasks, workers, tick)
    time.sleep(APART)
    second = _trials(make_env, tasks, workers, tick)
    golds, noops = (_play(make_env, agent, tasks, workers, tick) for agent in (gold, noop))
    unstable = [_difference(task, *pair) for task, *pair in zip(tasks, first, second, strict=True)]
    missed = [finding for task, trial in zip(tasks, first, strict=True) for finding in _plain(task, trial, golds)]
    paid = [_finding(task, "doing nothing succeeds") for task in tasks if noops[task.id].success]
    broken = [finding for finding in [*unstable, *missed, *paid, *_repeated(tasks)] if finding]
    return {
        "tasks": len(tasks),
        "gold_ok": sum(golds[task.id].success for task in tasks),
        "noop_paid": len(paid),
        "nondeterministic": sum(finding is not None for finding in unstable),
        "broken": sorted(broken, key=lambda finding: [task.id for task in tasks].index(finding["task"])),
    }


def _trials(make_env: Callable[[], InterCodeEnv], tasks: Sequence[Task], workers: int, tick: Tick) -> list[Trial]:
    """One raw execution of each gold, in task order. A fault, or Ctrl-C, ends it within one gold."""
    shares = [tasks[start::workers] for start in range(min(workers, len(tasks)))]
    over = threading.Event()

    def execute(share: Sequence[Task]) -> list[Trial]:
        trials = []
        with closing(make_env()) as env:
            for task in share:
                if over.is_set():
                    break
                trials.append(env.try_gold(task))
                tick()
        return trials

    with ThreadPoolExecutor(len(shares)) as pool:
        try:
            trials = list(pool.map(execute, shares))
        except BaseException:
            over.set()
            raise
    return [trials[index % len(shares)][index // len(shares)] for index in range(len(tasks))]


def _play(make_env: Callable[[], Any], agent: Strategy, tasks: Sequence[Task], workers: int, tick: Tick) -> dict[str, Episode]:
    episodes = evaluate(make_env, agent, tasks=tasks, workers=workers, on_episode=lambda episode: tick())
    return {episode.task: episode for episode in episodes}


def _plain(task: Task, trial: Trial, golds: dict[str, Episode]) -> list[Finding]:
    found = [_finding(task, fault) for fault in trial.faults]
    episode = golds[task.id]
    if not episode.success and not (episode.error and found):
        parts = ", ".join(f"{name} {value:g}" for name, value in episode.parts.items())
        found.append(_finding(task, episode.error or f"the gold itself earns only {episode.reward} ({parts})"))
    return found


def _repeated(tasks: Sequence[Task]) -> list[Finding]:
    """Tasks that ask what an earlier one asks, but for letter case and blanks."""
    earlier: dict[str, Task] = {}
    found = []
    for task in tasks:
        first = earlier.setdefault(" ".join(task.query.lower().split()), task)
        if first is not task:
            answers = "and has the same gold" if first.gold == task.gold else "but has another gold"
            found.append(_finding(task, f"asks the same as task {first.id} {answers}"))
    return found


def _difference(task: Task, one: Trial, other: Trial) -> Finding | None:
    if one.evidence == other.evidence:
        return None
    lines = list(difflib.unified_diff(one.summary.splitlines(), other.summary.splitlines(), lineterm="", n=0))[2:]
    what = "; ".join(line for line in lines[:4] if not line.startswith("@@"))[:200]
    return _finding(task, f"two executions of the gold differ: {what or 'in the files they leave'}")


def _finding(task: Task, why: str) -> Finding:
    return {"task": task.id, "why": why.removeprefix(f"task {task.id}: ")}
