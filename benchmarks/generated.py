"""Are generated tasks sound, and can they be answered without solving them? Each family is
generated, checked and played.

    yield         the smallest part of a kind's candidates that was kept
    shapes        different golds, without words, numbers and paths
    broken        none: tasks that `check` calls broken
    noop          none: tasks that doing nothing solves
    same answer   at most 5 % of a family: tasks with the most frequent answer (output and changes,
                  rows, or code)
    retrieval     at most 20 % of the test split: test tasks that the gold of the most similar
                  training task solves
    nearest       training and test tasks of each difficulty that the gold of the most similar
                  training task solves once its names are replaced; at each step fewer, over all
                  families

`python benchmarks/generated.py [--json] [--n N] [--seed N] [--no-check] [FAMILY …]`; exit status 1
if a bound is missed.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from measuring.rows import Row, command, finish

from intercode.agents import nearest, retrieval
from intercode.envs import prepare
from intercode.generate import FAMILIES, generate
from intercode.runner.run import evaluate, select
from intercode.types import Task
from intercode.validate.check import check

Solved = Counter[tuple[str, int]]
"""Tasks by split and difficulty."""


def shape(task: Task) -> str:
    """Return the gold without its paths, strings, numbers, and the words of the query."""
    words = set(re.findall(r"\w+", task.query))
    gold = re.sub(r"/[\w./*-]+|\"[^\"]*\"|(?<=[=( ])'\w[^'{]*'", "S", task.gold)
    return re.sub(
        r"\w+", lambda word: "W" if word[0] in words or word[0].isdigit() else word[0], gold
    )


def rows(
    name: str, solved: Solved, played: Solved, *, n: int, seed: int, checked: bool
) -> Iterator[Row]:
    """Yield the rows of a family; count what `nearest` solves."""
    env = FAMILIES[name].env
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        written = generate(name, n=n, seed=seed, out=(out := Path(folder) / name))
        yield Row(f"{name}: generating {n} tasks", time.monotonic() - begin)
        kind, least = min(written.yields().items(), key=lambda pair: pair[1])
        yield Row(f"{name}: yield ({kind})", least, unit="")
        factory = prepare(env, data=str(out))
        yield Row(f"{name}: shapes", len(set(map(shape, factory.tasks))), unit="")
        if checked:
            found = check(factory, factory.tasks, workers=2)
            yield Row(
                f"{name}: broken", len({row["task"] for row in found["broken"]}), n, 0, unit=""
            )
            yield Row(f"{name}: noop", found["noop_paid"], n, 0, unit="")
        with closing(factory()) as made:
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
        for episode in evaluate(factory, nearest(train), tasks=factory.tasks, workers=2):
            extra = by_id[episode.task].extra
            key = extra["split"], extra["difficulty"]
            played[key] += 1
            solved[key] += episode.success


def steps(solved: Solved, played: Solved) -> Iterator[Row]:
    """Yield what `nearest` solves of each split and difficulty; at most what it solves of the
    difficulty before."""
    for split in ("train", "test"):
        before = 1.0
        for difficulty in sorted({number for _, number in played}):
            key = split, difficulty
            yield Row(
                f"nearest: {split}, difficulty {difficulty}",
                solved[key],
                played[key],
                before,
                unit="",
            )
            before = solved[key] / played[key]


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="these families [all]")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--no-check", action="store_true", help="leave out broken and noop, which take longest"
    )
    options = parser.parse_args()
    how = {"n": options.n, "seed": options.seed, "checked": not options.no_check}
    solved, played = Solved(), Solved()
    measured = [
        row for name in options.families or FAMILIES for row in rows(name, solved, played, **how)
    ]
    return finish(options, [*measured, *steps(solved, played)])


if __name__ == "__main__":
    sys.exit(main())
