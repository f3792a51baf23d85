"""The recorded GPT-3.5 runs in Bash, executed again: how many rewards agree, and why the others do not.

    Try Again        fs_1, fs_3, fs_4    held to within 1.5 points of the first system's own re-execution
    ReAct            fs_1 to fs_4        loaded, executed, reported
    Plan & Solve     fs_1 to fs_4        loaded, executed, reported

Causes are assigned by rules, each an experiment (fidelity/causes.py). What no rule explains is printed in full. Exit
status 1 if an agreement misses its bound; skipped without the public data or the image.

`python benchmarks/replay_bash.py [--json] [--out FILE] [--no-causes] [--control N] [--workers N] [NAME…]`, NAME as
"multiturn fs_1" or a part of it. `--control N` also tries the rules on N agreeing turns of each run, with a wrong reward.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fidelity import data
from fidelity.causes import CUT, cut_evidence, explain
from fidelity.control import wrongly_explained
from fidelity.proof import UNEXPLAINED, Cause
from fidelity.scenes import Episode, Scene, Stage
from measuring.rows import Row, absent, command, finish

from intercode.env import Setting
from intercode.recordings import Recording
from intercode.runner.replay import prepare_replay, replay
from intercode.types import Episode as Ended
from intercode.types import Task

FIRST_SYSTEM = {"multiturn fs_1": 0.900, "multiturn fs_3": 0.904, "multiturn fs_4": 0.937}
"""Agreement of the first system with its own recordings, executed again on Docker with Ubuntu 22.04."""
MARGIN = 0.015
PAUSE = 10.0
"""Seconds until tasks are executed once more. Load averages move every five."""
TIMED_OUT = "Command timed out"


@dataclass(frozen=True)
class Measured:
    """One recorded run. `figures` are those of `intercode replay --json`; `golds` counts recorded outputs, cut and whole.

    `control` is how many turns with a wrong reward were explained all the same, and of how many. `lasting` is the success
    rate where a task counts as it ended in most of three executions: one query asks for the machine's load, and a wrong
    answer is now and then the right number. A task whose recording timed out is executed once.
    """

    run: data.Run
    figures: dict[str, Any]
    causes: Sequence[Cause[Scene]]
    golds: Mapping[str, int]
    control: tuple[int, int]
    lasting: float
    seconds: float

    @property
    def bound(self) -> float | None:
        own = FIRST_SYSTEM.get(self.run.name)
        return own and own - MARGIN

    @property
    def row(self) -> Row:
        own = FIRST_SYSTEM.get(self.run.name)
        bound = own and (own - MARGIN) / own
        return Row(f"{self.run.name}: rewards that agree", self.figures["agreement"], own, bound, floor=True, unit="")


def measure(run: data.Run, workers: int, *, explained: bool, control: int) -> Measured:
    start = time.monotonic()
    options = data.world(run.number)
    with data.setup_script(run.dates) as setup:
        recording, setting, tasks = prepare_replay(str(run.path), "bash", reward=None, session=None, setup=setup, **options)
    ended: list[Ended] = []
    figures = replay(recording, setting, tasks, workers=workers, on_episode=ended.append)
    stage = Stage(run)
    apart = {row["task"] for row in rows_of(figures)}
    episodes = [Episode(stage, task, recording.find(task)) for task in tasks]
    with ThreadPoolExecutor(workers) as pool:
        golds = Counter(filter(None, pool.map(_gold_recorded, episodes)))
        cut = golds["cut"] > golds["whole"]
        mine = [episode for episode in episodes if explained and episode.task.id in apart]
        causes = [cause for found in pool.map(lambda episode: _causes(episode, figures, cut), mine) for cause in found]
        tried = _tried(episodes, cut, control)
    lasting = _lasting(recording, setting, tasks, ended) if explained else figures["replayed_success_rate"]
    return Measured(run, figures, causes, golds, tried, lasting, time.monotonic() - start)


def _lasting(recording: Recording, setting: Setting, tasks: Sequence[Task], ended: Sequence[Ended]) -> float:
    quick = [task for task in tasks if TIMED_OUT not in recording.find(task).observations]
    all_ended = list(ended)
    for _ in range(2):
        time.sleep(PAUSE)
        replay(recording, setting, quick, on_episode=all_ended.append)
    executed = Counter(each.task for each in all_ended)
    solved = Counter(each.task for each in all_ended if each.success)
    return sum(2 * solved[task] > executed[task] for task in executed) / len(tasks)


def _tried(episodes: Sequence[Episode], cut: bool, count: int) -> tuple[int, int]:
    quick = [episode for episode in episodes if TIMED_OUT not in episode.then.observations]
    turns = [Scene(episode, index, cut) for episode in quick for index in range(len(episode.then.rewards))]
    earned = sorted({reward for episode in episodes for reward in episode.then.rewards})
    return wrongly_explained(turns, lambda scene: scene.hits(scene.agent(), scene.gold()), explain, earned, count)


def rows_of(figures: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = figures["disagreements"]
    return rows


def _gold_recorded(episode: Episode) -> str | None:
    if not episode.then.rewards or TIMED_OUT in episode.then.observations:
        return None
    return cut_evidence(Scene(episode, len(episode.then.rewards) - 1, False))


def _causes(episode: Episode, figures: dict[str, Any], cut: bool) -> list[Cause[Scene]]:
    mine = [row for row in rows_of(figures) if row["task"] == episode.task.id]
    scenes = [Scene(episode, row["turn"], cut) for row in mine]
    return [Cause(scene, row["replayed"], explain(scene)) for row, scene in zip(mine, scenes, strict=True)]


# -- output -------------------------------------------------------------------------------------------------------------


def show(measured: Measured) -> None:
    figures, bound = measured.figures, measured.bound
    held = "" if bound is None else f" (bound {bound:.1%}: {'held' if figures['agreement'] >= bound else 'MISSED'})"
    print(f"{measured.run.name}: {figures['turns']} turns, {figures['agree']} rewards agree = {figures['agreement']:.1%}{held}")
    print(
        f"  observations equal {figures['observations_equal']}, "
        f"success recorded {figures['recorded_success_rate']:.1%}, replayed {figures['replayed_success_rate']:.1%} "
        f"(lasting {measured.lasting:.1%}), "
        f"golds recorded cut {measured.golds.get('cut', 0)}, whole {measured.golds.get('whole', 0)}, {measured.seconds:.0f} s"
    )
    cut = sum(cause.proof.cause == CUT for cause in measured.causes)
    if cut:
        agree = figures["agree"] + cut
        print(f"  with the gold's output cut as it was then: {agree} agree = {agree / figures['turns']:.1%}")
    for name, count in Counter(cause.proof.cause for cause in measured.causes).most_common():
        print(f"  {count:4} {name}: {_kinds(measured, name)}")
    if measured.control[1]:
        print("  control: the rules explain {} of {} agreeing turns with a wrong reward".format(*measured.control))
    for cause in measured.causes:
        if cause.proof.cause == UNEXPLAINED:
            show_unexplained(cause)


def _kinds(measured: Measured, name: str) -> str:
    """How often each kind of experiment proved the cause."""
    kinds = Counter(cause.proof.how.partition(":")[0] for cause in measured.causes if cause.proof.cause == name)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def show_unexplained(cause: Cause[Scene]) -> None:
    scene = cause.scene
    print(f"  UNEXPLAINED task {scene.task.id} turn {scene.index}: recorded {scene.recorded:.2f}, ours {cause.replayed:.2f}")
    for name, text in {
        "action": scene.action,
        "recorded": scene.observation,
        "ours": scene.agent().output,
        "gold": scene.task.gold,
        "gold prints": scene.gold().output,
        "gold recorded": str(scene.gold_output),
    }.items():
        print(f"    {name:14}{text[:300]!r}")


def details(measured: Measured) -> dict[str, Any]:
    """What `--out` holds of one run: figures without texts of the data."""
    figures = {name: value for name, value in measured.figures.items() if name != "disagreements"}
    known = {"run": measured.run.name, "bound": measured.bound, "golds": dict(measured.golds), "control": measured.control}
    lasting = {"lasting_success_rate": measured.lasting}
    return {**known, **figures, **lasting, "causes": [cause.as_json() for cause in measured.causes]}


def summary(all_measured: Sequence[Measured]) -> str:
    held = [measured for measured in all_measured if measured.bound is not None]
    causes = [cause for measured in held for cause in measured.causes]
    unexplained = sum(cause.proof.cause == UNEXPLAINED for cause in causes)
    turns = sum(measured.figures["turns"] for measured in held)
    return f"Try Again: {len(causes)} of {turns} turns disagree, {unexplained} unexplained ({unexplained / max(1, turns):.2%})"


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to execute; all by default")
    parser.add_argument("--no-causes", dest="causes", action="store_false", help="only count what agrees")
    parser.add_argument("--control", type=int, default=0, metavar="N", help="turns with a wrong reward to try the rules on")
    options = parser.parse_args()
    chosen = [run for run in data.runs() if not options.names or any(name in run.name for name in options.names)]
    if absent(options, *(run.path for run in chosen), *data.files(), why=data.no_image()):
        return 0
    results = []
    for run in chosen:
        results.append(measure(run, options.workers, explained=options.causes, control=options.control))
        if not options.json:
            show(results[-1])
    rows, found = [measured.row for measured in results], [details(measured) for measured in results]
    return finish(options, rows, show=lambda: print(summary(results)), details=found)


if __name__ == "__main__":
    sys.exit(main())
