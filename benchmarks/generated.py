"""Are generated tasks sound, and can they be answered without solving them? Each family is
generated, checked and played.

    broken        none: tasks that `check` calls broken
    noop          none: tasks that doing nothing solves
    same answer   at most 5 % of a family: tasks with the most frequent answer (output and changes,
                  rows, or code)
    retrieval     at most 20 % of the test split: test tasks that the gold of the most similar
                  training task solves

`python benchmarks/generated.py [--json] [--n N] [--seed N] [--no-check] [FAMILY …]`; exit status 1
if a bound is missed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from measuring.rows import Row, command, finish

from intercode.agents import retrieval
from intercode.envs import prepare
from intercode.generate import FAMILIES, generate
from intercode.runner.run import evaluate, select
from intercode.validate.check import check


def rows(name: str, *, n: int, seed: int, checked: bool) -> Iterator[Row]:
    env = FAMILIES[name].env
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        generate(name, n=n, seed=seed, out=(out := Path(folder) / name))
        yield Row(f"{name}: generating {n} tasks", time.monotonic() - begin)
        factory = prepare(env, data=str(out))
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
        played = evaluate(factory, retrieval(train), tasks=test, workers=2)
        yield Row(
            f"{name}: retrieval", sum(each.success for each in played), len(test), 0.2, unit=""
        )


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
    return finish(
        options, [row for name in options.families or FAMILIES for row in rows(name, **how)]
    )


if __name__ == "__main__":
    sys.exit(main())
