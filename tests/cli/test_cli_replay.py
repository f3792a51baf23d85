"""`intercode replay`: our own runs and the first system's three kinds of log, executed again and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_words import REPLAY_KEYS

pytestmark = pytest.mark.slow

COUNT = "How many entries does /box have?"
TOUCH = "Make the empty file /box/new."


def episode(task: str, query: str, turns: list[tuple[str, str, float]], **history: Any) -> dict[str, Any]:
    """One entry of the first system's log, with (action, observation, reward) a turn."""
    actions, observations, rewards = (list(column) for column in zip(*turns, strict=True))
    columns = {"actions": actions, "observations": observations, "rewards": rewards, "valid_action": [True] * len(turns)}
    return {
        "environment": "ic_bash",
        "dataset": "box.json",
        "task_id": task,
        "query": query,
        "turn_history": {**columns, **history},
        "summary": {"max_reward": max(rewards), "max_reward_idx": 0, "turns_taken": len(turns), "turns_max": 10},
        "info": {},
    }


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_a_run_of_ours_is_the_same_when_executed_again(cli: Any, box: Path) -> None:
    cli("eval", "bash", "--data", box, "--agent", "retrieval", "--protocol", "paper", "--out", "run", "--json")
    done = cli("replay", "run", "--env", "bash", "--data", box, "--json")
    assert (done.status, done.err) == (0, "")
    found = done.json
    assert set(found) == REPLAY_KEYS
    assert found["turns"] == found["agree"] == found["observations_equal"] > 5
    assert (found["agreement"], found["disagreements"]) == (1.0, [])
    assert found["recorded_success_rate"] == found["replayed_success_rate"]


def test_a_run_of_ours_under_submit_replays_with_its_environment_data_reward_and_session(cli: Any, box: Path) -> None:
    cli("eval", "bash", "--data", box, "--agent", "gold", "--out", "run", "--json")
    found = cli("replay", "run", "--json").json
    assert (found["turns"], found["agreement"], found["replayed_success_rate"]) == (10, 1.0, 1.0)


def test_an_answer_that_was_submitted_is_submitted_again_under_any_reward(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"task": "count", "action": "submit 3"}\n')
    words = ("--data", box, "--limit", 1, "--json")
    assert cli("eval", "bash", "--agent", "static:answers.jsonl", "--out", "run", *words).json["success_rate"] == 1.0
    for reward in ("exact", "paper"):
        found = cli("replay", "run", "--env", "bash", "--reward", reward, *words).json
        assert (found["turns"], found["agreement"], found["replayed_success_rate"]) == (1, 1.0, 1.0)


def test_a_try_again_log_goes_on_after_its_success_and_tells_what_differs(cli: Any, box: Path, tmp_path: Path) -> None:
    log = {
        "0": episode("count", COUNT, [("ls /box | wc -l", "3\n", 1.0), ("ls /box", "a\nb\nc\n", 0.67)]),
        "1": episode("touch", TOUCH, [("cd /box", "", 0.37), ("touch new", "", 1.0), ("rm new", "", 0.9)]),
    }
    done = cli("replay", write(tmp_path / "log.json", log), "--env", "bash", "--data", box, "--json")
    found = done.json
    assert (done.status, found["turns"], found["observations_equal"]) == (0, 5, 5)
    wrong = {(row["task"], row["turn"]): row for row in found["disagreements"]}
    assert set(wrong) == {("touch", 2)} | ({("touch", 0)} if ("touch", 0) in wrong else set())
    row = wrong["touch", 2]
    assert set(row) == {"task", "turn", "recorded", "replayed", "action", "cause"}
    assert (row["recorded"], row["action"], row["cause"]) == (0.9, "rm new", None)
    assert 0.3 < row["replayed"] < 0.9
    assert found["recorded_success_rate"] == found["replayed_success_rate"] == 1.0


def test_a_react_log_is_unwrapped_and_scored_at_its_submission(cli: Any, box: Path, tmp_path: Path) -> None:
    turns = [("execute[ls /box]", "a\nb\nc\n", 0.0), ("execute[ls /box | wc -l]", "3\n", 0.0), ("submit", "", 1.0)]
    log = {"0": episode("count", COUNT, turns, thoughts=["look", "count", "done"])}
    found = cli("replay", write(tmp_path / "log.json", log), "--data", box, "--json").json
    assert (found["turns"], found["agree"], found["replayed_success_rate"]) == (3, 3, 1.0)


def test_a_plan_and_solve_log_is_found_below_logs(cli: Any, box: Path, tmp_path: Path) -> None:
    turns = [("ls /box", "a\nb\nc\n", 0.67), ("ls /box | wc -l", "3\n", 1.0)]
    log = {"meta": {"env": "bash"}, "logs": {"0": episode("count", COUNT, turns, steps=["look", "count"])}}
    found = cli("replay", write(tmp_path / "log.json", log), "--env", "bash", "--data", box, "--json").json
    assert (found["turns"], found["agree"], found["observations_equal"]) == (2, 2, 2)


def test_a_reply_without_code_costs_a_turn_and_executes_nothing(cli: Any, box: Path, tmp_path: Path) -> None:
    turns = [("I would list them", "No bash code was found", 0.0), ("ls /box | wc -l", "3\n", 1.0)]
    found = cli(
        "replay", write(tmp_path / "log.json", {"0": episode("count", COUNT, turns)}), "--env", "bash", "--data", box, "--json"
    ).json
    assert (found["turns"], found["agree"]) == (2, 2)


def test_in_words_without_json(cli: Any, box: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.json", {"0": episode("count", COUNT, [("ls /box", "a\nb\nc\n", 1.0)])})
    done = cli("replay", log, "--env", "bash", "--data", box)
    assert (done.status, done.err) == (0, "")
    assert "task count turn 0: 1.0 then, 0.67 now: 'ls /box'" in done.out
    assert "0 of 1 rewards agree" in done.out


@pytest.mark.parametrize("content", ["not json", "[]", '{"0": {"turn_history": 3}}'])
def test_something_else_is_the_datas_fault(cli: Any, box: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "log.json").write_text(content)
    done = cli("replay", "log.json", "--env", "bash", "--data", box, "--json")
    assert (done.status, done.out) == (3, "")
    assert "log.json" in done.err


def test_a_log_of_other_tasks_is_the_callers_fault(cli: Any, box: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.json", {"0": episode("other", "Something else.", [("ls", "", 0.1)])})
    done = cli("replay", log, "--env", "bash", "--data", box, "--json")
    assert (done.status, done.out) == (2, "")
    assert "log.json" in done.err


def test_what_is_no_log_at_all_is_wrong_usage(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for words in (["nowhere.json", "--env", "bash"], ["folder", "--env", "bash"], ["folder"]):
        done = cli("replay", *words)
        assert (done.status, done.out) == (2, "")
