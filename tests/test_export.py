"""Exported runs: what the agent wrote is marked, and other programs read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from intercode.errors import StoreError, UsageError
from intercode.export import ROWS, export_run
from intercode.export.conversations import conversations
from intercode.recordings import load_recording
from intercode.store import RunStore
from intercode.types import Episode, Message, ToolCall, Turn, Usage

CONFIG = {"env": "bash", "agent": "try_again", "model": "m", "protocol": "submit", "data": "box"}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


PROMPT = ({"role": "system", "content": "be brief"}, user("an example"), assistant("```ls```"), user("How many?"))
ONE = Turn(PROMPT, "I look.\n```ls```", "I look.", "ls", "a\nb\n", 0, usage=Usage(3, 4, 0.5))
TWO = Turn((*PROMPT, assistant(ONE.reply or ""), user("a\nb\n")), "```wc```", None, "wc", "2\n", 0)
LAST = Turn(action="submit", score=1.0)
SOLVED = Episode("count", "How many?", (ONE, TWO, LAST), 1.0, True, "submit", {"answer": 1.0}, 0, 7)
FAILED = replace(SOLVED, task="other", reward=0.0, success=False)
CALL = ToolCall("c1", "execute", '{"code": "ls"')
CALLED = (
    Turn(PROMPT, "", None, "ls", "a\n", 0, calls=(CALL,)),
    Turn(
        (
            *PROMPT,
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "execute", "arguments": '{"code": "ls"'}}
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "a\n"},
        ),
        "done", None, "submit", score=1.0,
    ),
)  # fmt: skip


def a_run(path: Path, *episodes: Episode, **config: Any) -> Path:
    with RunStore.create(path, {**CONFIG, **config}) as store:
        for episode in episodes:
            store.append(episode)
    return path


def exported(run: Path, form: str, **how: Any) -> list[dict[str, Any]]:
    file = run / f"out.{form}"
    export_run(run, form, output=file, force=True, **how)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_chat_has_the_whole_conversation_and_weighs_only_what_the_agent_wrote(tmp_path: Path) -> None:
    (row,) = exported(a_run(tmp_path / "run", SOLVED), "chat")
    assert [message["content"] for message in row["messages"]] == [
        *("be brief", "an example", "```ls```", "How many?"),
        *("I look.\n```ls```", "a\nb\n", "```wc```"),
    ]
    assert [message.get("weight") for message in row["messages"]] == [None, None, 0, None, 1, None, 1]
    assert (row["task"], row["reward"], row["agent"]) == ("count", 1.0, "try_again")


def test_sft_has_each_reply_once_with_what_was_seen_before_it(tmp_path: Path) -> None:
    rows = exported(a_run(tmp_path / "run", SOLVED), "sft")
    assert [row["completion"] for row in rows] == [[assistant(ONE.reply or "")], [assistant("```wc```")]]
    assert [row["prompt"] for row in rows] == [list(ONE.ask or ()), list(TWO.ask or ())]


def test_a_question_that_does_not_go_on_begins_another_conversation() -> None:
    plan = Turn(ask=(user("Make a plan."),), reply="1. look")
    elsewhere = replace(TWO, ask=(PROMPT[0], *(TWO.ask or ())[4:]))
    found = conversations(replace(SOLVED, turns=(plan, ONE, elsewhere, LAST)))
    assert [each.own for each in found] == [[False, True], [False] * 4 + [True], [False] * 3 + [True]]


def test_what_was_given_up_when_an_episode_forked_is_not_learnt() -> None:
    astray = replace(ONE, reply="```rm```", action="rm", after=-1)
    chosen = replace(TWO, ask=PROMPT, after=0)
    not_tried = Turn(ask=(user("Which?"),), reply="submit")
    found = conversations(replace(SOLVED, turns=(ONE, astray, chosen, not_tried, LAST)))
    assert [each.messages[-1]["content"] for each in found] == [ONE.reply, "```wc```"]


def test_calls_of_tools_survive_as_the_model_wrote_them(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", replace(SOLVED, turns=CALLED))
    (row,) = exported(run, "chat")
    called = row["messages"][4]
    assert (called["weight"], called["tool_calls"][0]["function"]["arguments"]) == (1, '{"code": "ls"')
    assert [message["role"] for message in row["messages"][4:]] == ["assistant", "tool", "assistant"]
    assert exported(run, "sft")[0]["completion"][0]["tool_calls"][0]["id"] == "c1"
    assert exported(run, "jsonl")[0]["calls"] == [{"id": "c1", "name": "execute", "arguments": '{"code": "ls"'}]


def test_without_a_model_actions_and_observations_are_the_conversation() -> None:
    turns = (Turn(action="ls", observation="a\n"), LAST)
    (found,) = conversations(replace(SOLVED, turns=turns))
    assert found.messages == [user("How many?"), assistant("ls"), user("a\n"), assistant("submit")]
    assert found.own == [False, True, False, True]


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_the_first_systems_form_is_read_back_as_the_run_is(tmp_path: Path, protocol: str) -> None:
    odd = ["a[1]]", "execute[x]\n]", None, "submit f", " submit", "", "No bash code", "submit"]
    turns = [Turn(action=action, observation=f"seen {place}", score=place / 10) for place, action in enumerate(odd)]
    episodes = [replace(SOLVED, turns=tuple(turns), reward=0.7), replace(FAILED, turns=()), replace(SOLVED, epoch=1)]
    run = a_run(tmp_path / "run", *episodes, protocol=protocol)
    assert export_run(run, "intercode", output=tmp_path / "log.json") == (2, 2)
    log = load_recording(tmp_path / "log.json")
    assert log.episodes[0].actions == odd
    assert [replace(episode, labels={}) for episode in log.episodes] == load_recording(run).episodes
    assert log.protocol == protocol


def test_parquet_has_the_rows_of_jsonl(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    broken = replace(ONE, observation="half \ud83d", ask=(user("half \ud83d"),))
    run = a_run(tmp_path / "run", SOLVED, FAILED, replace(SOLVED, task="half", turns=(broken, *CALLED)))
    rows = exported(run, "jsonl")
    assert export_run(run, "parquet", output=tmp_path / "p") == (3, len(rows)) == (3, 9)
    assert rows[6]["observation"] == "half ?"
    for row, flat in zip(rows, parquet.read_table(tmp_path / "p").to_pylist(), strict=True):
        for key in ("ask", "calls", "parts"):
            row[key] = None if row[key] is None else json.dumps(row[key]).replace("half ?", "half \\ud83d")
        assert flat == {key: row.get(key) for key in flat}


def test_only_some_and_never_an_episode_without_a_result(tmp_path: Path) -> None:
    faulty = replace(SOLVED, task="faulty", reward=None, success=False, ended=None, error="model: down")
    run = a_run(tmp_path / "run", SOLVED, FAILED, faulty, replace(SOLVED, epoch=1))
    assert [(row["task"], row["epoch"]) for row in exported(run, "chat")] == [("count", 0), ("other", 0), ("count", 1)]
    assert [(row["task"], row["epoch"]) for row in exported(run, "chat", only="successful")] == [("count", 0), ("count", 1)]
    with pytest.raises(UsageError, match="--only human"):
        export_run(run, "chat", only="human", output=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert len(exported(a_run(tmp_path / "mine", FAILED, agent="human"), "chat", only="human")) == 1


def test_the_last_record_of_an_episode_counts(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        store.append(replace(SOLVED, reward=None, success=False, ended="limit"))
        store.append(FAILED)
        store.append(SOLVED)
    assert [row["task"] for row in exported(tmp_path / "run", "chat")] == ["other", "count"]


def test_a_file_is_replaced_only_by_force_and_never_half(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SOLVED)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        export_run(run, "chat", output=tmp_path / "file")
    with (run / "episodes.jsonl").open("a") as lines:
        lines.write("{}\n")
    with pytest.raises(Exception, match="line 2"):
        export_run(run, "chat", output=tmp_path / "file", force=True)
    assert (tmp_path / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "file"}


def test_a_conversation_whose_rows_would_fill_the_disk_is_refused_as_sft(tmp_path: Path) -> None:
    turns = tuple(Turn(action=f"ls {n}", observation="x") for n in range(50_000))
    run = a_run(tmp_path / "run", replace(SOLVED, turns=turns))
    with pytest.raises(UsageError, match="--format chat"):
        export_run(run, "sft", output=tmp_path / "file")
    assert export_run(run, "chat", output=tmp_path / "file") == (1, 1)


def test_a_link_stays_and_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SOLVED)
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/file")
    export_run(run, "chat", output=tmp_path / "link")
    expected = (tmp_path / "far" / "file").read_bytes()
    export_run(run, "chat", output=tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        export_run(run, "chat", output=tmp_path / "pipe", force=True)
        assert (os.read(reader, 100_000), (tmp_path / "pipe").is_fifo()) == (expected, True)
    finally:
        os.close(reader)


def test_who_is_at_fault_is_the_side_that_failed(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SOLVED)
    with pytest.raises(StoreError, match="/dev/full cannot be written"):
        export_run(run, "chat", output="/dev/full")
    (run / "episodes.jsonl").unlink()
    (run / "episodes.jsonl").mkdir()
    with pytest.raises(StoreError, match="run cannot be used"):
        export_run(run, "chat", output=tmp_path / "file")


def test_a_full_stdout_is_told_in_a_line(tmp_path: Path) -> None:
    command = f"from intercode.cli import main; main(['export', {str(a_run(tmp_path / 'run', SOLVED))!r}, '--format', 'sft'])"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("intercode: stdout cannot be written")


def test_a_run_larger_than_memory_is_exported_an_episode_at_a_time(tmp_path: Path) -> None:
    large = replace(ONE, observation="x" * 1_000_000)
    run = a_run(tmp_path / "run", *(replace(SOLVED, task=f"t{place}", turns=(large,)) for place in range(40)))
    tracemalloc.start()
    try:
        export_run(run, "jsonl", output=tmp_path / "file")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert (tmp_path / "file").stat().st_size > 40_000_000


LOAD = """
import json, sys
from datasets import load_dataset
made = load_dataset(sys.argv[1], data_files=sys.argv[2], split="train")
print(json.dumps({"rows": len(made), "last": made[-1]}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ROWS)
def test_the_datasets_library_loads_it(tmp_path: Path, form: str) -> None:
    pytest.importorskip("datasets", reason="the datasets library is not installed")
    run = a_run(tmp_path / "run", SOLVED, FAILED, replace(SOLVED, task="tools", turns=CALLED, query="😀 half \ud83d"))
    file = tmp_path / f"out.{form}"
    _, rows = export_run(run, form, output=file)
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    command = [sys.executable, "-c", LOAD, "parquet" if form == "parquet" else "json", str(file)]
    done = subprocess.run(command, env={**os.environ, **offline}, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == rows
    assert (found["last"]["task"], found["last"]["reward"]) == ("tools", 1.0)
    if form == "chat":
        assert [message.get("weight") for message in found["last"]["messages"]] == [None, None, 0, None, 1, None, 1]
