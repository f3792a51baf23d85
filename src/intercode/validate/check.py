"""Is this data set sound? Each gold is executed twice, and played; so are doing nothing, and the most similar task's gold.

    two raw executions differ        → gold_differs             else it scores below 1     → gold_fails, with its parts
    the execution itself complains   → gold_fails, missing …    doing nothing succeeds     → noop_solves
    two tasks ask the same           → duplicate, near_…        a neighbour's gold does    → retrieval_solves
    the texts disagree (`doubts/`)   → disagrees, weak_tests …  an alternative gold fails  → alternative_fails
    gold and alternative differ      → golds_disagree

The kinds are in `findings.py`. The two raw executions lie at least `APART` seconds apart, so that a clock in the answer shows.
"""

from __future__ import annotations

import difflib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode.agents import Strategy, gold, noop
from intercode.agents.base import StrategySteps
from intercode.env import GoldRun, InterCodeEnv
from intercode.envs import environment_class, require_data
from intercode.envs.bash.attributes import attribute_path
from intercode.envs.ctf.challenges import survey
from intercode.errors import DataError, IntercodeError
from intercode.plugins import call_plugin
from intercode.runner.run import evaluate, naming_task, select
from intercode.tasks import open_data
from intercode.tasks.issues import BROKEN, KINDS, TaskIssue
from intercode.types import Episode, Task
from intercode.validate.duplicates import Found, neighbours, repeated
from intercode.validate.lint import doubts

APART = 1.1
Tick = Callable[[], None]


def check(
    make_env: Callable[[], InterCodeEnv],
    tasks: Sequence[Task],
    *,
    left_out: Sequence[Found] = (),
    workers: int = 1,
    tick: Tick = lambda: None,
) -> dict[str, Any]:
    """The fixed keys of `check --json`: counts, `broken` and `suspicious` with one entry for each complaint about a task.

    Tasks that are `left_out`, since they cannot be played, are counted and told, and their texts looked at.
    """
    first = _trials(make_env, tasks, workers, tick)
    time.sleep(APART)
    second = _trials(make_env, tasks, workers, tick)
    nearest = neighbours(tasks)
    players = {"gold": gold, "noop": noop, "retrieval": _neighbour(nearest)}
    played = {name: _play(make_env, agent, tasks, workers, tick) for name, agent in players.items()}
    with closing(make_env()) as env:
        language = env.language
    unstable = [found for task, *pair in zip(tasks, first, second, strict=True) for found in _difference(task, *pair)]
    differing = {task.id for task, _ in unstable}
    plain = [found for task, trial in zip(tasks, first, strict=True) for found in _plain(task, trial, played["gold"])]
    failing = {task.id for task, fault in plain if fault.kind == "gold_fails"}
    missed = [(task, fault) for task, fault in plain if fault.kind != "gold_fails" or task.id not in differing]
    paid = [(task, TaskIssue("doing nothing succeeds", "noop_solves")) for task in tasks if played["noop"][task.id].success]
    lent = [
        (task, TaskIssue(f"the gold of task {nearest[task.id].id} succeeds", "retrieval_solves"))
        for task in tasks
        if played["retrieval"][task.id].success
    ]
    counts = {
        "gold_ok": sum(played["gold"][task.id].success and task.id not in failing for task in tasks),
        "noop_paid": len(paid),
        "nondeterministic": len(unstable),
    }
    others: list[Found] = []
    for place in range(1, max((len(task.golds) for task in tasks), default=1)):  # in one group each task comes once
        given = [task for task in tasks if len(task.golds) > place]
        group = [(replace(task, golds=()), replace(task, gold=task.golds[place], golds=())) for task in given]
        others += _alternatives(make_env, group, workers, tick)
    every = [*tasks, *{task.id: task for task, _ in left_out}.values()]
    said = [(task, fault) for task, fault in _said(every, language) if fault.kind != "gold_fails"]  # executing it knows better
    return {"tasks": len(every), **counts, **_sorted(every, [*left_out, *unstable, *missed, *others, *paid, *lent, *said])}


def passes(tasks: Sequence[Task]) -> int:
    """How often `check` calls its `tick`: for a gold twice, for what is played three times, for an alternative three times."""
    return 5 * len(tasks) + 3 * sum(len(task.golds) - 1 for task in tasks)


def look(
    env: str,
    *,
    data: str | None = None,
    gold_fields: Sequence[str] | None = None,
    limit: int | None = None,
    task: Sequence[str] = (),
    assets: str | None = None,
    furnished: bool = False,
) -> dict[str, Any]:
    """What the texts alone say: nothing is executed or built, so that of the golds nothing is known (None).

    `assets` and `furnished` say what files there are, as for `survey`.
    """
    made = environment_class(env)
    require_data(made, data)
    source = data or (attribute_path(made, "data") if hasattr(made, "data") else None)
    language, records, most = made.language, made.preprocess, None if task else limit
    found = open_data(source, env=language, limit=most, preprocess=records, gold_fields=gold_fields)
    tasks = select(found.tasks, task, limit=limit)
    said = _said(tasks, language)
    if language == "ctf":
        surveyed = survey(found.tasks, Path(assets) if assets else found.assets, found.file, furnished=furnished)
        said += [(task, fault) for task in tasks for fault in surveyed[task.id].issues]
    unknown = dict.fromkeys(("gold_ok", "noop_paid", "nondeterministic"))
    return {"tasks": len(tasks), **unknown, **_sorted(tasks, said)}


