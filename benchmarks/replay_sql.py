"""The recorded GPT-3.5 runs in SQL, executed again on MariaDB: how many rewards agree.

    Try Again        1 turn, 10 turns
    ReAct            scored at the submission, before the first system weighed order
    Plan & Solve     a turn without code keeps the reward

They were made on MySQL 8; docs/fidelity.md has the causes of what differs. Exit status 1 if an
agreement or a success rate misses its bound. Skipped without the public data or MariaDB.

`python benchmarks/replay_sql.py [--json] [--out FILE] [--workers N] [NAME…]`, NAME as "react" or
"10 turns".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fidelity.sql_data import NEAR, RUNS, SqlRun, dump, task_file, world
from measuring.rows import Row, absent, command, finish

from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode.rescoring.replay import prepare_replay, replay


@dataclass(frozen=True)
class Measured:
    """One recorded run. `figures` are those of `intercode replay --json`."""

    run: SqlRun
    figures: dict[str, Any]
    seconds: float

    @property
    def success(self) -> float:
        """In percent."""
        return 100 * float(self.figures["replayed_success_rate"])

    def rows(self) -> Iterator[Row]:
        name = self.run.name
        yield Row(
            f"{name}: rewards that agree",
            self.figures["agreement"],
            self.run.bound,
            1,
            floor=True,
            unit="",
        )
        yield Row(f"{name}: success in percent", self.success, self.run.success, unit="")

    def faults(self) -> Iterator[str]:
        """What a row's bound cannot say."""
        if abs(self.success - self.run.success) > NEAR:
            yield (
                f"{self.run.name}: success {self.success:.1f} %, more than {NEAR:g} point from"
                f" {self.run.success} %"
            )


def measure(run: SqlRun, workers: int) -> Measured:
    start = time.monotonic()
    recording, factory, tasks = prepare_replay(
        str(run.path), "sql", reward=None, engine="mariadb", **world()
    )
    return Measured(
        run, replay(recording, factory, tasks, workers=workers), time.monotonic() - start
    )


# -- output ----------------------------------------------------------------------------------------


def show(measured: Measured) -> None:
    figures, run = measured.figures, measured.run
    agree = f"{figures['agree']} of {figures['turns']} rewards agree = {figures['agreement']:.2%}"
    print(f"{run.name}: {agree} (bound {run.bound:.1%})")
    then = 100 * figures["recorded_success_rate"]
    print(
        f"  success recorded {then:.1f} %, now {measured.success:.1f} %; observations equal"
        f" {figures['observations_equal']}"
    )
    print(f"  {len(figures['disagreements'])} disagree; {measured.seconds:.0f} s")


def details(measured: Measured) -> dict[str, Any]:
    """What `--out` holds of one run: figures without texts of the data."""
    figures = {name: value for name, value in measured.figures.items() if name != "disagreements"}
    missed = [row.fault for row in measured.rows() if row.missed] + list(measured.faults())
    return {"run": measured.run.name, "bound": measured.run.bound, **figures, "missed": missed}


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to execute; all by default")
    options = parser.parse_args()
    chosen = [
        run for run in RUNS if not options.names or any(name in run.name for name in options.names)
    ]
    if absent(
        options, task_file(), dump(), *(run.path for run in chosen), why=MariadbEngine.missing()
    ):
        return 0
    results = []
    for run in chosen:
        results.append(measure(run, options.workers))
        if not options.json:
            show(results[-1])
    rows = [row for measured in results for row in measured.rows()]
    faults = [fault for measured in results for fault in measured.faults()]
    return finish(
        options,
        rows,
        show=lambda: None,
        details=[details(measured) for measured in results],
        faults=faults,
    )


if __name__ == "__main__":
    sys.exit(main())
