"""What golds, doing nothing, and `false` earn on the 200 tasks of NL2Bash, under both rewards, on
the built root.

    paper's protocol     every gold is played; a miss must be one whose raw executions differ
    exact, persistent    every deterministic gold must pass, with `submit`
    noop, false          the floor: what the reward pays for no answer at all

`python benchmarks/nl2bash.py [--json] [--out FILE] [--workers N]` is skipped without the public
data or the image (`intercode image build v1-bash`); exit status 1 if a deterministic gold misses,
or too many do under the paper's protocol.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from fidelity import data
from fidelity.floor import constant
from measuring.rows import Row, absent, command, finish, table

from intercode.agents import Strategy, gold, noop
from intercode.env import EnvFactory, InterCodeEnv
from intercode.envs import prepare
from intercode.runner.run import evaluate
from intercode.types import Episode, Task
from intercode.validate.check import check

MOST, BESIDE, PAUSE = 100, 5, 0.1
"""How often a missed gold is executed at most until it differs from itself, every second time with
this many processes beside it on the machine (`ls -l /` shows how many there are), and the seconds
between. They are busy: a `curl` that fails draws no meter once in 140 executions on a quiet
machine, and in three of ten there."""
FIRST_SYSTEM = 194
"""How many golds reach 1 against themselves in the first system; six do not (data/README.md)."""
AT_LEAST = 191
"""How many must here, under the paper's protocol."""
MODES: dict[str, dict[str, Any]] = {
    "paper": {"protocol": "paper"},
    "exact": {"reward": "exact", "session": "persistent"},
}

AGENTS: dict[str, Strategy] = {"gold": gold, "noop": noop, "false": constant("false")}


@dataclass(frozen=True)
class Miss:
    """A gold that did not reach 1 against itself; `differing` counts the executions that were
    unlike the first.

    A gold without an outcome, one that runs out of time or only fails, is the data's fault:
    `no_outcome` says so.
    """

    where: str
    task: str
    parts: dict[str, float]
    differing: int
    tries: int
    why: str
    no_outcome: bool

    @property
    def deterministic(self) -> bool:
        return self.differing == 0 and not self.no_outcome

    def __str__(self) -> str:
        tried = (
            "no outcome"
            if self.no_outcome
            else f"{self.differing} of {self.tries} raw executions differ from the first"
        )
        return f"{self.where} task {self.task}: {tried}; {self.why}"


@dataclass(frozen=True)
class Result:
    """One file system under one reward."""

    episodes: dict[str, list[Episode]]
    misses: list[Miss]


def measure(mode: str, number: int, workers: int) -> Result:
    factory = prepare("bash", max_turns=None, **data.world(number), **MODES[mode])
    played = {
        name: evaluate(factory, agent, tasks=factory.tasks, workers=workers)
        for name, agent in AGENTS.items()
    }
    missed = {episode.task: episode for episode in played["gold"] if not episode.success}
    return Result(played, list(_misses(factory, f"{mode} fs_{number}", missed)))


def _misses(factory: EnvFactory, where: str, missed: Mapping[str, Episode]) -> Iterator[Miss]:
    """Each miss with what `check` finds between two raw executions, and how many more are unlike
    the first."""
    tasks = [task for task in factory.tasks if task.id in missed]
    finished = [task for task in tasks if missed[task.id].error is None]
    broken = check(factory, finished)["broken"] if finished else []
    why = {
        finding["task"]: finding["why"] for finding in broken if "two executions" in finding["why"]
    }
    for task in tasks:
        episode = missed[task.id]
        said = episode.error or why.get(task.id, "two raw executions by `check` were equal")
        differing, tries = (0, 0) if episode.error else _differing(factory, task)
        yield Miss(
            where, task.id, dict(episode.parts), differing, tries, said, episode.error is not None
        )


def _differing(factory: EnvFactory, task: Task) -> tuple[int, int]:
    """Whether one of `MOST` raw executions is unlike the first, and how many it took to see."""
    with closing(factory()) as env:
        first = env.run_gold(task).evidence
        for number in range(MOST):
            if _apart(env, task, BESIDE * (number % 2)) != first:
                return 1, number + 1
    return 0, MOST


def _apart(env: InterCodeEnv, task: Task, beside: int) -> object:
    others = [
        subprocess.Popen(["sh", "-c", "ulimit -t 60; while :; do :; done"]) for _ in range(beside)
    ]
    time.sleep(PAUSE)
    try:
        return env.run_gold(task).evidence
    finally:
        for other in others:
            other.kill()
            other.wait()


def rows(mode: str, results: Sequence[Result]) -> Iterator[Row]:
    played = {
        name: [episode for result in results for episode in result.episodes[name]]
        for name in AGENTS
    }
    tasks, solved = len(played["gold"]), sum(episode.success for episode in played["gold"])
    what = f"{mode}: golds solved of {tasks}"
    if mode == "paper":
        yield Row(what, solved, FIRST_SYSTEM, AT_LEAST / FIRST_SYSTEM, floor=True, unit="")
    else:
        chance = sum(not miss.deterministic for result in results for miss in result.misses)
        yield Row(what, solved, tasks - chance, 1.0, floor=True, unit="")
    for name in ("noop", "false"):
        won = sum(episode.success for episode in played[name])
        mean = sum(episode.reward or 0.0 for episode in played[name]) / tasks
        yield Row(f"{mode}: {name} solved of {tasks}, against golds", won, solved, unit="")
        yield Row(f"{mode}: {name} mean reward, against golds", round(mean, 3), 1.0, unit="")


def show(found: Sequence[Row], misses: Mapping[str, Sequence[Miss]]) -> None:
    table(found)
    for mode, missed in misses.items():
        print(
            f"\n{mode}: {len(missed)} golds missed, {sum(miss.deterministic for miss in missed)} of"
            " them deterministic"
        )
        for miss in missed:
            print(f"  {miss}")


def main() -> int:
    options = command(__doc__, out=True, workers=True).parse_args()
    if absent(options, *data.files(), why=data.no_image()):
        return 0
    results = {
        mode: [measure(mode, number, options.workers) for number in data.FILE_SYSTEMS]
        for mode in MODES
    }
    found = [row for mode in MODES for row in rows(mode, results[mode])]
    misses = {mode: [miss for result in results[mode] for miss in result.misses] for mode in MODES}
    details = {mode: [asdict(miss) for miss in missed] for mode, missed in misses.items()}
    faults = [str(miss) for missed in misses.values() for miss in missed if miss.deterministic]
    return finish(options, found, show=lambda: show(found, misses), details=details, faults=faults)


if __name__ == "__main__":
    sys.exit(main())
