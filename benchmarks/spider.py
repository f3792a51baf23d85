"""What golds, doing nothing, and `SELECT 1` earn on Spider, on both engines; what WikiSQL's golds do; whether BIRD loads.

    paper, exact      on MariaDB and on SQLite: every gold is played; one that misses is named with what `check` says of it
    noop, SELECT 1    the floor: what the reward pays for no answer, and for one that looks at nothing
    both engines      the golds that both can run, and the causes of other rows (fidelity/sql_engines.py)
    WikiSQL           a case for `check`: golds that write names which must be quoted
    BIRD              loads; its databases are not public, and that is said

Exit status 1 if a bound is missed. `python benchmarks/spider.py [--json] [--out FILE] [--workers N]` needs the public data and
MariaDB.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity import data
from fidelity.sql_causes import UNEXPLAINED
from fidelity.sql_data import TASKS, dump
from fidelity.sql_engines import Difference, differences
from fidelity.sql_scenes import Bench

from intercode.agents import SUBMIT, Act, Moves, Strategy, gold, noop
from intercode.env import Setting
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.runner.check import check
from intercode.runner.run import evaluate
from intercode.tasks import open_data
from intercode.types import Episode, Task

ENGINES = ("mariadb", "sqlite")
MODES: dict[str, dict[str, Any]] = {"paper": {"protocol": "paper"}, "exact": {"reward": "exact"}}
FAILS = "gold fails"
"""What `check` says of a gold that the server refuses."""
AT_LEAST, SECONDS = 1028, 60.0
"""Golds at reward 1 under `paper` on MariaDB, and the time in which all golds are evaluated with two workers."""


def select_1(_task: Task, protocol: str) -> Moves:
    """Answer with a constant."""
    yield Act("SELECT 1")
    if protocol == SUBMIT:
        yield Act(SUBMIT)


select_1.needs_model = False  # type: ignore[attr-defined]
AGENTS: dict[str, Strategy] = {"gold": gold, "noop": noop, "SELECT 1": select_1}


@dataclass(frozen=True)
class Played:
    """One engine under one reward. `why`: for each task whose gold misses, what `check` says of it."""

    engine: str
    mode: str
    episodes: Mapping[str, Sequence[Episode]]
    why: Mapping[str, str]
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.engine}, {self.mode}"

    @property
    def faulty(self) -> list[str]:
        """Tasks that miss although `check` does not say that their gold fails: our fault until it is shown to be another's."""
        return [task for task, why in self.why.items() if FAILS not in why]

    def solved(self, agent: str) -> int:
        return sum(episode.success for episode in self.episodes[agent])

    def mean(self, agent: str) -> float:
        """Of the episodes that were scored."""
        scored = [episode.reward for episode in self.episodes[agent] if episode.reward is not None]
        return sum(scored) / max(1, len(scored))

    def rows(self) -> Iterator[dict[str, Any]]:
        tasks = len(self.episodes["gold"])
        bound = AT_LEAST if self.name == "mariadb, paper" else tasks - len(self.why) + len(self.faulty)
        yield _row(f"{self.name}: golds solved of {tasks}", self.solved("gold"), bound)
        yield _row(f"{self.name}: seconds for all golds", round(self.seconds, 1), SECONDS)
        for agent in list(AGENTS)[1:]:
            yield _row(f"{self.name}: {agent} solved, against golds", self.solved(agent), self.solved("gold"))
            yield _row(f"{self.name}: {agent} mean reward, against golds", round(self.mean(agent), 4), self.mean("gold"))


@dataclass(frozen=True)
class Checked:
    """What `check` says of WikiSQL: golds that run, and tasks whose gold it calls failing."""

    tasks: int
    run: int
    failing: int
    seconds: float

    def rows(self) -> Iterator[dict[str, Any]]:
        yield _row(f"wikisql: golds that run of {self.tasks}", self.run, self.tasks)
        yield _row(
            "wikisql: failing golds that check names, against those that do not run", self.failing, self.tasks - self.run
        )


@dataclass(frozen=True)
class Engines:
    """Golds that both engines can run, and those of them whose rows differ."""

    both: int
    apart: Sequence[Difference]

    @property
    def causes(self) -> Counter[str]:
        return Counter(difference.proof.cause for difference in self.apart)

    def rows(self) -> Iterator[dict[str, Any]]:
        yield _row("golds with the same rows on both engines, of those that both run", self.both - len(self.apart), self.both)
        yield _row("… or with other rows and a cause", self.both - self.causes[UNEXPLAINED], self.both)


def _row(what: str, ours: float, against: float) -> dict[str, Any]:
    return {"what": what, "ours": ours, "against": against, "ratio": round(ours / against, 4) if against else None}


def play(engine: str, mode: str, workers: int) -> Played:
    spider = str(data.folder() / TASKS)
    setting = prepare("sql", data=spider, dump=dump(), engine=engine, max_turns=None, **MODES[mode])
    start = time.monotonic()
    golds = evaluate(setting, gold, tasks=setting.tasks, workers=workers)
    seconds = time.monotonic() - start
    others = {name: evaluate(setting, agent, tasks=setting.tasks, workers=workers) for name, agent in list(AGENTS.items())[1:]}
    return Played(engine, mode, {"gold": golds, **others}, _why(setting, golds), seconds)


