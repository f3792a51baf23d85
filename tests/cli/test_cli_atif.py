"""Trajectories at the command line: ours are executed again, and those of other agents as well."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_words import TASKS

from intercode.rescoring.recordings import load_recording
from intercode.runs.store import read_run

AGENTS = {"bash": "gold", "sql": "tools", "python": "gold", "ctf": "tools"}
TOOLS = [
    {"calls": [{"name": "execute", "arguments": {"code": code}} for code in ("1", "2")]},
    {"calls": [{"name": "submit", "arguments": {}}]},
]


@pytest.mark.slow
@pytest.mark.parametrize(("env", "agent"), AGENTS.items())
def test_real_episodes_are_executed_again_from_their_trajectories(
    tmp_path: Path, cli: Callable[..., Any], env: str, agent: str
) -> None:
    (tmp_path / "replies.json").write_text(json.dumps(TOOLS))
    model = ("--model", "scripted:replies.json") if agent == "tools" else ()
    cli("eval", env, "--agent", agent, *model, "--limit", 2, "--out", "run")
    assert cli("export", "run", "--format", "atif", "--out", agent).status == 0
    before, after = (
        {
            episode.task: [(turn.action, turn.observation) for turn in episode.turns]
            for episode in episodes
        }
        for episodes in (
            read_run(tmp_path / "run")[1],
            load_recording(tmp_path / agent).episodes,
        )
    )
    assert before == after
    again = cli("replay", agent, "--json").json
    assert again["turns"] == again["agree"] == again["observations_equal"] > 3


def foreign(folder: Path, query: str, command: str) -> None:
    """Write a trajectory as another agent's harness does, without a reward."""
    call = {"tool_call_id": "1", "function_name": "Bash", "arguments": {"command": command}}
    seen = {"results": [{"source_call_id": "1", "content": "elsewhere"}]}
    steps = [
        {"step_id": 1, "source": "user", "message": query},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "tool_calls": [call],
            "observation": seen,
        },
    ]
    folder.mkdir(parents=True)
    trajectory = {"schema_version": "ATIF-v1.6", "agent": {"name": "x", "version": "2"}}
    (folder / "trajectory.json").write_text(json.dumps({**trajectory, "steps": steps}))


def test_another_agents_trajectory_is_shown_and_executed(
    cli: Callable[..., Any], box: Path, tmp_path: Path
) -> None:
    task = TASKS[0]
    for trial in ("a", "b"):
        foreign(tmp_path / "job" / f"how-many__{trial}" / "agent", task["query"], task["gold"])
    listed = cli("show", "job").out.splitlines()
    assert [line.split()[:3] for line in listed[1:]] == [["–", "how-many", epoch] for epoch in "01"]
    shown = cli("show", "job/how-many__a/agent/trajectory.json").out
    assert f"› {task['gold']}\n│ elsewhere\n" in shown
    assert "– Not scored\n" in shown
    assert " s\n" not in shown, "nothing of a time that nobody measured"
    failed = cli("replay", "job", "--data", box)
    assert (failed.status, "--env" in failed.err) == (2, True)
    words = ("replay", "job", "--env", "bash", "--data", box)
    found = cli(*words, "--json").json
    assert (found["agreement"], found["recorded_success_rate"]) == (None, None)
    assert (found["turns"], found["observations_equal"]) == (1, 0)
    assert found["replayed_success_rate"] == 1.0
    assert cli(*words, "--trust").out == (
        "no rewards are recorded, 0 observations are equal; success unknown then, 100.0% now\n"
    )
    assert {path.name for path in (tmp_path / "job").iterdir()} == {"how-many__a", "how-many__b"}
