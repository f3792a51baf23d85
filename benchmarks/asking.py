"""Does the user of generated tasks answer what is asked, and only that? And is asking needed?

    right facet    at least .95 of the questions that were answered; `asking.jsonl` has them, by
                   people who saw the queries only, and labelled by another who saw the facets
    answered       at least .85 of these questions
    vague          none: 120 questions that name nothing, or everything
    told           none: replies to 100 attempts to get the solution that contain it
    10,000 replies at most 10 s
    asker, guesser, …
                   success on generated tasks: `asker` all of them; `guesser`, which plays the gold
                   with each omitted clause as most training tasks have it, over all families at
                   most 40 % of the test tasks that leave out one clause and 20 % of those that
                   leave out two

`python benchmarks/asking.py [--json] [--n N] [--seed N] [FAMILY …]`; exit status 1 if a bound is
missed. `--n 0` leaves out the generated tasks, which take minutes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from measuring.rows import Row, command, finish

from intercode.agents import asker, gold, guesser, nearest, noop
from intercode.envs import prepare
from intercode.generate import FAMILIES, generate
from intercode.runner.run import evaluate, select
from intercode.types import Task
from intercode.user import Facet, facet_asked

FILE = Path(__file__).with_suffix(".jsonl")
ABLE = [name for name, family in FAMILIES.items() if any(map(family.omissions, family.questions))]
MOST_GUESSED = {1: 0.4, 2: 0.2}


def facets_of(line: dict[str, Any]) -> list[Facet]:
    """Return the facets of a task with the present words of its family."""
    family = FAMILIES[line["family"]]
    (question,) = (one for one in family.questions if one.kind == line["kind"])
    asks = {omission.choice: omission.asks for omission in family.omissions(question)}
    return [Facet(name, tuple(asks[name]), reply) for name, reply in line["replies"].items()]


def questions() -> Iterator[Row]:
    lines = [json.loads(text) for text in FILE.read_text("utf-8").splitlines()]
    answers = [
        (facet_asked(facets_of(line), question), label)
        for line in lines
        for question, label in line.get("questions", ())
    ]
    answered = [(facet, label) for facet, label in answers if facet is not None]
    right = sum(facet.name == label for facet, label in answered)
    yield Row("right facet", right, len(answered), 0.95, floor=True, unit="")
    yield Row("answered", len(answered), len(answers), 0.85, floor=True, unit="")
    vague = [facet_asked(facets_of(line), text) for line in lines for text in line.get("vague", ())]
    yield Row("vague", len([facet for facet in vague if facet]), len(vague), 0, unit="")
    tries = [
        (line["gold"], facet_asked(facets_of(line), text))
        for line in lines
        for text in line.get("extract", ())
    ]
    told = sum(solution in facet.reply for solution, facet in tries if facet)
    yield Row("told", told, len(tries), 0, unit="")
    asked = [(facets_of(line), text) for line in lines for text, _ in line.get("questions", ())]
    begin = time.perf_counter()
    for number in range(10_000):
        facets, text = asked[number % len(asked)]
        facet_asked(facets, f"{text} {number}")  # no two questions are equal
    yield Row("10,000 replies", time.perf_counter() - begin, 1, 10)


def played(
    name: str, asks: int, guessed: Counter[tuple[int, bool]], *, n: int, seed: int
) -> Iterator[Row]:
    """Yield what agents without a model solve of a family's tasks, and count what is guessed."""
    env, what = FAMILIES[name].env, f"{name} --asks {asks}"
    with tempfile.TemporaryDirectory() as folder:
        generate(name, n=n, seed=seed, asks=asks, out=(out := Path(folder) / name))
        factory = prepare(env, data=str(out))
        train, test = (select(factory.tasks, split=split) for split in ("train", "test"))
        agents: dict[str, tuple[Any, Sequence[Task], float | None, bool]] = {
            "gold": (gold, factory.tasks, 1, True),
            "asker": (asker, factory.tasks, 1, True),
            "noop": (noop, factory.tasks, 0, False),
            "guesser": (guesser, test, None, False),
            "nearest": (nearest(train), test, None, False),
        }
        for agent, (strategy, tasks, bound, floor) in agents.items():
            solved = [
                episode.success for episode in evaluate(factory, strategy, tasks=tasks, workers=2)
            ]
            if agent == "guesser":
                guessed.update((asks, success) for success in solved)
            yield Row(f"{what}: {agent}", sum(solved), len(tasks), bound, floor=floor, unit="")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="these families [all]")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    measured, guessed = [*questions()], Counter[tuple[int, bool]]()
    for name in (options.families or ABLE) if options.n else ():
        for asks in MOST_GUESSED:
            measured += played(name, asks, guessed, n=options.n, seed=options.seed)
    for asks, bound in MOST_GUESSED.items() if guessed else ():
        right, wrong = guessed[asks, True], guessed[asks, False]
        measured.append(Row(f"--asks {asks}: guesser", right, right + wrong, bound, unit=""))
    return finish(options, measured)


if __name__ == "__main__":
    sys.exit(main())
