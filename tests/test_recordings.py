"""Reading past runs: the first system's three shapes, written here in small, and our own run folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from intercode.errors import DataError, UsageError
from intercode.recordings import load_recording
from intercode.store import RunStore
from intercode.types import Episode, Task, Turn

RECORDED = Path(os.environ.get("INTERCODE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "recorded"


def entry(actions: list[str], observations: list[str], rewards: list[float], **more: Any) -> dict[str, Any]:
    history = {
        "actions": actions,
        "observations": observations,
        "rewards": rewards,
        "valid_action": [True] * len(actions),
    }
    return {
        "environment": "ic_bash",
        "task_id": 0,
        "query": "count the files",
        "turn_history": {**history, **more.pop("history", {})},
        "summary": {"max_reward": max(rewards, default=0), "turns_max": 10},
        **more,
    }


def write(path: Path, content: Any) -> Path:
    (path / "log.json").write_text(json.dumps(content))
    return path / "log.json"


def test_a_try_again_log_is_read(tmp_path: Path) -> None:
    log = entry(["ls", "ls | wc -l"], ["a\n", "3\n"], [0.67, 1.0])
    recording = load_recording(write(tmp_path, {"0": log}))
    (episode,) = recording.episodes
    assert recording.protocol == "paper"
    assert (episode.task, episode.query) == ("0", "count the files")
    assert episode.actions == ["ls", "ls | wc -l"]
    assert episode.rewards == [0.67, 1.0]
    assert (episode.max_reward, episode.turns_max) == (1.0, 10)
    assert recording.success_rate == 1


def test_a_reply_without_code_is_no_action(tmp_path: Path) -> None:
    log = entry(["What is the schema?", "SHOW TABLES"], ["No SQL code was seen here", "[]"], [0, 0])
    assert load_recording(write(tmp_path, {"0": log})).episodes[0].actions == [None, "SHOW TABLES"]


def test_react_wrappers_are_taken_off(tmp_path: Path) -> None:
    actions = ["execute[ls [ab]*]", "execute[cat a]\nObs", "execute[half", "ls", "submit"]
    log = entry(actions, ["", "", "", "", ""], [0, 0, 0, 0, 0.5], history={"thoughts": [""] * 5})
    recording = load_recording(write(tmp_path, {"0": log}))
    assert recording.protocol == "submit"
    assert recording.episodes[0].actions == ["ls [ab]*", "cat a", None, None, "submit"]


def test_plan_and_solve_is_unwrapped_and_keeps_its_fences(tmp_path: Path) -> None:
    log = entry(["```BASH\nls\n```"], ["error"], [0.5], history={"steps": ["look"]})
    del log["summary"]["turns_max"]
    recording = load_recording(write(tmp_path, {"meta": {"env": "bash"}, "logs": {"0": log}}))
    assert recording.episodes[0].actions == ["```BASH\nls\n```"]
    assert recording.turns_max == 1


def test_an_episode_without_a_turn_is_read(tmp_path: Path) -> None:
    log = entry([], [], [0])
    assert load_recording(write(tmp_path, {"0": log})).episodes[0].rewards == []


def test_episodes_are_found_by_id_and_query(tmp_path: Path) -> None:
    other = {**entry(["b"], [""], [0]), "task_id": 1, "query": "list them"}
    recording = load_recording(write(tmp_path, {"0": entry(["a"], [""], [0]), "1": other}))
    assert recording.actions_for(Task("0", "count the files", "")) == ["a"]
    assert recording.actions_for(Task("0", "count the files (it must work elsewhere, too)", "")) == ["a"]
    assert recording.actions_for(Task("fs/1", "list them", "")) == ["b"]
    assert recording.actions_for(Task("0", "list them", "")) == ["b"]
    with pytest.raises(DataError, match="no episode"):
        recording.actions_for(Task("0", "something else", ""))


def test_a_run_of_ours_can_be_acted_again(tmp_path: Path) -> None:
    turns = (
        Turn(reply="a plan"),
        Turn(observation="no code"),
        Turn(action="ls", observation="a", exit_code=0, score=0.5),
        Turn(action="submit", score=1.0),
    )
    failed = Episode("a", "q", (), None, False, None, error="model: down")
    with RunStore.create(tmp_path / "run", {"protocol": "paper"}) as store:
        for episode in (
            failed,
            Episode("a", "q", turns, 1.0, True, "submit"),
            Episode("a", "q", (), 0.0, False, "turns", epoch=1),
        ):
            store.append(episode)
    recording = load_recording(tmp_path / "run")
    (episode_read,) = recording.episodes
    assert recording.protocol == "paper"
    assert episode_read.actions == [None, "ls", "submit"]
    assert episode_read.rewards == [0.0, 0.5, 1.0]
    assert episode_read.turns_max == 3


@pytest.mark.parametrize(
    "content",
    [[], 3, {"0": {}}, {"0": []}, {"0": None}, {"meta": {}, "logs": []}, {"0": {"turn_history": {}, "summary": {}}}],
)
def test_something_else_is_a_fault_of_the_data(tmp_path: Path, content: Any) -> None:
    with pytest.raises(DataError, match=r"log\.json"):
        load_recording(write(tmp_path, content))


def test_a_name_that_is_no_text_can_still_be_told(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text('{"half \\udc00": null}')
    with pytest.raises(DataError) as told:
        load_recording(tmp_path / "log.json")
    assert b"half" in str(told.value).encode()


def test_files_that_cannot_be_read_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        load_recording(tmp_path / "nothing.json")
    with pytest.raises(UsageError):
        load_recording(tmp_path)
    (tmp_path / "text.json").write_text("not json")
    with pytest.raises(DataError):
        load_recording(tmp_path / "text.json")


FIGURES = {
    "ic_bash_multiturn_gpt-3.5_10_turns_fs_1.json": 45.0,
    "ic_bash_multiturn_gpt-3.5_10_turns_fs_3.json": 45.0,
    "ic_bash_multiturn_gpt-3.5_10_turns_fs_4.json": 48.1,
    "ic_python_multiturn_gpt-3.5_7_turns.json": 59.0,
    "ic_sql_multiturn_gpt-3.5-1_turns.json": 10.5,
    "ic_sql_multiturn_gpt-3.5_10_turns.json": 47.3,
    "ic_sql_plan_solve.json": 49.1,
    "ic_sql_react_10_turns.json": 58.7,
}


@pytest.mark.fidelity
@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded runs are not here; set INTERCODE_DATA")
class TestPublishedRuns:
    @pytest.mark.parametrize("name", FIGURES)
    def test_success_rates_are_the_published_ones(self, name: str) -> None:
        assert round(100 * load_recording(RECORDED / name).success_rate, 1) == FIGURES[name]

    def test_all_sixteen_are_read_with_one_entry_per_turn(self) -> None:
        recordings = [load_recording(path) for path in sorted(RECORDED.glob("*.json"))]
        assert len(recordings) == 16
        for recording in recordings:
            for e in recording.episodes:
                assert len(e.actions) == len(e.observations) == len(e.rewards) == len(e.valid)
        assert sum(recording.protocol == "submit" for recording in recordings) == 5

    def test_missing_code_is_seen_exactly_where_the_loop_answered_so(self) -> None:
        for path in RECORDED.glob("*.json"):
            for e in load_recording(path).episodes:
                for action, seen in zip(e.actions, e.observations, strict=True):
                    told = "did not contain" in seen or "code was found" in seen
                    assert (action is None) == told
