"""`intercode replay`: our own runs and InterCode v1's three kinds of log, executed again and
compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_words import REPLAY_KEYS

pytestmark = pytest.mark.slow

COUNT = "How many entries does /box have?"
TOUCH = "Make the empty file /box/new."


def episode(
    task: str, query: str, turns: list[tuple[str, str, float]], **history: Any
) -> dict[str, Any]:
    """One entry of an InterCode v1 log, with (action, observation, reward) a turn."""
    actions, observations, rewards = (list(column) for column in zip(*turns, strict=True))
    columns = {
        "actions": actions,
        "observations": observations,
        "rewards": rewards,
        "valid_action": [True] * len(turns),
    }
    return {
        "environment": "ic_bash",
        "dataset": "box.json",
        "task_id": task,
        "query": query,
        "turn_history": {**columns, **history},
        "summary": {
            "max_reward": max(rewards),
            "max_reward_idx": 0,
            "turns_taken": len(turns),
            "turns_max": 10,
        },
        "info": {},
    }


def test_a_try_again_log_goes_on_after_its_success_and_tells_what_differs(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    log = {
        "0": episode(
            "count", COUNT, [("ls /box | wc -l", "3\n", 1.0), ("ls /box", "a\nb\nc\n", 0.67)]
        ),
        "1": episode(
            "touch", TOUCH, [("cd /box", "", 0.37), ("touch new", "", 1.0), ("rm new", "", 0.9)]
        ),
    }
    (tmp_path / "log.json").write_text(json.dumps(log))
    words = ("replay", "log.json", "--env", "bash", "--data", box)
    found = cli(*words, "--json").json
    assert (found["turns"], found["observations_equal"]) == (5, 5)
    row = next(row for row in found["disagreements"] if (row["task"], row["turn"]) == ("touch", 2))
    assert set(row) == {"task", "turn", "recorded", "replayed", "action", "cause"}
    assert (row["recorded"], row["action"], row["cause"]) == (0.9, "rm new", None)
    assert 0.3 < row["replayed"] < 0.9
    assert found["recorded_success_rate"] == found["replayed_success_rate"] == 1.0
    done = cli(*words)
    assert (done.status, done.err) == (0, "")
    assert "task touch turn 2: 0.9 then, 0." in done.out
    assert f"{found['agree']} of 5 rewards agree" in done.out


def test_a_reply_without_code_is_no_difference(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "replies.json").write_text(json.dumps(["I will look first.", "ls /box", "submit"]))
    model = ("--model", "scripted:replies.json", "--limit", 1)
    cli("eval", "bash", "--data", box, *model, "--out", "run", "--json")
    found = cli("replay", "run", "--json").json
    assert found["turns"] == found["agree"] == found["observations_equal"] == 3


def test_other_data_than_a_runs_are_refused(cli: Any, box: Path, tmp_path: Path) -> None:
    cli("eval", "bash", "--data", box, "--agent", "gold", "--out", "run", "--json")
    other = tmp_path / "other.jsonl"
    other.write_text((box / "tasks.jsonl").read_text() + "\n")
    done = cli("replay", "run", "--data", other)
    assert (done.status, "not the data of run (data_digest: " in done.err) == (2, True)


def test_a_run_of_ours_is_the_same_when_executed_again(cli: Any, box: Path) -> None:
    words = ("eval", "bash", "--data", box, "--agent", "retrieval", "--protocol", "paper")
    cli(*words, "--out", "run")
    done = cli("replay", "run", "--json")
    found = done.json
    assert (done.status, done.err, set(found)) == (0, "", REPLAY_KEYS)
    assert found["turns"] == found["agree"] == found["observations_equal"] > 5
    assert (found["agreement"], found["disagreements"]) == (1.0, [])
    assert found["recorded_success_rate"] == found["replayed_success_rate"]


def test_what_is_no_log_is_the_datas_fault_and_one_of_other_tasks_the_callers(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    other = json.dumps({"0": episode("other", "Something else.", [("ls", "", 0.1)])})
    for content, status in (
        ("not json", 3),
        ("[]", 3),
        ('{"0": {"turn_history": 3}}', 3),
        (other, 2),
    ):
        (tmp_path / "log.json").write_text(content)
        done = cli("replay", "log.json", "--env", "bash", "--data", box, "--json")
        assert (done.status, done.out) == (status, "")
        assert "log.json" in done.err
