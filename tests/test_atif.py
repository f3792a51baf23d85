"""Trajectories in Harbor's format: ours are read back as they were, and those of other agents can
be shown and executed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_export import CALLED, FAILED, LAST, ONE, SOLVED, TWO, a_run

from intercode.errors import DataError, EntryLeftOut, UsageError
from intercode.interop.atif import read_trajectories, trajectory_of
from intercode.interop.export import export_run
from intercode.runs.store import read_run, to_json
from intercode.types import Episode, Sample, ToolCall, Turn, Usage

CALLS = tuple(
    ToolCall(name, "execute", json.dumps({"code": f"echo {name}"})) for name in ("a", "b", "b")
)
THREE = Turn((), "", None, "echo a", "a\n", 0, calls=CALLS, reasoning={"reasoning": "Three."})
EPISODES = {
    "without a model": (Turn(action="ls", observation="a\n", seconds=0.5), LAST),
    "code in the text": (ONE, TWO, LAST),
    "calls": CALLED,
    "three calls, one malformed, one not executed": (
        THREE,
        Turn(observation="not JSON"),
        replace(ONE, ask=None, reply=None, usage=Usage(), action="submit a b"),
    ),
    "no code, then an action of the agent's own": (
        replace(ONE, action=None, observation="No code."),
        Turn(action="pwd", observation="/\n"),
        Turn(action="submit", forced=True),
    ),
    "a fork": (ONE, replace(TWO, after=-1), Turn(action="pwd", observation="/", after=0), LAST),
    "a question alone, and tokens": (
        Turn(ONE.ask, "A plan."),
        replace(
            ONE, sample=Sample((3, 4), (-0.5, -1.0), prompt_ids=(1, 2)), usage=Usage(2, 2, 0.1)
        ),
    ),
    "nothing": (),
}


OF_AGENT = {"reasoning_content", "tool_calls", "metrics", "llm_call_count"}
OF_STEP = {"step_id", "source", "message", "observation", "is_copied_context", "extra", *OF_AGENT}
OF_METRICS = {
    *("prompt_tokens", "completion_tokens", "cost_usd", "extra"),
    *("prompt_token_ids", "completion_token_ids", "logprobs"),
}


def require_valid(trajectory: dict[str, Any]) -> None:
    """Check what Harbor's model demands, which refuses unknown fields; `tests/integrations` has the
    model itself."""
    assert trajectory.keys() <= {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps"),
        *("final_metrics", "extra"),
    }
    assert [each["step_id"] for each in trajectory["steps"]] == list(
        range(1, len(trajectory["steps"]) + 1)
    )
    for each in trajectory["steps"]:
        assert each.keys() <= OF_STEP - (OF_AGENT if each["source"] != "agent" else set())
        assert each.get("llm_call_count") != 0 or "metrics" not in each
        assert each.get("metrics", {}).keys() <= OF_METRICS
        calls = each.get("tool_calls", ())
        assert all(isinstance(call["arguments"], dict) for call in calls)
        ids = [call["tool_call_id"] for call in calls]
        assert len(set(ids)) == len(ids)
        for result in each.get("observation", {}).get("results", ()):
            assert result.keys() <= {"source_call_id", "content", "extra"}
            assert result.get("source_call_id") in (None, *ids)


def exported(run: Path, output: Path) -> list[dict[str, Any]]:
    export_run(run, "atif", output=output)
    return [json.loads(file.read_bytes()) for file in sorted(output.rglob("trajectory.json"))]


def deeds(episode: Episode) -> list[tuple[str | None, str]]:
    return [(turn.action, turn.observation) for turn in episode.turns]


@pytest.mark.journey
def test_trajectories_are_read_back_as_the_run_was(tmp_path: Path) -> None:
    episodes = [replace(SOLVED, task=name, turns=turns) for name, turns in EPISODES.items()]
    fault = {"reward": None, "success": False, "ended": None, "error": "model: down"}
    episodes += [FAILED, replace(SOLVED, epoch=1), replace(SOLVED, task="../a b", **fault)]
    run = a_run(tmp_path / "run", *episodes)
    for trajectory in exported(run, tmp_path / "out"):
        require_valid(trajectory)
    settings, back = read_trajectories(tmp_path / "out") or pytest.fail("no trajectories")
    assert (settings["env"], settings["agent"], settings["model"]) == ("bash", "try_again", "m")
    by_key = {(episode.task, episode.epoch): episode for episode in back}
    assert len(by_key) == len(back) == len(episodes)
    for episode in read_run(run)[1]:
        again = by_key[episode.task, episode.epoch]
        assert deeds(again) == deeds(episode)
        assert deeds(replace(again, turns=again.line)) == deeds(
            replace(episode, turns=episode.line)
        )
        assert again.usage == episode.usage
        assert [turn.sample for turn in again.turns] == [turn.sample for turn in episode.turns]
        facts = [{**to_json(each), "turns": []} for each in (again, episode)]
        assert facts[0] == facts[1]


def test_a_trajectory_says_who_wrote_what(tmp_path: Path) -> None:
    sample = Sample((3, 4), (-0.5, -1.0), prompt_ids=(1, 2))
    first = replace(ONE, sample=sample, reasoning={"reasoning_content": "Hm."})
    trajectory = trajectory_of(
        {"agent": "a", "run": "r"}, replace(SOLVED, turns=(first, TWO, LAST))
    )
    steps = trajectory["steps"]
    assert [(step["source"], step["message"]) for step in steps] == [
        ("system", "be brief"),
        ("user", "an example"),
        ("agent", "```ls```"),
        ("user", "How many?"),
        ("agent", ONE.reply),
        ("agent", "```wc```"),
    ], "the message that repeats an observation is left out"
    assert [step.get("is_copied_context", False) for step in steps] == [False] * 2 + [True] + [
        False
    ] * 3
    (call,) = steps[4]["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("execute", {"code": "ls"})
    (result,) = steps[4]["observation"]["results"]
    assert (result["source_call_id"], result["content"]) == (call["tool_call_id"], "a\nb\n")
    assert steps[4]["reasoning_content"] == "Hm."
    assert steps[4]["metrics"] == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "cost_usd": 0.5,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3, 4],
        "logprobs": [-0.5, -1.0],
    }
    assert steps[5]["metrics"] == {}, "unknown is not 0"
    assert [each["function_name"] for each in steps[5]["tool_calls"]] == ["execute", "submit"]
    assert (trajectory["extra"]["reward"], trajectory["final_metrics"]["total_steps"]) == (1.0, 6)
    (asked,) = trajectory_of({}, replace(SOLVED, turns=()))["steps"]
    assert (asked["source"], asked["message"]) == ("user", SOLVED.query)


def test_a_folder_is_new_or_nothing_is_written(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SOLVED)
    with pytest.raises(UsageError, match="--out"):
        export_run(run, "atif")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(UsageError, match="exists"):
        export_run(run, "atif", output=tmp_path / "mine", force=True)
    with pytest.raises(UsageError, match="--only human"):
        export_run(run, "atif", output=tmp_path / "none", only="human")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "mine"}


# -- trajectories of other agents ------------------------------------------------------------------


def step(source: str, message: Any, **more: Any) -> dict[str, Any]:
    return {"source": source, "message": message, **more}


def call(name: str, text: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": text, "function_name": name, "arguments": arguments}


def foreign(folder: Path, *steps: dict[str, Any], **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    numbered = [{"step_id": number, **each} for number, each in enumerate(steps, 1)]
    agent = {"name": "claude-code", "version": "2", "model_name": "big"}
    trajectory = {"schema_version": "ATIF-v1.6", "agent": agent, "steps": numbered, **more}
    (folder / "trajectory.json").write_text(json.dumps(trajectory))
    return folder


def test_another_agents_trajectory_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    foreign(
        tmp_path / "count__Xy3" / "agent",
        step("system", "Be brief."),
        step("user", [{"type": "text", "text": "How many?"}, image]),
        step("agent", "An earlier one.", is_copied_context=True),
        step(
            "agent",
            "I look.",
            reasoning_content="Hm.",
            tool_calls=[
                call("Bash", "1", command="ls"),
                call("Read", "2", file_path="/etc/passwd"),
            ],
            observation={
                "results": [
                    {"source_call_id": "2", "content": [{"type": "text", "text": "root"}, image]},
                    {"source_call_id": "1", "content": "a\n"},
                ]
            },
            metrics={"prompt_tokens": 5, "completion_tokens": 2, "cost_usd": 0.5},
        ),
        step(
            "agent",
            "",
            tool_calls=[
                call("bash_command", "3", keystrokes="cd /\n"),
                call("x", "4", cmd="pwd"),
                call("done", "5"),
            ],
            observation={"results": [{"content": "/\n"}]},
        ),
        step("agent", "So:\n```bash\nwc\n```", observation={"results": [{"content": "2\n"}]}),
        step("agent", "Two."),
    )
    (tmp_path / "config.json").write_text("{}")
    settings, (episode,) = read_trajectories(tmp_path) or pytest.fail("no trajectories")
    assert settings == {"run": str(tmp_path), "agent": "claude-code", "model": "big"}
    assert (episode.task, episode.query) == ("count", "How many?\n")
    assert (episode.reward, episode.success, episode.ended, episode.error) == (
        None,
        False,
        None,
        None,
    )
    assert deeds(episode) == [
        ("ls", "a\n"),
        (None, "root\n"),
        ("cd /", ""),
        ("pwd", "/\n"),
        (None, ""),
        ("wc", "2\n"),
        (None, ""),
    ]
    assert [turn.calls[0].name for turn in episode.turns[:3] if turn.calls] == [
        "Bash",
        "Read",
        "bash_command",
    ]
    assert (episode.usage, episode.turns[-1].reply) == (Usage(5, 2, 0.5), "Two.")
    assert [message["role"] for message in episode.turns[0].ask or ()] == [
        "system",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        {"steps": None},
        {"steps": [step("agent", "", tool_calls=[{"function_name": "Bash"}])]},
        {"agent": "claude"},
        {"steps": [step("agent", 7)]},
        {"steps": [step("agent", "", metrics={"prompt_tokens": "many"})]},
        {"steps": [], "extra": {"intercode": {}, "schema": 2, "task": "t", "reward": 9}},
    ],
)
def test_a_damaged_trajectory_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    foreign(tmp_path, step("user", "Hi."), **damage)
    with pytest.raises(DataError, match=r"trajectory\.json is not an ATIF trajectory"):
        read_trajectories(tmp_path)


def test_one_odd_trajectory_hides_no_others(tmp_path: Path) -> None:
    foreign(tmp_path / "good", step("user", "Hi."))
    foreign(tmp_path / "odd", steps=7)
    (tmp_path / "torn.json").write_text('{"schema_version": "ATIF-v1.6", ')
    (tmp_path / "foreign.json").write_text("no JSON")
    (tmp_path / "link.json").symlink_to("torn.json")
    with pytest.warns(EntryLeftOut) as named:
        recorded = read_trajectories(tmp_path)
    assert recorded
    assert [episode.task for episode in recorded[1]] == ["good"]
    assert [str(warning.message).split(": line")[0].split(" is not ")[0] for warning in named] == [
        f"left out: {tmp_path / name}" for name in ("odd/trajectory.json", "torn.json")
    ]


@pytest.mark.parametrize(
    ("arguments", "action"),
    [('{"command": "ls"}', "ls"), ({"command": "ls"}, "ls"), (None, None), ("ls", None), (7, None)],
)
def test_the_arguments_of_a_call_may_be_a_text_or_absent(
    tmp_path: Path, arguments: object, action: str | None
) -> None:
    calls = [{"tool_call_id": "1", "function_name": "Bash", "arguments": arguments}]
    foreign(tmp_path, step("agent", "I look.", tool_calls=calls, observation={"results": []}))
    recorded = read_trajectories(tmp_path)
    assert recorded
    assert recorded[1][0].turns[0].action == action
