"""The run folder: what is written stays, what is torn is dropped, what does not belong is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ordinary import error_of_an_ordinary_user

from intercode.errors import StoreError, UsageError
from intercode.store import RunStore, from_json, read_run, stream_run, to_json
from intercode.types import Episode, ToolCall, Turn, Usage

CONFIG = {"env": "bash", "agent": "gold", "seed": 0, "workers": 2, "userland": {"bash": "5.2"}, "tasks": ("a", "b")}
TURN = Turn(
    ask=({"role": "user", "content": "größer \ud83d → ?\n\u2028"},),
    reply="```bash\nls\n```",
    thought="hm",
    action="ls",
    observation="a\nb\x00\n",
    exit_code=0,
    score=0.5,
    usage=Usage(3, 4, 0.1),
    seconds=0.25,
)
EPISODE = Episode("a", "list", (TURN, Turn(observation="no code")), 1.0, True, "submit", {"files": 1.0}, 0, 42)
KEYS = {"schema", "task", "epoch", "seed", "query", "turns", "reward", "success", "parts", "ended", "error"}
TURN_KEYS = {
    *("ask", "reply", "thought", "action", "observation", "exit_code"),
    *("timed_out", "truncated_output", "score", "usage", "seconds"),
}


def lines(path: Path) -> list[bytes]:
    return (path / "episodes.jsonl").read_bytes().split(b"\n")


def a_run(path: Path, count: int = 3) -> list[Episode]:
    episodes = [replace(EPISODE, task=f"t{i}") for i in range(count)]
    with RunStore.create(path, CONFIG) as store:
        for episode in episodes:
            store.append(episode)
    return episodes


def test_an_episode_comes_back_as_it_was_written() -> None:
    assert from_json(json.loads(json.dumps(to_json(EPISODE)))) == EPISODE


def test_a_line_has_exactly_the_published_keys(tmp_path: Path) -> None:
    a_run(tmp_path, 1)
    record = json.loads(lines(tmp_path)[0])
    assert set(record) == KEYS
    assert all(set(turn) == TURN_KEYS for turn in record["turns"])
    assert record["turns"][0]["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.1}


def test_a_run_is_read_back_with_its_settings(tmp_path: Path) -> None:
    episodes = a_run(tmp_path / "new" / "run")
    config, read = read_run(tmp_path / "new" / "run")
    assert read == episodes
    assert config["tasks"] == ["a", "b"]
    assert config["run"] == str(tmp_path / "new" / "run")


@pytest.mark.parametrize(
    ("field", "value"),
    [("reward", float("nan")), ("reward", 7.5), ("parts", {"digest": 2**63}), ("parts", {"far": float("inf")})],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, field: str, value: Any) -> None:
    with RunStore.create(tmp_path, CONFIG) as store:
        with pytest.raises(UsageError, match=f"episode of task {EPISODE.task} cannot be recorded"):
            store.append(replace(EPISODE, **{field: value}))
        store.append(replace(EPISODE, parts={"digest": 2**63 - 1}))
    assert [episode.parts for episode in read_run(tmp_path)[1]] == [{"digest": 2**63 - 1}]


def test_other_code_is_gone_on_with_if_it_is_said_to_be_mended_and_the_run_keeps_both(tmp_path: Path) -> None:
    old, new = ({**CONFIG, "agent_source": digest} for digest in ("old", "new"))
    RunStore.create(tmp_path, old).close()
    with pytest.raises(UsageError, match=r"agent_source: 'old' → 'new'.*add --mended"):
        RunStore.create(tmp_path, new, resume=True)
    RunStore.create(tmp_path, new, resume=True, mended=True).close()
    RunStore.create(tmp_path, new, resume=True).close()
    with pytest.raises(UsageError, match="agent_source: 'new' → 'old'"):
        RunStore.create(tmp_path, old, resume=True)
    with pytest.raises(UsageError, match="other settings") as refused:
        RunStore.create(tmp_path, {**new, "agent": "another"}, resume=True, mended=True)
    assert "--mended" not in str(refused.value)
    config, _ = read_run(tmp_path)
    assert (config["agent_source"], config["mended"]) == ("new", [{"agent_source": "old"}])


def test_an_empty_folder_may_exist_and_another_may_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    RunStore.create(tmp_path / "empty", CONFIG).close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not empty"):
        RunStore.create(tmp_path / "full", CONFIG, resume=True)


def test_a_folder_with_a_run_needs_resume(tmp_path: Path) -> None:
    a_run(tmp_path)
    with pytest.raises(UsageError, match="--resume"):
        RunStore.create(tmp_path, CONFIG)
    with RunStore.create(tmp_path, CONFIG, resume=True) as store:
        assert store.finished() == {("t0", 0), ("t1", 0), ("t2", 0)}


def test_resume_in_a_new_folder_starts_a_run(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "run", CONFIG, resume=True).close()


@pytest.mark.parametrize("key", ["env", "agent", "seed", "userland", "reward"])
def test_resume_with_other_settings_names_them(tmp_path: Path, key: str) -> None:
    a_run(tmp_path)
    with pytest.raises(UsageError, match=f"{key}: "):
        RunStore.create(tmp_path, {**CONFIG, key: "other"}, resume=True)


def test_resume_with_other_workers_or_budget_is_the_same_run(tmp_path: Path) -> None:
    a_run(tmp_path)
    RunStore.create(tmp_path, {**CONFIG, "workers": 8, "max_cost": 5.0}, resume=True).close()


def test_a_kill_before_the_settings_were_in_place_leaves_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "run.json.new").write_text('{"env": "ba')
    RunStore.create(tmp_path, CONFIG).close()
    assert read_run(tmp_path)[0]["env"] == "bash"


def test_a_line_torn_at_any_byte_is_cut_off_and_the_others_stay(tmp_path: Path) -> None:
    first, second = a_run(tmp_path, 2)
    whole = (tmp_path / "episodes.jsonl").read_bytes()
    start = len(lines(tmp_path)[0]) + 1
    for end in [*range(start, len(whole), 37), len(whole) - 1]:
        (tmp_path / "episodes.jsonl").write_bytes(whole[:end])
        assert read_run(tmp_path)[1] == [first]
        with RunStore.create(tmp_path, CONFIG, resume=True) as store:
            assert store.finished() == {("t0", 0)}
            store.append(second)
        assert (tmp_path / "episodes.jsonl").read_bytes() == whole


def test_a_torn_line_longer_than_one_read_is_cut_off(tmp_path: Path) -> None:
    (first,) = a_run(tmp_path, 1)
    with (tmp_path / "episodes.jsonl").open("ab") as file:
        file.write(b"x" * 200_000)
    with RunStore.create(tmp_path, CONFIG, resume=True) as store:
        assert store.episodes() == [first]
    assert len(lines(tmp_path)) == 2


def test_a_file_that_is_all_torn_becomes_empty(tmp_path: Path) -> None:
    RunStore.create(tmp_path, CONFIG).close()
    (tmp_path / "episodes.jsonl").write_bytes(b"{" * 100_000)
    with RunStore.create(tmp_path, CONFIG, resume=True) as store:
        assert store.episodes() == []


ODD: list[dict[str, object]] = [
    {"hardness": 5},
    {"hardness": {"t": ["x"]}},
    {"data_set": {"t": {}}},
    {"excluded": 5},
    {"data_from": 5},
    {"limit": "x"},
    {"tree": 5},
    {"setup": ["x"]},
    {"image": 5},
]
GARBAGE = [
    b"garbage",
    b"[]",
    b"{}",
    b"null",
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    json.dumps({**to_json(EPISODE), "schema": 9}).encode(),
    json.dumps({**to_json(EPISODE), "reward": "high"}).encode(),
    json.dumps({**to_json(EPISODE), "surprise": 1}).encode(),
    json.dumps({**to_json(EPISODE), "turns": [{}]}).encode(),
    json.dumps({**to_json(EPISODE), "turns": [{"usage": None}]}).encode(),
    *(json.dumps({**to_json(EPISODE), **damage}).encode() for damage in (
        {"reward": float("nan")}, {"parts": 5}, {"parts": {"files": "all"}}, {"success": "yes"}, {"turns": 5},
        {"reward": 10**400}, {"parts": {"files": -(10**400)}}, {"seed": 2**63},
    )),
    *(json.dumps({**to_json(EPISODE), "turns": [{**to_json(EPISODE)["turns"][0], **damage}]}).encode() for damage in (
        {"observation": 5}, {"usage": {"prompt_tokens": "x"}}, {"seconds": None}, {"seconds": float("inf")}, {"action": ["ls"]},
        {"seconds": 10**400}, {"usage": {"prompt_tokens": 10**400}}, {"usage": {"cost": 10**400}},
        {"ask": [5]}, {"ask": [{}]}, {"calls": [{"id": 1, "name": "", "arguments": ""}]}, {"after": 0}, {"after": 99},
        {"after": -2},
    )),
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_the_middle_is_a_clear_error_and_nothing_is_touched(tmp_path: Path, garbage: bytes) -> None:
    a_run(tmp_path, 2)
    first, second, _ = lines(tmp_path)
    spoiled = b"\n".join([first, garbage, second, b""])
    (tmp_path / "episodes.jsonl").write_bytes(spoiled)
    with pytest.raises(StoreError, match="line 2"):
        read_run(tmp_path)
    with pytest.raises(StoreError, match="line 2"):
        RunStore.create(tmp_path, CONFIG, resume=True)
    assert (tmp_path / "episodes.jsonl").read_bytes() == spoiled


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, *(json.dumps({**CONFIG, **odd}) for odd in ODD)])
def test_damaged_settings_are_a_clear_error(tmp_path: Path, content: str) -> None:
    a_run(tmp_path)
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(StoreError, match="damaged"):
        read_run(tmp_path)


@pytest.mark.parametrize("odd", ODD)
def test_settings_that_could_not_be_read_again_are_refused_before_anything_is_written(
    tmp_path: Path, odd: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=next(iter(odd))):
        RunStore.create(tmp_path / "run", {**CONFIG, **odd})
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("read", [read_run, lambda path: list(stream_run(path)[1])])
def test_a_folder_in_place_of_the_episodes_is_a_store_error(tmp_path: Path, read: Callable[[Path], object]) -> None:
    a_run(tmp_path)
    (tmp_path / "episodes.jsonl").unlink()
    (tmp_path / "episodes.jsonl").mkdir()
    with pytest.raises(StoreError, match="cannot be used"):
        read(tmp_path)


def test_a_folder_without_a_run_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run"):
        read_run(tmp_path)


def test_an_episode_with_a_fault_is_run_again_and_the_last_record_counts(tmp_path: Path) -> None:
    failed = replace(EPISODE, reward=None, success=False, ended=None, error="model: down")
    cut = replace(EPISODE, task="b", reward=None, success=False, ended="limit")
    with RunStore.create(tmp_path, CONFIG) as store:
        store.append(failed)
        store.append(cut)
        assert store.finished() == set()
        store.append(failed)
        store.append(EPISODE)
        assert store.finished() == {("a", 0)}
    assert len(lines(tmp_path)) == 5
    assert read_run(tmp_path)[1] == [EPISODE, cut]


def test_a_finished_episode_cannot_be_written_twice(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, CONFIG) as store:
        store.append(EPISODE)
        store.append(replace(EPISODE, epoch=1))
        with pytest.raises(StoreError, match="recorded already"):
            store.append(EPISODE)
    assert len(lines(tmp_path)) == 3


def test_two_runs_in_one_folder_are_refused_within_a_process(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, CONFIG), pytest.raises(StoreError, match="in use"):
        RunStore.create(tmp_path, CONFIG, resume=True)
    RunStore.create(tmp_path, CONFIG, resume=True).close()


HOLD = """
import sys
from intercode.store import RunStore
store = RunStore.create(sys.argv[1], {})
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_holds_between_processes_and_ends_with_a_killed_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="in use"):
            RunStore.create(tmp_path, {}, resume=True)
        holder.kill()
        holder.wait()
    RunStore.create(tmp_path, {}, resume=True).close()


