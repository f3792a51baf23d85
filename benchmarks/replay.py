"""GPT-3.5's runs of 2023, recorded by InterCode v1 and executed again: how many turns earn their
recorded reward, and how many tasks are solved.

    nl2bash    Try Again, ReAct, Plan & Solve; Try Again is held to 1.5 points below what
               InterCode v1 itself reaches today
    spider     Try Again with 1 and with 10 turns, ReAct, Plan & Solve; on MariaDB (recorded: MySQL)
    mbpp       Try Again with 7 turns

`python benchmarks/replay.py [--set NAME …] [--part N] [--json] [--out FILE] [--workers N] [RUN…]`,
RUN as "react fs_1" or a part of it; of each run all tasks are executed, or every Nth, once. A set
without its public data, its root (`intercode image build
v1-bash`) or MariaDB is skipped. Exit status 1 if a bound is missed; docs/fidelity.md has causes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity import data
from measuring.rows import Row, command, finish

from intercode.rescoring.replay import prepare_replay, replay
from intercode.types import Episode

SETUP = Path(__file__).with_name("v1_setup.sh")
ENVS = {"nl2bash": "bash", "spider": "sql", "mbpp": "python"}
TIMED_OUT = "Command timed out"
PAUSE = 6.0
"""Seconds until tasks are executed once more. Load averages change every five."""

_JUNE = {
    1: {"RECORDED": "2023-06-18 18:30", "BUILT": "2023-06-18 18:00"},
    2: {"RECORDED": "2023-06-18 20:05", "BUILT": "2023-06-18 19:02"},
    3: {"RECORDED": "2023-06-18 20:50", "BUILT": "2023-06-18 20:22", "WRITTEN": "2023-06-18 20:32"},
    4: {"RECORDED": "2023-06-18 22:26", "BUILT": "2023-06-18 22:04", "ROOT": "2023-06-18 22:05"},
}
_REACT = {
    **_JUNE,
    1: {"RECORDED": "2023-05-21 21:10", "BUILT": "2023-05-20 22:27"},
    3: {"RECORDED": "2023-06-18 20:21", "BUILT": "2023-06-18 20:18"},
}
"""Dates as `ls -l`, `stat` and `date` in the recordings show them; v1_setup.sh has those of Try
Again itself."""


@dataclass(frozen=True)
class Run:
    """A recorded run, and what it is held to.

    `least` is the share of turns whose rewards must agree; `near` is how far the success rate may
    be from the recorded one. `executions` is how often each task is executed: one query of NL2Bash
    asks for the machine's load, and a wrong answer is now and then the right number.
    """

    data_set: str
    name: str
    file: str
    least: float | None = None
    near: float | None = None
    executions: int = 1
    number: int = 0
    dates: Mapping[str, str] | None = None

    @contextmanager
    def options(self) -> Iterator[dict[str, Any]]:
        """The options of `prepare`. NL2Bash is given the ages of files of the recording, counted
        from now, so that no layer of an earlier execution serves."""
        if self.data_set != "nl2bash":
            yield data.WORLDS[self.data_set][""]
            return
        with tempfile.NamedTemporaryFile("w", prefix="v1_setup-", suffix=".sh") as script:
            dates = "".join(f"{name}='{date}'\n" for name, date in (self.dates or {}).items())
            script.write(f"# made at {time.time()}\n{dates}{SETUP.read_text()}")
            script.flush()
            yield {**data.nl2bash(self.number), "setup": Path(script.name)}


RUNS = [
    *(
        Run(
            "nl2bash",
            f"multiturn fs_{number}",
            f"bash_multiturn_gpt-3.5_10_turns_fs_{number}",
            least,
            0.04,
            3,
            number,
        )
        for number, least in {1: 0.885, 3: 0.889, 4: 0.922}.items()
    ),
    *(
        Run(
            "nl2bash",
            f"{style.partition('_')[0]} fs_{number}",
            f"bash_{style}_fs_{number}",
            number=number,
            dates=dates,
        )
        for style, numbers in {"react_10_turns": _REACT, "plan_solve": _JUNE}.items()
        for number, dates in numbers.items()
    ),
    Run("spider", "try again, 1 turn", "sql_multiturn_gpt-3.5-1_turns", 0.995, 0.01),
    Run("spider", "try again, 10 turns", "sql_multiturn_gpt-3.5_10_turns", 0.993, 0.01),
    Run("spider", "react", "sql_react_10_turns", 0.995, 0.01),
    Run("spider", "plan & solve", "sql_plan_solve", 0.992, 0.01),
    Run("mbpp", "try again, 7 turns", "python_multiturn_gpt-3.5_7_turns", 1.0, 0.01),
]


def measure(run: Run, workers: int, part: int) -> dict[str, Any]:
    """Return the keys of `intercode replay --json` without texts of the data, and `run`, `bound`,
    `episodes`, `episodes_agree`, `lasting_success_rate`, `seconds`.

    A task counts as it ended in most executions; one whose recording timed out is executed once.
    Later tasks that ask the same as a recorded one are left out.
    """
    start = time.monotonic()
    log = str(data.recorded(run.file))
    with run.options() as options:
        recording, factory, tasks = prepare_replay(log, ENVS[run.data_set], reward=None, **options)
    recorded = {task.id: recording.find(task) for task in tasks}
    tasks = [task for task in tasks if recorded[task.id].task == task.id][::part]
    played: list[Episode] = []
    figures = replay(recording, factory, tasks, workers=workers, on_episode=played.append)
    quick = [
        task
        for task in tasks
        if not any(turn.observation == TIMED_OUT for turn in recorded[task.id].turns)
    ]
    for _ in range(run.executions - 1 if part == 1 else 0):
        time.sleep(PAUSE)
        replay(recording, factory, quick, workers=workers, on_episode=played.append)
    executed = Counter(episode.task for episode in played)
    solved = Counter(episode.task for episode in played if episode.success)
    lasting = {task.id: 2 * solved[task.id] > executed[task.id] for task in tasks}
    del figures["disagreements"]
    return {
        "run": run.name,
        "bound": run.least,
        **figures,
        "episodes": len(tasks),
        "episodes_agree": sum(recorded[task].success == now for task, now in lasting.items()),
        "lasting_success_rate": sum(lasting.values()) / len(tasks),
        "seconds": time.monotonic() - start,
    }


def rows(run: Run, figures: Mapping[str, Any]) -> Iterator[Row]:
    what, note = (
        f"{run.data_set}, {run.name}",
        "{agree} of {turns}, {seconds:.0f} s".format(**figures),
    )
    agreement = figures["agreement"]
    yield Row(
        f"{what}: rewards that agree", agreement, run.least, 1, floor=True, unit="", note=note
    )
    now, then = figures["lasting_success_rate"], figures["recorded_success_rate"]
    yield Row(f"{what}: success rate, against the recorded", now, then, unit="")


def faults(run: Run, figures: Mapping[str, Any]) -> Iterator[str]:
    now, then = figures["lasting_success_rate"], figures["recorded_success_rate"]
    if run.near is not None and abs(now - then) > run.near:
        yield f"{run.data_set}, {run.name}: success rate {now:.3f}, recorded {then:.3f}"


def main() -> int:
    parser = command(__doc__, out=True, workers=True, part=True)
    parser.add_argument("--set", action="append", choices=ENVS, help="only this one; repeatable")
    parser.add_argument("names", nargs="*", metavar="RUN", help="runs to execute; all by default")
    options = parser.parse_args()
    names = options.names or [""]
    sets = data.playable(options.set)
    runs = [run for run in RUNS if run.data_set in sets and any(name in run.name for name in names)]
    measured = [(run, measure(run, options.workers, options.part)) for run in runs]
    return finish(
        options,
        [row for run, figures in measured for row in rows(run, figures)],
        details=[figures for _, figures in measured],
        faults=[fault for run, figures in measured for fault in faults(run, figures)],
    )


if __name__ == "__main__":
    sys.exit(main())