def _why(setting: Setting, golds: Sequence[Episode]) -> dict[str, str]:
    missed = {episode.task for episode in golds if not episode.success}
    tasks = [task for task in setting.tasks if task.id in missed]
    found = check(setting, tasks)["broken"] if tasks else []
    return {task.id: "; ".join(one["why"] for one in found if one["task"] == task.id) for task in tasks}


def wikisql(workers: int) -> Checked:
    files = data.folder() / "wikisql"
    start = time.monotonic()
    named = {"data": str(files / "ic_wikisql_dev.json"), "dump": files / "ic_wikisql_dev.sql", "engine": "mariadb"}
    setting = prepare("sql", max_turns=None, **named)
    with closing(setting()) as env:
        run = sum(not env.try_gold(task).faults for task in setting.tasks)
    failing = {one["task"] for one in check(setting, setting.tasks, workers=workers)["broken"] if FAILS in one["why"]}
    return Checked(len(setting.tasks), run, len(failing), time.monotonic() - start)


def engines() -> Engines:
    with closing(Bench("mariadb")) as maria, closing(Bench("sqlite")) as lite:
        return Engines(*differences(maria, lite))


def bird() -> tuple[int, str]:
    """How many tasks are loaded with their fields, and what is said where their databases are missing."""
    path = str(data.folder() / "bird" / "ic_bird.json")
    tasks = open_data(path, env="sql").tasks
    try:
        prepare("sql", data=path)
    except UsageError as error:
        return sum({"evidence", "difficulty"} <= set(task.extra) for task in tasks), str(error)
    return len(tasks), ""


def missed_bounds(played: Sequence[Played], wiki: Checked, both: Engines) -> Iterator[str]:
    for one in played:
        if one.name == "mariadb, paper" and one.solved("gold") < AT_LEAST:
            yield f"{one.name}: {one.solved('gold')} golds at reward 1, less than {AT_LEAST}"
        if one.seconds > SECONDS:
            yield f"{one.name}: all golds take {one.seconds:.0f} s, more than {SECONDS:.0f}"
        yield from (f"{one.name}: task {task} misses, and check does not say that its gold fails" for task in one.faulty)
    if wiki.failing != wiki.tasks - wiki.run:
        yield f"WikiSQL: {wiki.tasks - wiki.run} golds do not run, check names {wiki.failing}"
    if both.causes[UNEXPLAINED]:
        yield f"{both.causes[UNEXPLAINED]} golds return other rows on SQLite without a cause"


# -- output -------------------------------------------------------------------------------------------------------------


def show(rows: Sequence[dict[str, Any]], played: Sequence[Played], both: Engines, birds: tuple[int, str]) -> None:
    for row in rows:
        print(f"{row['what']:76} {row['ours']:10g} {row['against']:8g} {row['ratio'] or 0:7.3f}")
    for one in played:
        print(f"\n{one.name}: {len(one.why)} golds miss")
        for task, why in one.why.items():
            print(f"  task {task}: {why}")
    print("\nother rows on SQLite: " + ", ".join(f"{count} {cause}" for cause, count in both.causes.most_common()))
    for difference in both.apart:
        if difference.proof.cause == UNEXPLAINED:
            print(f"  UNEXPLAINED task {difference.task.id}: {difference.task.gold[:300]}")
    print(f"BIRD: {birds[0]} tasks loaded; without databases: {birds[1]}")


def details(played: Sequence[Played], wiki: Checked, both: Engines, birds: tuple[int, str]) -> dict[str, Any]:
    """What `--out` holds: figures, without texts of the data."""
    return {
        "played": {
            one.name: {
                "solved": {agent: one.solved(agent) for agent in AGENTS},
                "mean": {agent: one.mean(agent) for agent in AGENTS},
                "missed": sorted(one.why, key=int),
                "faulty": one.faulty,
                "seconds": one.seconds,
            }
            for one in played
        },
        "wikisql": {"tasks": wiki.tasks, "run": wiki.run, "failing": wiki.failing},
        "engines": {"both": both.both, "apart": {one.task.id: one.proof.cause for one in both.apart}},
        "bird": {"tasks": birds[0], "error": birds[1]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON list")
    parser.add_argument("--out", type=Path, help="write all figures there, as JSON")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    played = [play(engine, mode, options.workers) for engine in ENGINES for mode in MODES]
    wiki, both, birds = wikisql(options.workers), engines(), bird()
    parts: list[Played | Checked | Engines] = [*played, wiki, both]
    rows = [row for part in parts for row in part.rows()]
    if options.out:
        options.out.write_text(json.dumps(details(played, wiki, both, birds), indent=1))
    if options.json:
        print(json.dumps(rows))
    else:
        show(rows, played, both, birds)
    faults = list(missed_bounds(played, wiki, both))
    print("".join(f"{fault}\n" for fault in faults), end="", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