FILL = """
import resource, sys
from intercode.errors import StoreError
from intercode.store import RunStore
from intercode.types import Episode
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
with RunStore.create(sys.argv[1], {}) as store:
    store.append(Episode("a", "q", (), 1.0, True, "submit"))
    try:
        store.append(Episode("b", "q" * 5000, (), 1.0, True, "submit"))
    except StoreError as error:
        print("refused:", error)
    assert store.finished() == {("a", 0)}
    store.append(Episode("c", "q", (), 1.0, True, "submit"))
"""


def test_a_disk_that_takes_half_a_line_loses_only_that_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout
    assert [episode.task for episode in read_run(tmp_path)[1]] == ["a", "c"]


def test_a_folder_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = error_of_an_ordinary_user(lambda: RunStore.create(tmp_path / "run", CONFIG))
    assert said.startswith("StoreError"), said
    assert "cannot be used" in said


def test_a_file_in_place_of_the_folder_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(StoreError, match="cannot be used as a run folder: it is a file"):
        RunStore.create(tmp_path / "run", CONFIG)


def test_calls_and_forks_are_written_only_where_there_are_any_and_come_back() -> None:
    called = Turn(reply="", action="ls", calls=(ToolCall("1", "execute", '{"code": "ls"}'),))
    episode = Episode("t", "q", (called, Turn(action="pwd", after=-1)), 1.0, True, "submit")
    record = json.loads(json.dumps(to_json(episode)))
    assert from_json(record) == episode
    assert ["calls" in turn for turn in record["turns"]] == [True, False]
    assert ["after" in turn for turn in record["turns"]] == [False, True]


def test_the_line_of_a_forked_episode_leaves_out_what_was_given_up() -> None:
    question = Turn(reply="which?")
    turns = (
        Turn(action="a"),
        Turn(action="wrong"),
        question,
        Turn(action="b", after=0),
        Turn(action="c"),
        Turn(action="d", after=3),
    )
    assert [turn.action for turn in Episode("t", "q", turns, 1.0, True, "submit").line] == ["a", "b", "d"]
    assert [turn.action for turn in Episode("t", "q", turns[:2], 1.0, True, "submit").line] == ["a", "wrong"]
    assert Episode("t", "q", (question,), None, False, "limit").line == []


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("old")
    full = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2, 2)); "
    write = "from pathlib import Path; from intercode.store import write_whole; write_whole(Path(sys.argv[1]), 'newer')"
    done = subprocess.run([sys.executable, "-c", full + write, tmp_path / "mark"], capture_output=True, text=True, check=False)
    assert (done.returncode, "File too large" in done.stderr) == (1, True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("mark", "old")]
