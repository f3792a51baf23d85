"""What golds, doing nothing, and `false` earn on the 200 tasks of NL2Bash, under both rewards, on the built root.

    paper's protocol     every gold is played; a miss must be one whose raw executions differ
    exact, persistent    every deterministic gold must pass, with `submit`
    noop, false          the floor: what the reward pays for no answer at all

`python benchmarks/nl2bash.py [--json] [--out FILE] [--workers N]` needs the public data and `intercode image build nl2bash`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
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

TRIES = 20
"""How often a missed gold is executed to see whether it differs from itself."""
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
    """A gold that did not reach 1 against itself; `differing` counts the executions that were unlike the first."""

    where: str
    task: str
    parts: dict[str, float]
    differing: int
    why: str

    @property
    def deterministic(self) -> bool:
        return self.differing == 0

    def __str__(self) -> str:
        same = f"{self.differing} of {TRIES} raw executions differ from the first"
        return f"{self.where} task {self.task}: {same}; {self.why}"


@dataclass(frozen=True)
class Result:
    """One file system under one reward."""

    episodes: dict[str, list[Episode]]
    misses: list[Miss]
    nondeterministic: int


def measure(mode: str, number: int, workers: int) -> Result:
    setting = prepare("bash", max_turns=None, **data.world(number), **MODES[mode])
    played = {name: evaluate(setting, agent, tasks=setting.tasks, workers=workers) for name, agent in AGENTS.items()}
    found = check(setting, setting.tasks, workers=workers)
    why = {finding["task"]: finding["why"] for finding in found["broken"] if "two executions" in finding["why"]}
    missed = [episode for episode in played["gold"] if not episode.success]
    misses = [_miss(setting, f"{mode} fs_{number}", episode, why.get(episode.task)) for episode in missed]
    return Result(played, misses, found["nondeterministic"])


def _miss(setting: Setting, where: str, episode: Episode, why: str | None) -> Miss:
    task = next(task for task in setting.tasks if task.id == episode.task)
    env = setting()
    try:
        differing = _differing(env, task)
    finally:
        env.close()
    said = why or "`check` saw two equal executions" if episode.error is None else episode.error
    return Miss(where, task.id, dict(episode.parts), differing, said)


def _differing(env: InterCodeEnv, task: Task) -> int:
    first, *others = [env.try_gold(task).evidence for _ in range(TRIES + 1)]
    return sum(other != first for other in others)


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
        show(mode, misses[mode], sum(result.nondeterministic for result in results[mode]))


def show(mode: str, misses: Sequence[Miss], nondeterministic: int) -> None:
    print(f"\n{mode}: {len(misses)} golds missed, {sum(miss.deterministic for miss in misses)} of them deterministic")
    print(f"  golds whose two executions by `check` differ: {nondeterministic}")
    for miss in misses:
        print(f"  {miss}")


if __name__ == "__main__":
    main()
