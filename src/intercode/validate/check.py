"""Check a data set: execute each gold twice, and play the gold, nothing, and the most similar
task's gold.

    two raw executions differ         → gold_differs
    else it scores below 1            → gold_fails, with its parts
    the execution itself complains    → gold_fails, missing …
    its image does not build          → no_build
    doing nothing succeeds            → noop_solves (so does leaving out a round of several)
    a hack of the verifier succeeds   → hack_pays
    two tasks ask the same            → duplicate, near_…
    another set has the task (overlap)→ in_both, near_…
    a neighbour's gold succeeds       → retrieval_solves
    the solution `unclarified` does   → counted (a part of them is right by chance)
    the texts disagree (`lint`)       → disagrees, weak_tests …
    an alternative gold fails         → alternative_fails
    gold and alternative differ       → golds_disagree

`types.py` lists the kinds. The two raw executions are `PAUSE` apart, so that they differ if the
answer depends on the clock.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from queue import SimpleQueue
from typing import Any

from intercode.agents import Strategy, gold, guesser, noop
from intercode.agents.base import StrategySteps
from intercode.agents.tfidf import Vector, cosine, vectors
from intercode.env import InterCodeEnv
from intercode.envs import environment_class
from intercode.errors import NO_BUILD, DataError, IntercodeError
from intercode.factory import misspelt_fields
from intercode.hooks import NOT_PLAYED
from intercode.runner.run import evaluate, select
from intercode.runner.warm_env import naming_task
from intercode.types import BROKEN, KINDS, Episode, GoldRun, Task, TaskIssue
from intercode.user import facet_issues
from intercode.validate.overlap import NEAR, database_of, find_overlap

PAUSE = 1.1
"""Seconds between the two raw executions of all golds."""
_COUNTS = ("gold_ok", "noop_paid", "nondeterministic")

Issue = tuple[Task, TaskIssue]
Issues = Sequence[Issue]


def check(
    make_env: Callable[[], InterCodeEnv],
    tasks: Sequence[Task],
    *,
    left_out: Issues = (),
    others: Sequence[Task] = (),
    workers: int = 1,
    on_task: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Return the keys of `check --json`: counts, and `broken` and `suspicious` with one entry for
    each issue of a task.

    Tasks that are `left_out` because they cannot be played count too, and their texts are checked.
    `others` are the tasks of another set, which should have none of these tasks.
    `on_task` is called `count_steps` times.
    """
    with closing(make_env()) as env:
        owner = type(env)
    checks = _Checks(make_env, workers, on_task, [*left_out])
    first = checks.run_golds(tasks)
    tasks = _with_passing_gold(tasks, first)
    time.sleep(PAUSE)
    counts: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    counts["gold_ok"], counts["nondeterministic"] = checks.play_golds(tasks, first)
    compared = [task for task, run in zip(tasks, first, strict=True) if run.task is None]
    place = 1
    while compared := [task for task in compared if len(task.golds) > place]:
        checks.compare_golds(compared, place)
        place += 1
    by_noop = checks.play(noop, tasks)
    for task in tasks:
        if by_noop[task.id].success:
            counts["noop_paid"] += 1
            checks.note(task, "doing nothing succeeds", "noop_solves")
    checks.skip_rounds(tasks)
    counts |= checks.play_hacks(owner, tasks, first, by_noop)
    nearest = nearest_tasks(tasks)
    by_neighbour = checks.play(_gold_of(nearest), tasks)
    for task in tasks:
        if by_neighbour[task.id].success:
            why = f"the gold of task {nearest[task.id].id} succeeds"
            checks.note(task, why, "retrieval_solves")
    if guessed := checks.play(guesser, _guessed(tasks)):
        ids = [id for id, episode in guessed.items() if episode.success]
        counts["solved_without_asking"] = {"tasks": ids, "of": len(guessed)}
    stays = defaultdict(list)
    for task, run in zip(tasks, first, strict=True):
        if run.stays_behind:
            stays[run.stays_behind].append(task.id)
    if stays:
        counts["stays_behind"] = [{"what": what, "tasks": ids} for what, ids in stays.items()]
    every = [*tasks, *{task.id: task for task, _ in left_out}.values()]
    readable = [task for task in every if task.query]
    for task, issue in _lint(readable, owner):
        if issue.kind not in ("gold_fails", "no_tests"):  # the gold was executed, or left out
            checks.issues.append((task, issue))
    checks.issues.extend(find_overlap(readable, others))
    return {"tasks": len(every), **counts, **_report(every, checks.issues, owner)}