def _said(tasks: Sequence[Task], language: str) -> list[Found]:
    return [*((task, fault) for task in tasks for fault in doubts(task, language)), *repeated(tasks)]


def _sorted(tasks: Sequence[Task], found: Sequence[Found]) -> dict[str, Any]:
    """In the order of the tasks; `kinds` counts tasks."""
    place = {task.id: number for number, task in enumerate(tasks)}
    rows = [
        {"task": task.id, "kind": fault.kind, "why": fault.removeprefix(f"task {task.id}: ")}
        for task, fault in sorted(found, key=lambda each: place[each[0].id])
    ]
    kinds = Counter(kind for _, kind in {(row["task"], row["kind"]) for row in rows})
    return {
        "broken": [row for row in rows if row["kind"] in BROKEN],
        "suspicious": [row for row in rows if row["kind"] not in BROKEN],
        "kinds": {kind: kinds[kind] for kind in KINDS if kinds[kind]},
    }


def _neighbour(nearest: Mapping[str, Task]) -> Strategy:
    """Answers as another task's gold would."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        if task.id in nearest:
            yield from gold(nearest[task.id], protocol)

    return strategy


def _trials(make_env: Callable[[], InterCodeEnv], tasks: Sequence[Task], workers: int, tick: Tick) -> list[GoldRun]:
    """One raw execution of each gold, in task order. A fault, or Ctrl-C, ends it within one gold."""
    shares = [tasks[start::workers] for start in range(min(workers, len(tasks)))]
    over = threading.Event()

    def execute(share: Sequence[Task]) -> list[GoldRun]:
        trials = []
        with ending(), closing(make_env()) as env:
            for task in share:
                if over.is_set():
                    break
                with naming_task(task):
                    trials.append(call_plugin(env.run_gold, GoldRun, task))
                tick()
        return trials

    @contextmanager
    def ending() -> Iterator[None]:
        try:
            yield
        except BaseException:
            over.set()
            raise

    with ThreadPoolExecutor(len(shares)) as pool, ending():
        trials = list(pool.map(execute, shares))
    return [trials[index % len(shares)][index // len(shares)] for index in range(len(tasks))]


def _play(make_env: Callable[[], Any], agent: Strategy, tasks: Sequence[Task], workers: int, tick: Tick) -> dict[str, Episode]:
    def note(episode: Episode) -> None:
        """Of faults, only the data's are findings."""
        if episode.error and not episode.error.startswith(f"{DataError.fault}: "):
            raise IntercodeError(f"task {episode.task} cannot be checked: {episode.error}")
        tick()

    episodes = evaluate(make_env, agent, tasks=tasks, workers=workers, on_episode=note)
    return {episode.task: episode for episode in episodes}


def _alternatives(
    make_env: Callable[[], InterCodeEnv], pairs: Sequence[tuple[Task, Task]], workers: int, tick: Tick
) -> Iterator[Found]:
    """Alternatives that do not run, or that neither match the gold nor are matched by it. Flags differ on purpose.

    `pairs` are tasks with their gold alone, each beside itself with an alternative.
    """
    golds, others = zip(*pairs, strict=True)
    trials = _trials(make_env, others, workers, tick)
    one, other = _as(make_env, golds, others, workers, tick), _as(make_env, others, golds, workers, tick)
    for (task, alternative), trial in zip(pairs, trials, strict=True):
        episodes = one[task.id], other[task.id]
        fault = next((fault for fault in trial.faults if getattr(fault, "kind", "gold_fails") == "gold_fails"), None)
        if fault is not None:
            yield task, TaskIssue(f"the alternative {alternative.gold!r:.100}: {fault}", "alternative_fails")
        elif "gold_is" not in task.extra and not any(episode.success or episode.error for episode in episodes):
            yield task, TaskIssue(f"the alternative {alternative.gold!r:.100} and the gold do not match", "golds_disagree")


def _as(
    make_env: Callable[[], InterCodeEnv], tasks: Sequence[Task], answers: Sequence[Task], workers: int, tick: Tick
) -> dict[str, Episode]:
    """The tasks, played with the golds of `answers`."""

    def make() -> InterCodeEnv:
        env = make_env()
        env.tasks = list(tasks)
        return env

    return _play(make, _neighbour({task.id: task for task in answers}), tasks, workers, tick)


def _plain(task: Task, trial: GoldRun, golds: dict[str, Episode]) -> Iterator[Found]:
    """What its execution shows; what it earns only where that does not show why."""
    faults = [fault if isinstance(fault, TaskIssue) else TaskIssue(fault) for fault in trial.faults]
    yield from ((task, fault) for fault in faults)
    episode = golds[task.id]
    if not episode.success and not any(fault.kind == "gold_fails" or episode.error for fault in faults):
        parts = ", ".join(f"{name} {value:g}" for name, value in episode.parts.items())
        yield task, TaskIssue(episode.error or f"the gold itself earns only {episode.reward} ({parts})")


def _difference(task: Task, one: GoldRun, other: GoldRun) -> Iterator[Found]:
    if one.evidence == other.evidence:
        return
    lines = list(difflib.unified_diff(one.summary.splitlines(), other.summary.splitlines(), lineterm="", n=0))[2:]
    what = "; ".join(line for line in lines[:4] if not line.startswith("@@"))[:200]
    yield task, TaskIssue(f"two executions of the gold differ: {what or 'in the files they leave'}", "gold_differs")
