"""What golds earn on the public data sets, and what an agent earns that does nothing.

    nl2bash    200 tasks on the built root; also an agent that always answers `false`
    spider     1,034 tasks on MariaDB; also an agent that always answers `SELECT 1`
    mbpp       974 tasks

Each set is played under the paper's protocol and under `exact`. A gold that misses is excused if it
has no outcome (it fails, or runs out of time), if its raw executions differ, or if it solves the
task when it is played again.

`python benchmarks/golds.py [--set NAME …] [--part N] [--json] [--out FILE] [--workers N]` plays all
tasks, or every Nth. A set without its
public data, its root (`intercode image build v1-bash`) or MariaDB is skipped. Exit status 1 if a
bound is missed, or a gold misses without an excuse.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from fidelity import data
from measuring.rows import Row, command, finish, table

from intercode.agents import SUBMIT, Act, Strategy, StrategySteps, gold, noop
from intercode.env import InterCodeEnv
from intercode.envs import prepare
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode.types import Episode, Task

EXECUTIONS, BUSY, PAUSE = 100, 5, 0.1
"""How often a missed gold is executed until it differs from itself, every second time beside this
many busy processes, and the seconds between. Some golds print what only a busy machine changes: the
number of processes, or the meter of a slow `curl`."""


def constant(action: str) -> Strategy:
    """Return an agent that answers every task with the same action."""

    def answer(_task: Task, protocol: str) -> StrategySteps:
        yield Act(action)
        if protocol == SUBMIT:
            yield Act(SUBMIT)

    answer.needs_model = False  # type: ignore[attr-defined]
    return answer


@dataclass(frozen=True)
class TaskSet:
    """How a public data set is played. `exact` are more options of `prepare` under that reward.

    `least` golds must solve their tasks in each mode that it names. `seconds` is the most that all
    golds may take under `exact`, with two workers.
    """

    env: str
    least: Mapping[str, int]
    answer: str | None = None
    exact: Mapping[str, Any] | None = None
    seconds: float | None = None

    @property
    def agents(self) -> dict[str, Strategy]:
        blind = {self.answer: constant(self.answer)} if self.answer else {}
        return {"gold": gold, "noop": noop, **blind}

    @property
    def limits(self) -> dict[str, float]:
        """A test of MBPP takes 4 of the usual 10 seconds: too many where a machine is busy."""
        return {"seconds": 60.0} if self.env == "python" else {}

    @property
    def modes(self) -> dict[str, Mapping[str, Any]]:
        return {"paper": {"protocol": "paper"}, "exact": {"reward": "exact", **(self.exact or {})}}


PERSISTENT = {"session": "persistent"}
SETS = {
    "nl2bash": TaskSet("bash", {"paper": 191}, "false", PERSISTENT),  # InterCode v1: 194
    "spider": TaskSet("sql", {"paper": 1028, "exact": 1028}, "SELECT 1", seconds=60.0),
    "mbpp": TaskSet("python", {"paper": 970, "exact": 970}, seconds=60.0),
}


@dataclass(frozen=True)
class Played:
    """One set in one mode. `excuses` names each missed task and its excuse, if it has one."""

    name: str
    mode: str
    episodes: Mapping[str, Sequence[Episode]]
    seconds: float
    excuses: Mapping[str, str | None]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.mode}"

    def solved(self, agent: str) -> int:
        return sum(episode.success for episode in self.episodes[agent])

    def mean(self, agent: str) -> float:
        rewards = [episode.reward or 0.0 for episode in self.episodes[agent]]
        return sum(rewards) / len(rewards)

    def rows(self) -> Iterator[Row]:
        task_set, solved = SETS[self.name], self.solved("gold")
        what = f"{self.title}: golds solved of {len(self.episodes['gold'])}"
        yield Row(what, solved, task_set.least.get(self.mode), 1, floor=True, unit="")
        bound = task_set.seconds if self.mode == "exact" else None
        yield Row(f"{self.title}: seconds for all golds", self.seconds, bound, 1)
        for agent in list(self.episodes)[1:]:
            what = f"{self.title}: {agent}"
            yield Row(f"{what} solved, against golds", self.solved(agent), solved, unit="")
            mean, most = self.mean(agent), self.mean("gold")
            yield Row(f"{what} mean reward, against golds", round(mean, 4), most, unit="")

    def details(self) -> dict[str, Any]:
        """Return the figures, without texts of the data."""
        return {
            "tasks": len(self.episodes["gold"]),
            "seconds": self.seconds,
            "solved": {agent: self.solved(agent) for agent in self.episodes},
            "mean": {agent: self.mean(agent) for agent in self.episodes},
            "missed": self.excuses,
        }


def play(name: str, mode: str, workers: int, part: int) -> Played:
    task_set = SETS[name]
    episodes: dict[str, list[Episode]] = {agent: [] for agent in task_set.agents}
    excuses: dict[str, str | None] = {}
    seconds = 0.0
    for world, options in data.WORLDS[name].items():
        factory = prepare(
            task_set.env, max_turns=None, **options, **task_set.modes[mode], **task_set.limits
        )
        for agent, strategy in task_set.agents.items():
            start = time.monotonic()
            played = evaluate(factory, strategy, tasks=factory.tasks[::part], workers=workers)
            episodes[agent] += played
            if agent == "gold":
                seconds += time.monotonic() - start
                missed = [episode for episode in played if not episode.success]
                excuses |= {world + episode.task: excuse(factory, episode) for episode in missed}
    return Played(name, mode, episodes, seconds, excuses)


def excuse(factory: EnvFactory, episode: Episode) -> str | None:
    if episode.error:
        return "no outcome"
    task = next(task for task in factory.tasks if task.id == episode.task)
    with closing(factory()) as env:
        first = env.run_gold(task)
        if any(fault.startswith("gold fails:") for fault in first.faults):
            return "no outcome"
        runs = (execute(env, task, BUSY * (number % 2)) for number in range(EXECUTIONS))
        if any(run != first.evidence for run in runs):
            return "raw executions differ"
    (again,) = evaluate(factory, gold, tasks=[task])
    return "solves it when played again" if again.success else None


def execute(env: InterCodeEnv, task: Task, busy: int) -> object:
    """Return what the gold leaves behind, executed beside `busy` processes."""
    spin = ["sh", "-c", "ulimit -t 60; while :; do :; done"]
    processes = [subprocess.Popen(spin) for _ in range(busy)]
    time.sleep(PAUSE)
    try:
        return env.run_gold(task).evidence
    finally:
        for process in processes:
            process.kill()
            process.wait()


def show(played: Sequence[Played]) -> None:
    table([row for one in played for row in one.rows()])
    for one in played:
        for task, why in one.excuses.items():
            print(f"{one.title}: the gold of task {task} misses: {why or 'no excuse'}")


def main() -> int:
    parser = command(__doc__, out=True, workers=True, part=True)
    parser.add_argument("--set", action="append", choices=SETS, help="only this one; repeatable")
    options = parser.parse_args()
    names = data.playable(options.set)
    played = [
        play(name, mode, options.workers, options.part)
        for name in names
        for mode in SETS[name].modes
    ]
    details: dict[str, Any] = {name: {} for name in names}
    for one in played:
        details[one.name][one.mode] = one.details()
    return finish(
        options,
        [row for one in played for row in one.rows()],
        show=lambda: show(played),
        details=details,
        faults=[
            f"{one.title}: the gold of task {task} misses, without an excuse"
            for one in played
            for task, why in one.excuses.items()
            if why is None
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
