"""InterCode v1's logs in the form of our own runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from intercode.report.analysis import analysis
from intercode.report.summary import load_run, summary
from intercode.report.turns import is_error

Turns = list[tuple[str, str, float, bool | None]]


def log(path: Path, env: str, *episodes: Turns, limit: int | None = 10, **history: Any) -> Path:
    entries = {}
    for number, played in enumerate(episodes):
        actions, observations, rewards, valid = (
            list(column) for column in zip(*played, strict=True)
        )
        best = {"max_reward": max(rewards)} | ({"turns_max": limit} if limit else {})
        turns = {
            "actions": actions,
            "observations": observations,
            "rewards": rewards,
            "valid_action": valid,
            **history,
        }
        known = {"environment": f"ic_{env}", "dataset": "./data/trees.json", "hardness": "easy"}
        said = {"task_id": number, "query": f"query {number}"}
        entries[str(number)] = {**known, **said, "turn_history": turns, "summary": best}
    path.write_text(json.dumps(entries))
    return path


def test_a_try_again_log_is_a_run_scored_after_every_turn(tmp_path: Path) -> None:
    solved = [
        ("SELEC 1", "Error executing query: what?", 0.0, False),
        ("SELECT 1", "[(1,)]", 1.0, True),
    ]
    given_up = [("I am sorry", "No SQL code was found", 0.0, False)] * 10
    config, episodes = load_run(log(tmp_path / "log.json", "sql", solved, given_up))
    assert {key: config[key] for key in ("env", "agent", "protocol", "reward", "turns")} == {
        "env": "sql", "agent": "try_again", "protocol": "paper", "reward": "paper", "turns": 10,
    }  # fmt: skip
    assert [(e.task, e.reward, e.success, e.ended) for e in episodes] == [
        ("0", 1.0, True, "solved"),
        ("1", 0.0, False, "turns"),
    ]
    made, found = summary(config, episodes), analysis(config, episodes)
    assert (made["success_rate"], made["mean_turns"], made["by_hardness"]["easy"]["episodes"]) == (
        0.5,
        6.0,
        2,
    )
    assert [row["solved"] for row in found["by_turn"][:3]] == [0.0, 0.5, 0.5]
    assert found["by_data"]["./data/trees.json"]["episodes"] == 2
    assert [row["name"] for row in found["failures"]] == ["never ran"]


def test_react_and_plan_and_solve_logs_are_told_by_their_histories(tmp_path: Path) -> None:
    turns: Turns = [("execute[ls]", "a\n", 0.0, True), ("submit", "a\n", 0.67, True)]
    config, (episode,) = load_run(
        log(tmp_path / "react.json", "bash", turns, thoughts=["look", "done"])
    )
    assert (config["agent"], config["protocol"]) == ("react", "submit")
    assert [(turn.action, turn.score) for turn in episode.turns] == [("ls", None), ("submit", 0.67)]
    config, _ = load_run(
        log(
            tmp_path / "plan.json",
            "bash",
            [("ls", "a\n", 0.67, True)],
            limit=None,
            steps=[["look"]],
        )
    )
    assert (config["agent"], config["turns"]) == ("plan_solve", None)


def test_errors_and_time_outs_are_read_off_the_observations(tmp_path: Path) -> None:
    said = [
        "Error executing action: no",
        "{'error': 'Error: no'}",
        "{'output': '', 'error': ''}",
        "Failed 3/3 Test Cases.",
    ]
    _, (episode,) = load_run(
        log(tmp_path / "log.json", "python", [("f()", text, 0.0, None) for text in said])
    )
    assert [is_error(turn) for turn in episode.turns] == [True, True, False, False]
    _, (episode,) = load_run(
        log(tmp_path / "log.json", "bash", [("sleep 99", "Command timed out", 0.01, False)])
    )
    assert episode.turns[0].timed_out
