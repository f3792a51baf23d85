"""What golds, doing nothing, and `false` earn on the 200 tasks of NL2Bash, under both rewards, on the built root.

    paper's protocol     every gold is played; a miss must be one whose raw executions differ
    exact, persistent    every deterministic gold must pass, with `submit`
    noop, false          the floor: what the reward pays for no answer at all

`python benchmarks/nl2bash.py [--json] [--out FILE] [--workers N]` needs the public data and `intercode image build nl2bash`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fidelity import data

from intercode.agents import SUBMIT, Act, Moves, Strategy, gold, noop
from intercode.env import InterCodeEnv, Setting
from intercode.envs import prepare
from intercode.runner.check import check
from intercode.runner.run import evaluate
from intercode.types import Episode, Task

TRIES, MOST, BESIDE, PAUSE = 20, 100, 5, 0.1
"""How often a missed gold is executed to see whether it differs from itself, every second time with this many processes
beside it on the machine (`ls -l /` shows how many there are), and the seconds between."""
FIRST_SYSTEM = 194
"""How many golds reach 1 against themselves in the first system; six do not (data/README.md)."""
MODES: dict[str, dict[str, Any]] = {"paper": {"protocol": "paper"}, "exact": {"reward": "exact", "session": "persistent"}}


def false(_task: Task, protocol: str) -> Moves:
    """Answer `false`, which prints nothing and changes nothing."""
    yield Act("false")
    if protocol == SUBMIT:
        yield Act(SUBMIT)


false.needs_model = False  # type: ignore[attr-defined]
AGENTS: dict[str, Strategy] = {"gold": gold, "noop": noop, "false": false}


@dataclass(frozen=True)
class Miss:
    """A gold that did not reach 1 against itself; `differing` counts the executions that were unlike the first.

    A gold without an outcome, one that runs out of time, is the data's fault: `no_outcome` says so.
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
        tried = "no outcome" if self.no_outcome else f"{self.differing} of {self.tries} raw executions differ from the first"
        return f"{self.where} task {self.task}: {tried}; {self.why}"


@dataclass(frozen=True)
class Result:
    """One file system under one reward."""

    episodes: dict[str, list[Episode]]
    misses: list[Miss]


def measure(mode: str, number: int, workers: int) -> Result:
    setting = prepare("bash", max_turns=None, **data.world(number), **MODES[mode])
    played = {name: evaluate(setting, agent, tasks=setting.tasks, workers=workers) for name, agent in AGENTS.items()}
    missed = {episode.task: episode for episode in played["gold"] if not episode.success}
    return Result(played, list(_misses(setting, f"{mode} fs_{number}", missed)))


def _misses(setting: Setting, where: str, missed: Mapping[str, Episode]) -> Iterator[Miss]:
    """Each miss with what `check` finds between two raw executions, and how many more are unlike the first."""
    tasks = [task for task in setting.tasks if task.id in missed]
    finished = [task for task in tasks if missed[task.id].error is None]
    broken = check(setting, finished)["broken"] if finished else []
    why = {finding["task"]: finding["why"] for finding in broken if "two executions" in finding["why"]}
    for task in tasks:
        episode = missed[task.id]
        said = episode.error or why.get(task.id, "two raw executions by `check` were equal")
        differing, tries = (0, 0) if episode.error else _differing(setting, task)
        yield Miss(where, task.id, dict(episode.parts), differing, tries, said, episode.error is not None)


def _differing(setting: Setting, task: Task) -> tuple[int, int]:
    """Of how many raw executions how many are unlike the first: of `TRIES`, and if none is, of up to `MOST`."""
    differing = 0
    with closing(setting()) as env:
        first = env.try_gold(task).evidence
        for number in range(MOST):
            differing += _apart(env, task, BESIDE * (number % 2)) != first
            if number + 1 >= TRIES and differing:
                break
    return differing, number + 1


def _apart(env: InterCodeEnv, task: Task, beside: int) -> object:
    others = [subprocess.Popen(["sleep", "60"]) for _ in range(beside)]
    time.sleep(PAUSE)
    try:
        return env.try_gold(task).evidence
    finally:
        for other in others:
            other.kill()
            other.wait()


def rows(mode: str, results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    played = {name: [episode for result in results for episode in result.episodes[name]] for name in AGENTS}
    tasks, solved = len(played["gold"]), sum(episode.success for episode in played["gold"])
    bound = FIRST_SYSTEM if mode == "paper" else tasks - sum(len(result.misses) for result in results)
    yield _row(f"{mode}: golds solved of {tasks}", solved, bound)
    for name in ("noop", "false"):
        won = sum(episode.success for episode in played[name])
        mean = sum(episode.reward or 0.0 for episode in played[name]) / tasks
        yield _row(f"{mode}: {name} solved of {tasks}, against golds", won, solved)
        yield _row(f"{mode}: {name} mean reward, against golds", round(mean, 3), 1.0)


def _row(what: str, ours: float, against: float) -> dict[str, Any]:
    return {"what": what, "ours": ours, "against": against, "ratio": round(ours / against, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON list")
    parser.add_argument("--out", type=Path, help="write the misses of each mode there, as JSON")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    results = {mode: [measure(mode, number, options.workers) for number in data.FILE_SYSTEMS] for mode in MODES}
    table = [row for mode in MODES for row in rows(mode, results[mode])]
    misses = {mode: [miss for result in results[mode] for miss in result.misses] for mode in MODES}
    if options.out:
        options.out.write_text(json.dumps({mode: [asdict(miss) for miss in misses[mode]] for mode in MODES}))
    if options.json:
        print(json.dumps(table))
        return
    for row in table:
        print(f"{row['what']:44} {row['ours']:8g} {row['against']:8g} {row['ratio']:7.3f}")
    for mode in MODES:
        show(mode, misses[mode])


def show(mode: str, misses: Sequence[Miss]) -> None:
    print(f"\n{mode}: {len(misses)} golds missed, {sum(miss.deterministic for miss in misses)} of them deterministic")
    for miss in misses:
        print(f"  {miss}")


if __name__ == "__main__":
    main()
