"""What golds, doing nothing, and `SELECT 1` earn on Spider, on MariaDB.

    paper, exact      every gold is played; one that misses is named with what `check` says of it
    noop, SELECT 1    the floor: what the reward pays for no answer, and for one that looks at nothing

Exit status 1 if a bound is missed. `python benchmarks/spider.py [--json] [--out FILE] [--workers
N]` is skipped without the public data or MariaDB.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fidelity.floor import constant
from fidelity.sql_data import dump, task_file, world
from measuring.rows import Row, absent, command, finish, table

from intercode.agents import Strategy, gold, noop
from intercode.env import EnvFactory
from intercode.envs import prepare
from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode.runner.run import evaluate
from intercode.types import Episode
from intercode.validate.check import check

MODES: dict[str, dict[str, Any]] = {"paper": {"protocol": "paper"}, "exact": {"reward": "exact"}}
FAILS = "gold fails"
"""What `check` says of a gold that the server refuses."""
AT_LEAST, SECONDS = 1028, 60.0
"""Golds at reward 1 under `paper`, and the time in which all golds are evaluated with two
workers."""

AGENTS: dict[str, Strategy] = {"gold": gold, "noop": noop, "SELECT 1": constant("SELECT 1")}


@dataclass(frozen=True)
class Played:
    """One reward. `why`: for each task whose gold misses, what `check` says of it."""

    mode: str
    episodes: Mapping[str, Sequence[Episode]]
    why: Mapping[str, str]
    seconds: float

    @property
    def faulty(self) -> list[str]:
        """Tasks that miss although `check` does not say that their gold fails: our fault until it
        is shown to be another's."""
        return [task for task, why in self.why.items() if FAILS not in why]

    def solved(self, agent: str) -> int:
        return sum(episode.success for episode in self.episodes[agent])

    def mean(self, agent: str) -> float:
        """Of the episodes that were scored."""
        scored = [episode.reward for episode in self.episodes[agent] if episode.reward is not None]
        return sum(scored) / max(1, len(scored))

    def rows(self) -> Iterator[Row]:
        """Where tasks that miss are told one by one, their number has no bound."""
        tasks, solved = len(self.episodes["gold"]), self.solved("gold")
        what = f"{self.mode}: golds solved of {tasks}"
        if self.mode == "paper":
            yield Row(what, solved, AT_LEAST, 1, floor=True, unit="")
        else:
            yield Row(what, solved, tasks - len(self.why) + len(self.faulty), unit="")
        yield Row(f"{self.mode}: seconds for all golds", self.seconds, SECONDS, 1)
        for agent in list(AGENTS)[1:]:
            yield Row(
                f"{self.mode}: {agent} solved, against golds", self.solved(agent), solved, unit=""
            )
            yield Row(
                f"{self.mode}: {agent} mean reward, against golds",
                round(self.mean(agent), 4),
                self.mean("gold"),
                unit="",
            )

    def faults(self) -> Iterator[str]:
        yield from (
            f"{self.mode}: task {task} misses, and check does not say that its gold fails"
            for task in self.faulty
        )


def play(mode: str, workers: int) -> Played:
    factory = prepare("sql", max_turns=None, **world(), **MODES[mode])
    start = time.monotonic()
    golds = evaluate(factory, gold, tasks=factory.tasks, workers=workers)
    seconds = time.monotonic() - start
    others = {
        name: evaluate(factory, agent, tasks=factory.tasks, workers=workers)
        for name, agent in list(AGENTS.items())[1:]
    }
    return Played(mode, {"gold": golds, **others}, _why(factory, golds), seconds)


def _why(factory: EnvFactory, golds: Sequence[Episode]) -> dict[str, str]:
    missed = {episode.task for episode in golds if not episode.success}
    tasks = [task for task in factory.tasks if task.id in missed]
    found = check(factory, tasks)["broken"] if tasks else []
    return {
        task.id: "; ".join(one["why"] for one in found if one["task"] == task.id) for task in tasks
    }


# -- output ----------------------------------------------------------------------------------------


def show(rows: Sequence[Row], played: Sequence[Played]) -> None:
    table(rows)
    for one in played:
        print(f"\n{one.mode}: {len(one.why)} golds miss")
        for task, why in one.why.items():
            print(f"  task {task}: {why}")


def details(played: Sequence[Played]) -> dict[str, Any]:
    """What `--out` holds: figures, without texts of the data."""
    return {
        one.mode: {
            "solved": {agent: one.solved(agent) for agent in AGENTS},
            "mean": {agent: one.mean(agent) for agent in AGENTS},
            "missed": sorted(one.why, key=int),
            "faulty": one.faulty,
            "seconds": one.seconds,
        }
        for one in played
    }


def main() -> int:
    options = command(__doc__, out=True, workers=True).parse_args()
    if absent(options, task_file(), dump(), why=MariadbEngine.missing()):
        return 0
    played = [play(mode, options.workers) for mode in MODES]
    rows = [row for one in played for row in one.rows()]
    faults = [fault for one in played for fault in one.faults()]
    return finish(
        options, rows, show=lambda: show(rows, played), details=details(played), faults=faults
    )


if __name__ == "__main__":
    sys.exit(main())
