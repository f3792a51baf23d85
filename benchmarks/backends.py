"""Do golds earn the same on Docker as on the local backend, in the same root? The starter set, and
NL2Bash where it is.

    root v1-bash ──┬── imported ──► docker       `gold` plays every task on both, once under the
                   └──────────────► local        paper's protocol and once under `exact` in a
                                                 persistent session

A task whose rewards differ is played again, up to five times on either side. If a backend then
earns what the other did, or has no outcome as the other had none, the gold differs from itself;
else the difference is unexplained, and is printed.

`python benchmarks/backends.py [--json] [--out FILE] [--workers N] [--limit N]` is skipped without
the built root or Docker; exit status 1 if a difference is unexplained.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fidelity import data, v1
from measuring.rows import Row, absent, command, finish, table

from intercode.agents import gold
from intercode.envs import prepare
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode.types import Episode, Task

AGAIN = 5
MODES: dict[str, dict[str, Any]] = {
    "paper": {"protocol": "paper"},
    "exact": {"reward": "exact", "session": "persistent"},
}
CHANCE, UNEXPLAINED = "the gold differs from itself", "unexplained"


@dataclass(frozen=True)
class Difference:
    """What a task's gold earned on each side; None where it has no outcome."""

    where: str
    task: str
    docker: float | None
    local: float | None
    cause: str


@dataclass(frozen=True)
class Both:
    """One set of tasks under one reward."""

    where: str
    tasks: int
    differences: Sequence[Difference]


def measure(where: str, world: dict[str, Any], mode: str, workers: int, limit: int | None) -> Both:
    roots = {"docker": v1.base(), "local": data.IMAGE}
    how = {**world, **MODES[mode], "limit": limit}
    sides = [
        prepare("bash", sandbox=backend, **{**how, "image": image})
        for backend, image in roots.items()
    ]
    tasks = sides[0].tasks
    played = [evaluate(side, gold, tasks=tasks, workers=workers) for side in sides]
    name = f"{where}, {mode}"
    return Both(name, len(tasks), list(_differences(name, sides, tasks, played)))


def _differences(
    where: str,
    sides: Sequence[EnvFactory],
    tasks: Sequence[Task],
    played: Sequence[Sequence[Episode]],
) -> Iterator[Difference]:
    for task, *pair in zip(tasks, *played, strict=True):
        docker, local = map(_earned, pair)
        if docker != local:
            again = any(
                _repeats(side, task, other)
                for side, other in zip(sides, (local, docker), strict=True)
            )
            yield Difference(where, task.id, docker, local, CHANCE if again else UNEXPLAINED)


def _earned(episode: Episode) -> float | None:
    return None if episode.error or episode.reward is None else round(episode.reward, 2)


def _repeats(side: EnvFactory, task: Task, other: float | None) -> bool:
    """Whether this side, too, earns what the other did when it plays the task again."""
    return any(_earned(evaluate(side, gold, tasks=[task])[0]) == other for _ in range(AGAIN))


def worlds() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "starter set", {}
    if data.playable(["nl2bash"]):
        yield from (
            (f"NL2Bash {name.strip()}", world) for name, world in data.WORLDS["nl2bash"].items()
        )


def rows(measured: Sequence[Both]) -> Iterator[Row]:
    for both in measured:
        same = both.tasks - len(both.differences)
        yield Row(f"{both.where}: golds that earn the same", same, both.tasks, unit="")


def show(measured: Sequence[Both]) -> None:
    table(list(rows(measured)))
    for each in (each for both in measured for each in both.differences):
        print(
            f"{each.where}, task {each.task}: docker {each.docker}, local {each.local},"
            f" {each.cause}"
        )


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N tasks of each set")
    options = parser.parse_args()
    if absent(options, why=data.no_image() or v1.no_docker()):
        return 0
    every = [(where, world, mode) for where, world in worlds() for mode in MODES]
    measured = [measure(*each, options.workers, options.limit) for each in every]
    found = [each for both in measured for each in both.differences]
    faults = [
        f"{each.where}, task {each.task}: unexplained"
        for each in found
        if each.cause == UNEXPLAINED
    ]
    out = [asdict(each) for each in found]
    return finish(
        options, list(rows(measured)), show=lambda: show(measured), details=out, faults=faults
    )


if __name__ == "__main__":
    sys.exit(main())
