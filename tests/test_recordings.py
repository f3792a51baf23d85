"""Reading past runs: the three shapes of InterCode v1's logs, written here in small, and run
folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from intercode.errors import DataError, UsageError
from intercode.report.summary import mean
from intercode.rescoring.recordings import Recording, load_recording
from intercode.runs.store import RunStore
from intercode.types import Episode, Task, Turn

RECORDED = (
    Path(os.environ.get("INTERCODE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    / "recorded"
)


def entry(
    actions: list[str], observations: list[str], rewards: list[float], **more: Any
) -> dict[str, Any]:
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


def actions(recording: Recording) -> list[str | None]:
    return [turn.action for turn in recording.episodes[0].line]


def test_the_three_shapes_of_a_log_are_read(tmp_path: Path) -> None:
    said = ["a\n", "No Bash code was seen here", "3\n"]
    plain = load_recording(
        write(tmp_path, {"0": entry(["ls", "What?", "ls | wc -l"], said, [0.67, 0, 1.0])})
    )
    (episode,) = plain.episodes
    assert (plain.protocol, episode.success) == ("paper", True)
    assert (episode.task, episode.query, episode.reward, plain.settings["turns"]) == (
        "0",
        "count the files",
        1.0,
        10,
    )
    assert [(turn.action, turn.score) for turn in episode.turns] == [
        ("ls", 0.67),
        (None, 0),
        ("ls | wc -l", 1.0),
    ]

    wrapped = ["execute[ls [ab]*]", "execute[cat a]\nObs", "execute[half", "ls", "submit"]
    react = load_recording(
        write(
            tmp_path, {"0": entry(wrapped, ["seen"] * 5, [0] * 5, history={"thoughts": [""] * 5})}
        )
    )
    assert (react.protocol, actions(react)) == (
        "submit",
        ["ls [ab]*", "cat a", None, None, "submit"],
    )

    log = entry(["```BASH\nls\n```"], ["error"], [0.5], history={"steps": ["look"]})
    del log["summary"]["turns_max"]
    planned = load_recording(write(tmp_path, {"meta": {"env": "bash"}, "logs": {"0": log}}))
    assert (actions(planned), planned.settings["turns"]) == (
        ["```BASH\nls\n```"],
        None,
    ), "with its fences"


def test_what_a_log_lacks_is_left_out_and_listed_by_episode(tmp_path: Path) -> None:
    blocked = entry(["ls", "rm -rf /"], ["a"], [0.5])
    unmarked = {
        **entry(["SELECT x", "SELECT 1"], ["Error executing query: x", "[(1,)]"], [0, 1.0]),
        "task_id": 1,
    }
    del unmarked["turn_history"]["valid_action"]
    empty = {"task_id": 2, "query": "list them", "summary": {"max_reward": 0}}
    bad = {"3": {**empty, "turn_history": 7}, "4": {**blocked, "summary": {}}, "5": None}
    log = {"0": blocked, "1": unmarked, "2": empty, **bad}
    recording = load_recording(write(tmp_path, log))
    assert [
        (episode.task, [turn.exit_code for turn in episode.turns]) for episode in recording.episodes
    ] == [("0", [0]), ("1", [1, 0])]
    assert recording.settings["left_out"] == {
        "0": "the last action, which was blocked: 'rm -rf /'",
        "2": "all, since it has no turn_history",
        "3": "all, since it is not a recorded episode: 'int' object is not subscriptable",
        "4": "all, since it is not a recorded episode: it lacks 'max_reward'",
        "5": "all, since it is not a recorded episode: 'NoneType' object is not subscriptable",
    }


def test_episodes_are_found_by_id_and_query(tmp_path: Path) -> None:
    other = {**entry(["b"], [""], [0]), "task_id": 1, "query": "list them"}
    recording = load_recording(write(tmp_path, {"0": entry(["a"], [""], [0]), "1": other}))
    assert recording.actions_for(
        Task("0", "count the files (it must work elsewhere, too)", "")
    ) == ["a"]
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
    assert [(turn.action, turn.score) for turn in episode_read.line] == [
        (None, None),
        ("ls", 0.5),
        ("submit", 1.0),
    ]


@pytest.mark.parametrize(
    "content", [[], {"0": {}}, {"0": None}, {"meta": {}, "logs": []}, {"half \udc00": None}]
)
def test_something_else_is_a_fault_of_the_data(tmp_path: Path, content: Any) -> None:
    with pytest.raises(DataError, match=r"log\.json"):
        load_recording(write(tmp_path, content))
    for missing in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(UsageError):
            load_recording(missing)


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
@pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the recorded runs are not here; set INTERCODE_DATA"
)
class TestPublishedRuns:
    @pytest.mark.parametrize("name", FIGURES)
    def test_success_rates_are_the_published_ones(self, name: str) -> None:
        assert (
            round(
                100 * (mean([e.success for e in load_recording(RECORDED / name).episodes]) or 0), 1
            )
            == FIGURES[name]
        )

    def test_missing_code_is_seen_exactly_where_the_loop_answered_so(self) -> None:
        recordings = [load_recording(path) for path in RECORDED.glob("*.json")]
        assert (
            len(recordings),
            sum(recording.protocol == "submit" for recording in recordings),
        ) == (16, 5)
        for recording in recordings:
            for e in recording.episodes:
                for turn in e.turns:
                    no_code = (
                        "did not contain" in turn.observation
                        or "code was found" in turn.observation
                    )
                    assert (turn.action is None) == no_code