def count_steps(tasks: Sequence[Task], owner: type[InterCodeEnv]) -> int:
    """Return how often `check` calls `on_task`: five times for each task, three times for each
    alternative gold, and once for each hack, each `unclarified` and each later round."""
    steps = len(_guessed(tasks))
    for task in tasks:
        steps += 5 + 3 * (len(task.golds) - 1) + len(task.rounds)
        steps += len(owner.hacks(task, in_process=False))
    return steps


def _guessed(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks whose record has the solution of one who does not ask."""
    return [task for task in tasks if task.extra.get("unclarified")]


def with_passing_golds(
    make_env: Callable[[], InterCodeEnv], tasks: Sequence[Task], *, workers: int = 1
) -> list[Task]:
    """Return the tasks; where tests decide and there are several golds, the gold is the first that
    passes."""
    several = [task for task in tasks if len(task.golds) > 1]
    runs = _Checks(make_env, workers).run_golds(several)
    passing = {task.id: task for task in _with_passing_gold(several, runs)}
    return [passing.get(task.id, task) for task in tasks]


def _with_passing_gold(tasks: Sequence[Task], runs: Sequence[GoldRun]) -> list[Task]:
    return [run.task or task for task, run in zip(tasks, runs, strict=True)]


def check_texts(
    env: str,
    *,
    task: Sequence[str] = (),
    limit: int | None = None,
    others: Sequence[Task] = (),
    **options: Any,
) -> dict[str, Any]:
    """Return the keys of `check` for texts and files only. Nothing is executed or built, so the
    counts are None."""
    env_class = environment_class(env)
    settings = env_class.Options.of(options, f"the environment {env}")
    data = env_class.read_data(replace(settings, limit=None if task else limit))
    tasks = select(data.tasks, task, limit=limit)
    by_task = env_class.lint_files(data, settings)
    issues = [*_lint(tasks, env_class), *find_overlap(tasks, others)]
    for chosen in tasks:
        issues += [(chosen, issue) for issue in by_task.get(chosen.id, ())]
    issues += data.left_out
    every = [*tasks, *(task for task, _ in data.left_out)]
    return {"tasks": len(every), **dict.fromkeys(_COUNTS), **_report(every, issues, env_class)}


def _lint(tasks: Sequence[Task], env: type[InterCodeEnv]) -> Iterator[Issue]:
    for task in tasks:
        asked = ""
        for posed in (task, *task.rounds):
            issues, asked = env.lint(posed), f"{asked}\n{posed.query}"
            if posed.earlier:  # what an earlier query names need not be named again
                in_context = [*env.lint(replace(posed, query=asked))]
                issues = filter(in_context.__contains__, issues)
            for issue in (*issues, *facet_issues(posed)):
                yield task, issue
    yield from find_duplicates(tasks)


def _report(tasks: Sequence[Task], issues: Issues, env: type[InterCodeEnv]) -> dict[str, Any]:
    """Return the issues in the order of the tasks; `kinds` counts tasks."""
    place = {task.id: number for number, task in enumerate(tasks)}
    broken = list[dict[str, str]]()
    suspicious = list[dict[str, str]]()
    by_kind = defaultdict(set)
    for task, issue in sorted(issues, key=lambda pair: place[pair[0].id]):
        by_kind[issue.kind].add(task.id)
        rows = broken if issue.kind in BROKEN else suspicious
        why = issue.removeprefix(f"task {task.id}: ")
        rows.append({"task": task.id, "kind": issue.kind, "why": why})
    kinds = {kind: len(by_kind[kind]) for kind in KINDS if kind in by_kind}
    report = {"broken": broken, "suspicious": suspicious, "kinds": kinds}
    if misspelt := misspelt_fields(env, tasks):
        report["misspelt"] = misspelt
    return report


def _gold_of(others: Mapping[str, Task]) -> Strategy:
    """Return a strategy that answers a task as the gold of another task does; `others` are by the
    task's id."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        if task.id in others:
            yield from gold(others[task.id], protocol)

    return strategy


def in_envs(
    make_env: Callable[[], InterCodeEnv],
    tasks: Sequence[Task],
    execute: Callable[[InterCodeEnv, Task], GoldRun],
    workers: int,
) -> list[GoldRun]:
    """Return the result of `execute` for each task, in environments that the workers share. An
    error or Ctrl-C stops all workers after one task."""
    idle: SimpleQueue[InterCodeEnv] = SimpleQueue()

    def execute_in_one(task: Task) -> GoldRun:
        env = idle.get()
        try:
            return execute(env, task)
        finally:
            idle.put(env)

    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        for _ in range(min(workers, len(tasks))):
            idle.put(stack.enter_context(closing(make_env())))
        return list(pool.map(execute_in_one, tasks))


@dataclass(frozen=True)
class _Checks:
    """The parts of a check that execute something. They add what they find to `issues`."""

    make_env: Callable[[], InterCodeEnv]
    workers: int
    on_task: Callable[[], object] = lambda: None
    issues: list[Issue] = field(default_factory=list)

    def note(self, task: Task, why: str, kind: str) -> None:
        self.issues.append((task, TaskIssue(why, kind)))

    def run_golds(self, tasks: Sequence[Task]) -> list[GoldRun]:
        """Execute each gold once, and return the results in task order."""

        def execute(env: InterCodeEnv, task: Task) -> GoldRun:
            try:
                with naming_task(task):
                    return env.run_gold(task)
            finally:
                self.on_task()

        return in_envs(self.make_env, tasks, execute, self.workers)

    def play(self, agent: Strategy, tasks: Sequence[Task]) -> dict[str, Episode]:
        """Play each task once. Raises `IntercodeError` for a fault that is not the data's."""

        def note(episode: Episode) -> None:
            if episode.error and not episode.error.startswith(f"{DataError.fault}: "):
                raise IntercodeError(f"task {episode.task} cannot be checked: {episode.error}")
            self.on_task()

        episodes = evaluate(
            self.make_env, agent, tasks=tasks, workers=self.workers, on_episode=note
        )
        return {episode.task: episode for episode in episodes}

    def play_golds(self, tasks: Sequence[Task], first: Sequence[GoldRun]) -> tuple[int, int]:
        """Execute each gold again, and play it. Return how many succeed, and how many differ from
        the first execution."""
        second = self.run_golds(tasks)
        episodes = self.play(gold, tasks)
        succeeding = differing = 0
        for task, run, again in zip(tasks, first, second, strict=True):
            episode = episodes[task.id]
            fails = False
            unstable = run.evidence != again.evidence
            if unstable:
                differing += 1
                self.note(task, _difference(run, again), "gold_differs")
            for issue in _gold_issues(run, episode):
                is_failure = issue.kind == "gold_fails"
                fails |= is_failure
                if not (is_failure and unstable):
                    self.issues.append((task, issue))
            succeeding += episode.success and not fails
        return succeeding, differing

    def skip_rounds(self, tasks: Sequence[Task]) -> None:
        """Note the later rounds that succeed without their gold, after the golds before."""
        place = 0
        while tasks := [task for task in tasks if len(task.rounds) > place]:
            shortened = {}
            for task in tasks:
                rounds = (*task.rounds[:place], replace(task.rounds[place], gold=""))
                shortened[task.id] = replace(task, rounds=rounds)
            place += 1
            for id, episode in self.play(_gold_of(shortened), [*shortened.values()]).items():
                ended = episode.outcomes.get("rounds", ())
                if len(ended) > place and ended[place]["success"]:
                    why = f"round {place + 1} succeeds without its gold"
                    self.note(shortened[id], why, "noop_solves")

    def play_hacks(
        self,
        owner: type[InterCodeEnv],
        tasks: Sequence[Task],
        runs: Sequence[GoldRun],
        by_noop: Mapping[str, Episode],
    ) -> dict[str, Any]:
        """Play each hack that the environments' class knows for a task. Return the counts of the
        report: nothing if there are no hacks. Tests that pass by themselves are not hacked."""
        by_task = {task.id: owner.hacks(task, in_process=False) for task in tasks}
        if not any(by_task.values()):
            return {}
        not_played = Counter[tuple[str, str]]()
        paid = []
        for name in dict.fromkeys(chain.from_iterable(by_task.values())):
            hacked = []
            actions = {}
            for task in tasks:
                if name in by_task[task.id]:
                    action = by_task[task.id][name].replace("@GOLD@", task.gold)
                    actions[task.id] = replace(task, gold=action)
                    hacked.append(task)
            episodes = self.play(_gold_of(actions), hacked)
            for task in hacked:
                episode = episodes[task.id]
                output = episode.turns[0].observation if episode.turns else ""
                _, is_unplayed, why = output.partition(NOT_PLAYED)
                if is_unplayed:
                    not_played[name, why.strip()] += 1
                elif episode.success and not by_noop[task.id].success:
                    paid.append({"task": task.id, "hack": name})
                    why = f"the tests pass without the work, by this hack: {name}"
                    self.note(task, why, "hack_pays")
        for task, run in zip(tasks, runs, strict=True):
            if run.forgery:
                paid.append({"task": task.id, "hack": run.forgery})
        unplayed = [
            {"hack": name, "why": why, "tasks": number}
            for (name, why), number in sorted(not_played.items())
        ]
        return {"hacks_paid": paid, "hacks_not_played": unplayed}

    def compare_golds(self, tasks: Sequence[Task], place: int) -> None:
        """Note the tasks whose alternative gold number `place` does not run, or matches the gold in
        neither direction.

        Flags of CTF tasks, and the forms of an answer in SQL, differ on purpose.
        """
        golds = [replace(task, golds=()) for task in tasks]
        others = [replace(task, gold=task.golds[place], golds=()) for task in tasks]
        runs = self.run_golds(others)

        def play_as(tasks: Sequence[Task], answers: Sequence[Task]) -> dict[str, Episode]:
            """Play the tasks with the golds of `answers`."""

            def make() -> InterCodeEnv:
                env = self.make_env()
                env.tasks = list(tasks)
                return env

            strategy = _gold_of({task.id: task for task in answers})
            return replace(self, make_env=make).play(strategy, tasks)

        matches = play_as(golds, others), play_as(others, golds)
        for task, other, run in zip(golds, others, runs, strict=True):
            alternative = f"the alternative {other.gold!r:.100}"
            failure = next(filter(_is_failure, run.faults), None)
            is_same = False
            for episodes in matches:
                is_same |= episodes[task.id].success or bool(episodes[task.id].error)
            if failure is not None:
                self.note(task, f"{alternative}: {failure}", "alternative_fails")
            elif not (is_same or task.extra.keys() & {"gold_is", "golds_are"}):
                self.note(task, f"{alternative} and the gold do not match", "golds_disagree")


def _is_failure(fault: str) -> bool:
    return getattr(fault, "kind", "gold_fails") == "gold_fails"


def _gold_issues(run: GoldRun, episode: Episode) -> list[TaskIssue]:
    """Return the issues that executing the gold shows, and a failing reward that they do not
    explain."""
    issues = []
    for fault in run.faults:
        if not isinstance(fault, TaskIssue):
            fault = _fault(fault)
        issues.append(fault)
    is_explained = any(map(_is_failure, issues)) or (issues and episode.error)
    if not (episode.success or is_explained):
        parts = ", ".join(f"{name} {value:g}" for name, value in episode.parts.items())
        fault = episode.error or f"the gold itself earns only {episode.reward} ({parts})"
        issues.append(_fault(fault))
    return issues


def _fault(why: str) -> TaskIssue:
    return TaskIssue(why, "no_build" if NO_BUILD in why else "gold_fails")


def _difference(run: GoldRun, again: GoldRun) -> str:
    lines = difflib.unified_diff(
        run.summary.splitlines(), again.summary.splitlines(), lineterm="", n=0
    )
    shown = "; ".join(line for line in list(lines)[2:6] if not line.startswith("@@"))[:200]
    return f"two executions of the gold differ: {shown or 'in what they leave'}"


# -- similar tasks ---------------------------------------------------------------------------------


def find_duplicates(tasks: Sequence[Task]) -> Iterator[Issue]:
    """Yield tasks whose query repeats an earlier one of the same world except for letter case and
    spaces, or, with the same gold, almost does."""
    earlier: dict[tuple[str, str], Task] = {}
    for task in tasks:
        first = earlier.setdefault((" ".join(task.query.lower().split()), _world(task)), task)
        if first is not task:
            answers = "and has the same gold" if first.gold == task.gold else "but has another gold"
            yield task, TaskIssue(f"asks the same as task {first.id} {answers}", "duplicate")
    groups = defaultdict[tuple[str, str], list[tuple[Task, Vector]]](list)
    weights = vectors([task.query for task in earlier.values()])
    for task, weight in zip(earlier.values(), weights, strict=True):
        group = groups[_world(task), " ".join(task.gold.split())]
        for other, vector in group:
            if cosine(vector, weight) >= NEAR:
                why = f"asks almost the same as task {other.id} and has the same gold"
                yield task, TaskIssue(why, "near_duplicate")
                break
        group.append((task, weight))


def nearest_tasks(tasks: Sequence[Task]) -> Mapping[str, Task]:
    """Return, by task id, the other task of the same database whose query is most similar."""
    by_database = defaultdict(list)
    for task in tasks:
        by_database[database_of(task)].append(task)
    nearest = {}
    for group in by_database.values():
        weights = vectors([task.query for task in group])
        for place, task in enumerate(group):
            cosines = [cosine(weights[place], weight) for weight in weights]
            cosines[place] = -1.0
            if len(group) > 1:
                nearest[task.id] = group[cosines.index(max(cosines))]
    return nearest


def _world(task: Task) -> str:
    """Return what a record says of the files and databases that a task starts with, and of what its
    user replies."""
    images = "world" if "world" in task.extra else "image"
    place = ("db", "db_id", "setup", "cwd", "env", "services", images)
    return repr(list(map(task.extra.get, (*place, "facets", "test_cases"))))
