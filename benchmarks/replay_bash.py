"""The recorded GPT-3.5 runs in Bash, executed again: how many rewards agree.

    Try Again        fs_1, fs_3, fs_4    held to within 1.5 points of the first system's own
                                         re-execution
    ReAct            fs_1 to fs_4        loaded, executed, reported
    Plan & Solve     fs_1 to fs_4        loaded, executed, reported

Exit status 1 if an agreement misses its bound; skipped without the public data or the image.
docs/fidelity.md has the causes.

`python benchmarks/replay_bash.py [--json] [--out FILE] [--workers N] [NAME…]`, NAME as "multiturn
fs_1" or a part of it.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fidelity import data
from measuring.rows import Row, absent, command, finish

from intercode.env import EnvFactory
from intercode.rescoring.recordings import Recording
from intercode.rescoring.replay import prepare_replay, replay
from intercode.types import Episode, Task

FIRST_SYSTEM = {"multiturn fs_1": 0.900, "multiturn fs_3": 0.904, "multiturn fs_4": 0.937}
"""Agreement of the first system with its own recordings, executed again on Docker with Ubuntu
22.04."""
MARGIN = 0.015
PAUSE = 6.0
"""Seconds until tasks are executed once more. Load averages move every five."""
TIMED_OUT = "Command timed out"


@dataclass(frozen=True)
class Measured:
    """One recorded run. `figures` are those of `intercode replay --json`.

    `lasting` is the success rate where a task counts as it ended in most of three executions: one
    query asks for the machine's load, and a wrong answer is now and then the right number. A task
    whose recording timed out is executed once. Runs without a bound are executed once.
    """

    run: data.Run
    figures: dict[str, Any]
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
        return Row(
            f"{self.run.name}: rewards that agree",
            self.figures["agreement"],
            own,
            bound,
            floor=True,
            unit="",
        )


def measure(run: data.Run, workers: int) -> Measured:
    start = time.monotonic()
    options = data.world(run.number)
    with data.setup_script(run.dates) as setup:
        recording, factory, tasks = prepare_replay(
            str(run.path), "bash", reward=None, session=None, setup=setup, **options
        )
    ended: list[Episode] = []
    figures = replay(recording, factory, tasks, workers=workers, on_episode=ended.append)
    held = run.name in FIRST_SYSTEM
    lasting = (
        _lasting(recording, factory, tasks, ended, workers)
        if held
        else figures["replayed_success_rate"]
    )
    return Measured(run, figures, lasting, time.monotonic() - start)


def _lasting(
    recording: Recording,
    factory: EnvFactory,
    tasks: Sequence[Task],
    ended: Sequence[Episode],
    workers: int,
) -> float:
    quick = [
        task
        for task in tasks
        if not any(turn.observation == TIMED_OUT for turn in recording.find(task).turns)
    ]
    all_ended = list(ended)
    for _ in range(2):
        time.sleep(PAUSE)
        replay(recording, factory, quick, workers=workers, on_episode=all_ended.append)
    executed = Counter(each.task for each in all_ended)
    solved = Counter(each.task for each in all_ended if each.success)
    return sum(2 * solved[task] > executed[task] for task in executed) / len(tasks)


# -- output ----------------------------------------------------------------------------------------


def show(measured: Measured) -> None:
    figures, bound = measured.figures, measured.bound
    held = (
        ""
        if bound is None
        else f" (bound {bound:.1%}: {'held' if figures['agreement'] >= bound else 'MISSED'})"
    )
    print(
        f"{measured.run.name}: {figures['turns']} turns, {figures['agree']} rewards agree ="
        f" {figures['agreement']:.1%}{held}"
    )
    print(
        f"  observations equal {figures['observations_equal']}, success recorded"
        f" {figures['recorded_success_rate']:.1%}, replayed {figures['replayed_success_rate']:.1%}"
        f" (lasting {measured.lasting:.1%}), {measured.seconds:.0f} s"
    )


def details(measured: Measured) -> dict[str, Any]:
    """What `--out` holds of one run: figures without texts of the data."""
    figures = {name: value for name, value in measured.figures.items() if name != "disagreements"}
    return {
        "run": measured.run.name,
        "bound": measured.bound,
        **figures,
        "lasting_success_rate": measured.lasting,
    }


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to execute; all by default")
    options = parser.parse_args()
    chosen = [
        run
        for run in data.runs()
        if not options.names or any(name in run.name for name in options.names)
    ]
    if absent(options, *(run.path for run in chosen), *data.files(), why=data.no_image()):
        return 0
    results = []
    for run in chosen:
        results.append(measure(run, options.workers))
        if not options.json:
            show(results[-1])
    rows = [measured.row for measured in results]
    found = [details(measured) for measured in results]
    return finish(options, rows, details=found)


if __name__ == "__main__":
    sys.exit(main())
