"""A limit that an action hits is named in its turn, in the record, and counted by the report."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from intercode.agents import Act, Strategy, StrategySteps
from intercode.envs.bash.env import BashEnv
from intercode.envs.bash.options import BashOptions
from intercode.envs.python.env import PythonEnv
from intercode.envs.python.options import PythonOptions
from intercode.report.analysis import analysis
from intercode.report.tables import sentences
from intercode.report.terminal import Transcript
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.runs.store import from_json, to_json
from intercode.types import Task
from intercode_sandbox.base import MIB, Limits

CONFIG = {"run": "a", "env": "bash", "agent": "scripted"}
SMALL = Limits(seconds=3, memory=256 * MIB, processes=24, disk=16 * MIB, output=1000)
ACTIONS = {
    "echo fine": (),
    "head -c 5000 /dev/zero | tr '\\0' x": ("output",),
    "for i in $(seq 40); do sleep 60 & done; sleep 1": ("processes",),
    "sleep 30": ("time",),
    "for i in 1 2 3 4 5; do head -c 70M /dev/zero | tail -n 1 | sleep 60 & done; wait": ("memory",),
    "head -c 20M /dev/zero > /tmp/full": ("disk",),
    "echo still full": (),
}


def acting(*actions: str) -> Strategy:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in actions:
            yield Act(action)
        yield Act("submit")

    return strategy


def test_each_limit_is_named_in_the_turn_of_the_action_that_hit_it_and_counted(box: Path) -> None:
    factory = BashEnv.prepare(BashOptions(data=box, limits=SMALL, max_turns=20))
    with closing(factory()) as env:
        episode = play(env, factory.tasks[0], acting(*ACTIONS), None, BudgetTracker())
    assert {turn.action: turn.limits for turn in episode.turns} == {**ACTIONS, "submit": ()}
    assert from_json(json.loads(json.dumps(to_json(episode)))).turns == episode.turns
    found = analysis(CONFIG, [episode])
    assert found["limits"] == {
        name: {"turns": 1, "episodes": 1}
        for name in ("disk", "memory", "output", "processes", "time")
    }
    assert any("memory in 1 turns of 1 episodes" in line for line in sentences(found))
    shown = "".join(str(part) for part in Transcript(BashEnv.language).of(episode))
    assert "limit hit: memory" in shown


def test_python_and_runs_that_did_not_record_limits_know_of_time(tmp_path: Path) -> None:
    data = tmp_path / "tasks.jsonl"
    data.write_text(
        json.dumps(
            {
                "query": "Write one() that returns 1.",
                "gold": "def one(): return 1",
                "tests": ["assert one() == 1"],
            }
        )
    )
    factory = PythonEnv.prepare(PythonOptions(data=data, limits=SMALL))
    with closing(factory()) as env:
        episode = play(
            env,
            factory.tasks[0],
            acting("while True: pass", "print('x' * 5000)"),
            None,
            BudgetTracker(),
        )
    assert [turn.limits for turn in episode.turns] == [("time",), ("output",), ()]
    old = to_json(episode)
    for turn in old["turns"]:
        turn.pop("limits", None)
    assert analysis(CONFIG, [from_json(old)])["limits"] == {"time": {"turns": 1, "episodes": 1}}
