"""Are generated tasks sound, and can they be answered without solving them? Each family is
generated, checked and played.

    CPU-seconds   at most 0.6 a task: all processes
    yield         the smallest part of a kind's drawn tasks that was kept
    shapes        different golds, without words, numbers and paths
    broken        none: tasks that `check` calls broken
    noop          none: tasks that doing nothing solves
    same answer   at most 5 % of a family: tasks with the most frequent answer (output and changes,
                  rows, or code)
    retrieval     at most 20 % of the test split: test tasks that the gold of the most similar
                  training task solves
    nearest       training tasks of each difficulty, and test tasks of each distance from training,
                  that the gold of the most similar training task solves once its names are
                  replaced; at each step fewer, over all families with kinds of questions
    accepted, refused
                  with --solutions: at most 3 % of the wrong ones (Python: 2 %) are accepted, and
                  1 % of the right ones refused

`python benchmarks/generated.py [--json] [--n N] [--seed N] [--no-check] [--solutions FILE]
[FAMILY …]`; exit status 1 if a bound is missed. Each line of FILE is `{"family", "query", "wrong",
"right"}` in JSON: lists of solutions, written for a task of the same N and seed by somebody who
knows its query, but not the generator. Those whose task is not generated are left out.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring.rows import Row, command, finish

from intercode.agents import nearest, retrieval
from intercode.envs import prepare
from intercode.generate import FAMILIES, generate
from intercode.runner.run import evaluate, select
from intercode.types import Task
from intercode.validate.check import check

MOST_WRONG = {"bash": 0.03, "sql": 0.03, "python": 0.02}
MOST_REFUSED = 0.01
MOST_SECONDS = 0.6
"""CPU-seconds a task."""


@dataclass
class Tally:
    """Counts over all families: shapes of golds; tasks that `nearest` solves and all that
    it plays, by split and difficulty or distance; solutions by environment, sort and success."""

    shapes: set[str] = field(default_factory=set)
    solved: Counter[tuple[str, int]] = field(default_factory=Counter)
    played: Counter[tuple[str, int]] = field(default_factory=Counter)
    solutions: Counter[tuple[str, str, bool]] = field(default_factory=Counter)


def shape(task: Task) -> str:
    """Return the gold without its paths, strings, numbers, and the words of the query."""
    words = set(re.findall(r"\w+", task.query))
    gold = re.sub(r"/[\w./*-]+|\"[^\"]*\"|(?<=[=( ])'\w[^'{]*'", "S", task.gold)
    return re.sub(
        r"\w+", lambda word: "W" if word[0] in words or word[0].isdigit() else word[0], gold
    )


def cpu_seconds() -> float:
    """Return the time that this process and those that it waited for have used, in seconds."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rows(
    name: str,
    tally: Tally,
    *,
    n: int,
    seed: int,
    checked: bool,
    solutions: Sequence[Mapping[str, Any]],
) -> Iterator[Row]:
    """Yield the rows of a family, and add to the tally."""
    env = FAMILIES[name].env
    with tempfile.TemporaryDirectory() as folder:
        begin, used = time.monotonic(), cpu_seconds()
        written = generate(name, n=n, seed=seed, out=(out := Path(folder) / name))
        yield Row(f"{name}: generating {n} tasks", time.monotonic() - begin)
        yield Row(f"{name}: CPU-seconds", cpu_seconds() - used, n, MOST_SECONDS, unit="")
        kind, least = min(written.yields().items(), key=lambda pair: pair[1])
        yield Row(f"{name}: yield ({kind})", least, unit="")
        factory = prepare(env, data=str(out))
        yield Row(f"{name}: shapes", len(shapes := set(map(shape, factory.tasks))), unit="")
        tally.shapes |= shapes
        if checked:
            found = check(factory, factory.tasks, workers=2)
            yield Row(
                f"{name}: broken", len({row["task"] for row in found["broken"]}), n, 0, unit=""
            )
            yield Row(f"{name}: noop", found["noop_paid"], n, 0, unit="")
        queries = {task.query: task for task in factory.tasks}
        with closing(factory()) as made:
            for row in solutions:
                task = queries.get(row["query"]) if row["family"] == name else None
                for sort in ("wrong", "right") if task else ():
                    for solution in row[sort]:
                        tally.solutions[env, sort, accepts(made, task, solution)] += 1
            answers = Counter(
                FAMILIES[name].answer(task.gold, made.run_gold(task)) for task in factory.tasks
            )
        yield Row(f"{name}: same answer", max(answers.values()), n, 0.05, unit="")
        train, test = (select(factory.tasks, split=split) for split in ("train", "test"))
        copied = evaluate(factory, retrieval(train), tasks=test, workers=2)
        yield Row(
            f"{name}: retrieval", sum(each.success for each in copied), len(test), 0.2, unit=""
        )
        by_id = {task.id: task for task in factory.tasks}
        tasks = factory.tasks if FAMILIES[name].questions else []
        for episode in evaluate(factory, nearest(train), tasks=tasks, workers=2):
            extra = by_id[episode.task].extra
            level = "distance" if extra["split"] == "test" else "difficulty"
            key = f"{extra['split']}, {level}", extra[level]
            tally.played[key] += 1
            tally.solved[key] += episode.success


def accepts(env: Any, task: Any, solution: str) -> bool:
    """Play an episode that executes the solution, and return whether it succeeds."""
    env.reset(options={"task": task.id})
    env.step(solution)
    return bool(env.step("submit")[4]["score"].success)


def overall(tally: Tally) -> Iterator[Row]:
    """Yield the rows of all families together."""
    yield Row("shapes", len(tally.shapes), unit="")
    for what in ("train, difficulty", "test, distance"):
        before = 1.0
        for level in sorted({number for name, number in tally.played if name == what}):
            solved, played = (count[what, level] for count in (tally.solved, tally.played))
            yield Row(f"nearest: {what} {level}", solved, played, before, unit="")
            before = solved / played
    for env, most in MOST_WRONG.items():
        for sort, success, bound in (("wrong", True, most), ("right", False, MOST_REFUSED)):
            misjudged, other = (tally.solutions[env, sort, each] for each in (success, not success))
            if count := misjudged + other:
                what = f"{env}: {sort} {'accepted' if success else 'refused'}"
                yield Row(what, misjudged, count, bound, unit="")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="these families [all]")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--no-check", action="store_true", help="leave out broken and noop, which take longest"
    )
    parser.add_argument("--solutions", type=Path, metavar="FILE")
    options = parser.parse_args()
    lines = options.solutions.read_text("utf-8").splitlines() if options.solutions else ()
    how = {
        "n": options.n,
        "seed": options.seed,
        "checked": not options.no_check,
        "solutions": list(map(json.loads, lines)),
    }
    tally = Tally()
    measured = [row for name in options.families or FAMILIES for row in rows(name, tally, **how)]
    return finish(options, [*measured, *overall(tally)])


if __name__ == "__main__":
    sys.exit(main())
