"""The recorded GPT-3.5 runs in SQL, executed again on MariaDB: how many rewards agree, and why the others do not.

    Try Again        1 turn, 10 turns
    ReAct            scored at the submission, before the first system weighed order
    Plan & Solve     a turn without code keeps the reward

They were made on MySQL 8. Causes are assigned by rules, each an experiment (fidelity/sql_causes.py); what no rule explains is
printed in full. Exit status 1 if an agreement or a success rate misses its bound, or too much is unexplained.

`python benchmarks/replay_sql.py [--json] [--out FILE] [--no-causes] [--control N] [--workers N] [NAME…]`, NAME as "react" or
"10 turns". `--control N` also tries the rules on N agreeing turns of each run, with a reward that another turn earned.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity import data
from fidelity.sql_causes import UNEXPLAINED, Proof, explain
from fidelity.sql_data import NEAR, RUNS, TASKS, UNEXPLAINED_AT_MOST, SqlRun, dump
from fidelity.sql_scenes import Bench, Book, Scene

from intercode.runner.replay import prepare_replay, replay

_APART = 0.02


@dataclass(frozen=True)
class Cause:
    """One disagreement and what explains it."""

    scene: Scene
    replayed: float
    proof: Proof


@dataclass(frozen=True)
class Measured:
    """One recorded run. `figures` are those of `intercode replay --json`; `tested` says whether causes were looked for.

    `control` is how many turns with a wrong reward were explained all the same, and of how many.
    """

    run: SqlRun
    figures: dict[str, Any]
    causes: Sequence[Cause]
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

    def rows(self) -> Iterator[dict[str, Any]]:
        agreement, bound = self.figures["agreement"], self.run.bound
        yield _row(f"{self.run.name}: rewards that agree", round(agreement, 4), bound)
        yield _row(f"{self.run.name}: success in percent", round(self.success, 2), self.run.success)
        if self.tested:
            share = self.unexplained / self.figures["turns"]
            yield _row(f"{self.run.name}: turns without a cause", round(share, 4), UNEXPLAINED_AT_MOST)

    def missed(self) -> Iterator[str]:
        if self.figures["agreement"] < self.run.bound:
            yield f"{self.run.name}: {self.figures['agreement']:.2%} agree, less than {self.run.bound:.1%}"
        if abs(self.success - self.run.success) > NEAR:
            yield f"{self.run.name}: success {self.success:.1f} %, more than {NEAR:g} point from {self.run.success} %"
        if self.unexplained > UNEXPLAINED_AT_MOST * self.figures["turns"]:
            yield f"{self.run.name}: {self.unexplained} turns without a cause"


def _row(what: str, ours: float, against: float) -> dict[str, Any]:
    return {"what": what, "ours": ours, "against": against, "ratio": round(ours / against, 4)}


def measure(run: SqlRun, bench: Bench, workers: int, *, explained: bool, control: int) -> Measured:
    start = time.monotonic()
    files = {"data": str(data.folder() / TASKS), "dump": dump(), "engine": "mariadb"}
    recording, setting, tasks = prepare_replay(str(run.path), "sql", reward=None, **files)
    figures = replay(recording, setting, tasks, workers=workers)
    book = Book(run, recording, bench)
    known = {task.id: task for task in tasks}
    apart = [(book.scene(known[row["task"]], row["turn"]), row["replayed"]) for row in figures["disagreements"]]
    causes = [Cause(scene, replayed, explain(scene)) for scene, replayed in apart if explained]
    tried = wrongly_explained(book, control)
    return Measured(run, figures, causes, explained, tried, time.monotonic() - start)


def wrongly_explained(book: Book, count: int, seed: int = 1) -> tuple[int, int]:
    """How many of `count` agreeing turns with rows, drawn at random, a rule explains with a reward that another earned."""
    chance = random.Random(seed)
    turns = [scene for task in book.tasks for scene in book.of(task) if scene.seen is not None]
    earned = sorted({scene.recorded for scene in turns})
    agreeing = (scene for scene in chance.sample(turns, len(turns)) if scene.hits(scene.gold().table))
    wrong = [_with_another(scene, earned, chance) for scene, _ in zip(agreeing, range(count), strict=False)]
    return sum(explain(scene).cause != UNEXPLAINED for scene in wrong), len(wrong)


def _with_another(scene: Scene, earned: Sequence[float], chance: random.Random) -> Scene:
    return scene.with_reward(chance.choice([reward for reward in earned if abs(reward - scene.recorded) > _APART]))


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


def show_unexplained(cause: Cause) -> None:
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
    causes = [
        {
            "task": cause.scene.task.id,
            "turn": cause.scene.index,
            "recorded": cause.scene.recorded,
            "replayed": cause.replayed,
            "cause": cause.proof.cause,
            "how": cause.proof.how,
        }
        for cause in measured.causes
    ]
    known = {"run": measured.run.name, "bound": measured.run.bound, "control": measured.control}
    return {**known, **figures, "missed": list(measured.missed()), "causes": causes}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to execute; all by default")
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON list")
    parser.add_argument("--out", type=Path, help="write figures and causes there, as JSON")
    parser.add_argument("--no-causes", dest="causes", action="store_false", help="only count what agrees")
    parser.add_argument("--control", type=int, default=0, metavar="N", help="turns with a wrong reward to try the rules on")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    chosen = [run for run in RUNS if not options.names or any(name in run.name for name in options.names)]
    results = []
    with closing(Bench()) as bench:
        for run in chosen:
            results.append(measure(run, bench, options.workers, explained=options.causes, control=options.control))
            if not options.json:
                show(results[-1])
    if options.out:
        options.out.write_text(json.dumps([details(measured) for measured in results], indent=1))
    if options.json:
        print(json.dumps([row for measured in results for row in measured.rows()]))
    missed = [fault for measured in results for fault in measured.missed()]
    print("".join(f"{fault}\n" for fault in missed), end="", file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
