"""The recorded GPT-3.5 runs in SQL, executed again on MariaDB: how many rewards agree, and why the others do not.

    Try Again        1 turn, 10 turns
    ReAct            scored at the submission, before the first system weighed order
    Plan & Solve     a turn without code keeps the reward

They were made on MySQL 8. Causes are assigned by rules, each an experiment (fidelity/sql_causes.py); what no rule explains is
printed in full. Exit status 1 if an agreement or a success rate misses its bound, or too much is unexplained. Skipped without
the public data or MariaDB.

`python benchmarks/replay_sql.py [--json] [--out FILE] [--no-causes] [--control N] [--workers N] [NAME…]`, NAME as "react" or
"10 turns". `--control N` also tries the rules on N agreeing turns of each run, with a reward that another turn earned.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from fidelity.control import wrongly_explained
from fidelity.proof import UNEXPLAINED, Cause
from fidelity.sql_causes import explain
from fidelity.sql_data import NEAR, RUNS, UNEXPLAINED_AT_MOST, SqlRun, dump, task_file, world
from fidelity.sql_scenes import Bench, Book, Scene
from measuring.rows import Row, absent, command, finish

from intercode.engines import mariadbd
from intercode.runner.replay import prepare_replay, replay


@dataclass(frozen=True)
class Measured:
    """One recorded run. `figures` are those of `intercode replay --json`; `tested` says whether causes were looked for.

    `control` is how many turns with a wrong reward were explained all the same, and of how many.
    """

    run: SqlRun
    figures: dict[str, Any]
    causes: Sequence[Cause[Scene]]
    tested: bool
    control: tuple[int, int]
    seconds: float

    @property
    def success(self) -> float:
        """In percent."""
        return 100 * float(self.figures["replayed_success_rate"])

    @property
    def unexplained(self) -> int:
        return sum(cause.proof.cause == UNEXPLAINED for cause in self.causes)

    def rows(self) -> Iterator[Row]:
        name = self.run.name
        yield Row(f"{name}: rewards that agree", self.figures["agreement"], self.run.bound, 1, floor=True, unit="")
        yield Row(f"{name}: success in percent", self.success, self.run.success, unit="")
        if self.tested:
            share = self.unexplained / self.figures["turns"]
            yield Row(f"{name}: turns without a cause", share, UNEXPLAINED_AT_MOST, 1, unit="")

    def faults(self) -> Iterator[str]:
        """What a row's bound cannot say."""
        if abs(self.success - self.run.success) > NEAR:
            yield f"{self.run.name}: success {self.success:.1f} %, more than {NEAR:g} point from {self.run.success} %"


def measure(run: SqlRun, bench: Bench, workers: int, *, explained: bool, control: int) -> Measured:
    start = time.monotonic()
    recording, setting, tasks = prepare_replay(str(run.path), "sql", reward=None, engine="mariadb", **world())
    figures = replay(recording, setting, tasks, workers=workers)
    book = Book(run, recording, bench)
    known = {task.id: task for task in tasks}
    apart = [(book.scene(known[row["task"]], row["turn"]), row["replayed"]) for row in figures["disagreements"]]
    causes = [Cause(scene, replayed, explain(scene)) for scene, replayed in apart if explained]
    turns = [scene for task in book.tasks for scene in book.of(task) if scene.seen is not None]
    earned = sorted({scene.recorded for scene in turns})
    tried = wrongly_explained(turns, lambda scene: scene.hits(scene.gold().table), explain, earned, control)
    return Measured(run, figures, causes, explained, tried, time.monotonic() - start)


# -- output -------------------------------------------------------------------------------------------------------------


def show(measured: Measured) -> None:
    figures, run = measured.figures, measured.run
    agree = f"{figures['agree']} of {figures['turns']} rewards agree = {figures['agreement']:.2%}"
    print(f"{run.name}: {agree} (bound {run.bound:.1%})")
    then = 100 * figures["recorded_success_rate"]
    print(f"  success recorded {then:.1f} %, now {measured.success:.1f} %; observations equal {figures['observations_equal']}")
    print(f"  {len(figures['disagreements'])} disagree; {measured.seconds:.0f} s")
    for name, count in Counter(cause.proof.cause for cause in measured.causes).most_common():
        print(f"  {count:4} {name}")
        for how, often in _ways(measured, name):
            print(f"       {often:4} {how}")
    if measured.control[1]:
        print("  control: the rules explain {} of {} agreeing turns with a wrong reward".format(*measured.control))
    for cause in measured.causes:
        if cause.proof.cause == UNEXPLAINED:
            show_unexplained(cause)


def _ways(measured: Measured, name: str) -> list[tuple[str, int]]:
    """How often each experiment proved the cause; what it counted is left away."""
    found = (
        cause.proof.how.partition(", all")[0] for cause in measured.causes if cause.proof.cause == name and cause.proof.how
    )
    return Counter(found).most_common()


def show_unexplained(cause: Cause[Scene]) -> None:
    scene = cause.scene
    print(f"  UNEXPLAINED task {scene.task.id} turn {scene.index}: recorded {scene.recorded:.2f}, ours {cause.replayed:.2f}")
    for name, text in {
        "action": scene.action,
        "recorded": scene.observation,
        "ours": str(scene.agent()),
        "gold": scene.task.gold,
        "gold returns": str(scene.gold()),
        "explained": cause.proof.how,
    }.items():
        print(f"    {name:14}{text[:400]!r}")


def details(measured: Measured) -> dict[str, Any]:
    """What `--out` holds of one run: figures without texts of the data."""
    figures = {name: value for name, value in measured.figures.items() if name != "disagreements"}
    known = {"run": measured.run.name, "bound": measured.run.bound, "control": measured.control}
    missed = [row.fault for row in measured.rows() if row.missed] + list(measured.faults())
    return {**known, **figures, "missed": missed, "causes": [cause.as_json() for cause in measured.causes]}


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to execute; all by default")
    parser.add_argument("--no-causes", dest="causes", action="store_false", help="only count what agrees")
    parser.add_argument("--control", type=int, default=0, metavar="N", help="turns with a wrong reward to try the rules on")
    options = parser.parse_args()
    chosen = [run for run in RUNS if not options.names or any(name in run.name for name in options.names)]
    if absent(options, task_file(), dump(), *(run.path for run in chosen), why=mariadbd.missing()):
        return 0
    results = []
    with closing(Bench()) as bench:
        for run in chosen:
            results.append(measure(run, bench, options.workers, explained=options.causes, control=options.control))
            if not options.json:
                show(results[-1])
    rows = [row for measured in results for row in measured.rows()]
    faults = [fault for measured in results for fault in measured.faults()]
    return finish(options, rows, show=lambda: None, details=[details(measured) for measured in results], faults=faults)


if __name__ == "__main__":
    sys.exit(main())
