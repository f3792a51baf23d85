"""The run folder: what is written stays, what is torn is dropped, what does not belong is
refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from intercode.errors import EntryLeftOut, StoreError, UsageError
from intercode.runs.store import (
    LARGEST_OUTCOMES,
    RunStore,
    bounded_outcomes,
    from_json,
    read_run,
    to_json,
)
from intercode.types import Episode, Message, Sample, ToolCall, Turn, Usage

CONFIG = {
    "env": "bash",
    "agent": "gold",
    "seed": 0,
    "workers": 2,
    "userland": {"bash": "5.2"},
    "tasks": ("a", "b"),
}
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
EPISODE = Episode(
    "a", "list", (TURN, Turn(observation="no code")), 1.0, True, "submit", {"files": 1.0}, 0, 42
)


def lines(path: Path) -> list[bytes]:
    return (path / "episodes.jsonl").read_bytes().split(b"\n")


def a_run(path: Path, count: int = 3) -> list[Episode]:
    episodes = [replace(EPISODE, task=f"t{i}") for i in range(count)]
    with RunStore.create(path, CONFIG) as store:
        for episode in episodes:
            store.append(episode)
    return episodes


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    called = Turn(reply="", action="ls", calls=(ToolCall("1", "execute", '{"code": "ls"}'),))
    forked = replace(EPISODE, task="forked", turns=(called, Turn(action="pwd", after=-1)))
    with RunStore.create(tmp_path / "new" / "run", CONFIG) as store:
        store.append(EPISODE)
        store.append(forked)
    config, read = read_run(tmp_path / "new" / "run")
    assert (config["tasks"], config["run"]) == (["a", "b"], str(tmp_path / "new" / "run"))
    assert read == [EPISODE, forked]
    assert [set(turn) >= {"calls"} for turn in to_json(forked)["turns"]] == [
        True,
        False,
    ], "only where there are any"
    assert [set(turn) >= {"after"} for turn in to_json(forked)["turns"]] == [False, True]


def test_a_turn_stores_only_new_messages_and_the_question_is_read_back_whole(
    tmp_path: Path,
) -> None:
    system: Message = {"role": "system", "content": "be brief"}
    task, other, seen = ({"role": "user", "content": text} for text in ("list", "plan", "a b"))
    call = ToolCall("1", "execute", "{}")
    called = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "execute", "arguments": "{}"}}
    ]}  # fmt: skip
    answer: Message = {"role": "tool", "tool_call_id": "1", "content": "a"}
    turns = (
        Turn(
            (system, task),
            "",
            action="ls",
            calls=(call,),
            sample=Sample((1, 2), (-0.5, -1e-9), "stop", "step 7", (8, 9)),
        ),
        Turn(action="pwd"),
        Turn((system, task, called, answer), "```ls```"),
        Turn(
            (system, other, seen), "x", sample=Sample((3,), (), "stop", prompt_ids=(8, 9, 1, 2, 7))
        ),
        Turn((), "nothing", sample=Sample((), (), "length", prompt_ids=(8, 9, 4))),
        Turn((system, other, seen), "y"),
        Turn((system, other, seen), "z"),
    )
    episode = replace(
        EPISODE,
        turns=turns,
        outcomes={"failed": ["answer"], "agent": {"output": "a"}},
        split="test",
    )
    stored = to_json(episode)["turns"]
    assert [turn["ask"] if turn["ask"] is None else len(turn["ask"]) for turn in stored] == [
        2,
        None,
        1,
        2,
        0,
        3,
        0,
    ]
    assert [turn.get("ask_kept") for turn in stored] == [None, None, 3, 1, None, None, 3]
    samples = [turn["sample"] for turn in stored if "sample" in turn]
    assert [(sample["prompt_ids"], sample.get("prompt_kept")) for sample in samples] == [
        ([8, 9], None),
        ([7], 4),
        ([4], 2),
    ]
    with RunStore.create(tmp_path, CONFIG) as store:
        store.append(episode)
    (read,) = read_run(tmp_path)[1]
    assert read == episode
    assert read.turns[2].ask is not None
    assert read.turns[0].ask is not None
    assert read.turns[2].ask[1] is read.turns[0].ask[1], "messages are shared"


def test_a_run_of_schema_1_is_read_and_continued(tmp_path: Path) -> None:
    old = {**to_json(replace(EPISODE, success=False, reward=0.0)), "schema": 1, "unsure": True}
    ask = [{"role": "user", "content": "list"}]
    whole = [*ask, {"role": "assistant", "content": "ls"}, {"role": "user", "content": "a"}]
    old["turns"] = [{**TURN_RECORD, "ask": ask, "reply": "ls"}, {**TURN_RECORD, "ask": whole}]
    RunStore.create(tmp_path, CONFIG).close()
    (tmp_path / "episodes.jsonl").write_text(json.dumps(old) + "\n")
    with RunStore.create(tmp_path, CONFIG, resume=True) as store:
        assert store.finished() == {("a", 0)}
        store.append(replace(EPISODE, task="b"))
    first, second = read_run(tmp_path)[1]
    assert (first.ambiguous, second.ambiguous) == (True, False)
    assert [list(turn.ask or ()) for turn in first.turns] == [ask, whole]
    assert replace(second, task="a") == EPISODE


def test_outcomes_that_are_no_json_or_too_long_are_cut_and_the_episode_is_kept() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError

    cyclic: list[Any] = []
    cyclic.append(cyclic)
    bad = {
        "a": object(),
        "b": float("nan"),
        "c": cyclic,
        "d": "x" * LARGEST_OUTCOMES,
        "e": 10**5000,
        Odd(): 1,
    }
    found = bounded_outcomes({"failed": ["rows"], **bad, "agent": {"rows": ((1, "\ud83d"),)}})  # type: ignore[dict-item]
    assert found.pop("cut")[:5] == ["a", "b", "c", "d", "e"]
    assert found == {"failed": ["rows"], "agent": {"rows": [[1, "\ud83d"]]}}
    assert (
        len(json.dumps(bounded_outcomes({str(n): "x" * 999 for n in range(999)})))
        < 1.1 * LARGEST_OUTCOMES
    )
    assert from_json(to_json(replace(EPISODE, outcomes=bad))).reward == 1.0  # type: ignore[arg-type]


def test_a_line_has_exactly_the_published_keys(tmp_path: Path) -> None:
    a_run(tmp_path, 1)
    record = json.loads(lines(tmp_path)[0])
    assert " ".join(record) == "schema task epoch seed query turns reward success parts ended error"
    assert (
        " ".join(record["turns"][0])
        == "ask reply thought action observation exit_code timed_out truncated_output "
        "score usage seconds"
    )
    assert record["turns"][0]["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reward", float("nan")),
        ("reward", 7.5),
        ("parts", {"digest": 2**63}),
        ("parts", {"far": float("inf")}),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, field: str, value: Any
) -> None:
    with RunStore.create(tmp_path, CONFIG) as store:
        with pytest.raises(UsageError, match=f"episode of task {EPISODE.task} cannot be recorded"):
            store.append(replace(EPISODE, **{field: value}))
        store.append(replace(EPISODE, parts={"digest": 2**63 - 1}))
    assert [episode.parts for episode in read_run(tmp_path)[1]] == [{"digest": 2**63 - 1}]


def test_other_code_is_gone_on_with_if_it_is_said_to_be_mended_and_the_run_keeps_both(
    tmp_path: Path,
) -> None:
    old, new = ({**CONFIG, "agent_source": digest} for digest in ("old", "new"))
    RunStore.create(tmp_path, old).close()
    with pytest.raises(UsageError, match=r"agent_source: 'old' → 'new'.*add --allow-code-change"):
        RunStore.create(tmp_path, new, resume=True)
    RunStore.create(tmp_path, new, resume=True, allow_code_change=True).close()
    RunStore.create(tmp_path, new, resume=True).close()
    with pytest.raises(UsageError, match="agent_source: 'new' → 'old'"):
        RunStore.create(tmp_path, old, resume=True)
    with pytest.raises(UsageError, match="other settings") as refused:
        RunStore.create(tmp_path, {**new, "agent": "another"}, resume=True, allow_code_change=True)
    assert "--allow-code-change" not in str(refused.value)
    config, _ = read_run(tmp_path)
    assert (config["agent_source"], config["mended"]) == ("new", [{"agent_source": "old"}])


def test_only_a_new_or_empty_folder_takes_a_run_without_resume(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    # killed before the settings were in place
    (tmp_path / "empty" / "run.json.new").write_text('{"env": "ba')
    RunStore.create(tmp_path / "empty", CONFIG).close()
    RunStore.create(tmp_path / "new", CONFIG, resume=True).close()
    with pytest.raises(UsageError, match="--resume"):
        RunStore.create(tmp_path / "new", CONFIG)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not empty"):
        RunStore.create(tmp_path / "full", CONFIG, resume=True)
    with pytest.raises(UsageError, match="no run"):
        read_run(tmp_path / "full")
    with pytest.raises(StoreError, match="cannot be used as a run folder: it is a file"):
        RunStore.create(tmp_path / "full" / "thesis.tex", CONFIG)


def test_a_run_goes_on_under_its_own_settings_alone(tmp_path: Path) -> None:
    a_run(tmp_path)
    for key in ("env", "agent", "seed", "userland", "reward"):
        with pytest.raises(UsageError, match=f"{key}: "):
            RunStore.create(tmp_path, {**CONFIG, key: "other"}, resume=True)
    with RunStore.create(tmp_path, {**CONFIG, "workers": 8, "max_cost": 5.0}, resume=True) as store:
        assert store.finished() == {("t0", 0), ("t1", 0), ("t2", 0)}


def test_a_torn_line_is_cut_off_and_the_others_stay(tmp_path: Path) -> None:
    first, second = a_run(tmp_path, 2)
    whole = (tmp_path / "episodes.jsonl").read_bytes()
    start = len(lines(tmp_path)[0]) + 1
    for torn in [
        *(whole[:end] for end in range(start, len(whole), 37)),
        whole[:-1],
        whole[:start] + b"x" * 200_000,
    ]:
        (tmp_path / "episodes.jsonl").write_bytes(torn)
        assert read_run(tmp_path)[1] == [first]
        with RunStore.create(tmp_path, CONFIG, resume=True) as store:
            assert store.finished() == {("t0", 0)}
            store.append(second)
        assert (tmp_path / "episodes.jsonl").read_bytes() == whole


ODD: list[dict[str, object]] = [
    {"hardness": 5},
    {"hardness": {"t": ["x"]}},
    {"excluded": 5},
    {"limit": "x"},
    {"tree": 5},
]
TURN_RECORD = to_json(EPISODE)["turns"][0]
DAMAGE: list[dict[str, object]] = [
    {"schema": 9},
    {"reward": "high"},
    {"reward": float("nan")},
    {"reward": 10**400},
    {"surprise": 1},
    {"parts": {"files": "all"}},
    {"seed": 2**63},
    {"turns": 5},
    {"turns": [{}]},
    *(
        {"turns": [{**TURN_RECORD, **turn}]}
        for turn in (
            *(
                {"observation": 5},
                {"usage": {"cost": 10**400}},
                {"seconds": float("inf")},
                {"ask": [{}]},
                {"after": 0},
            ),
            *({"ask_kept": 1}, {"sample": {"token_ids": [], "logprobs": ["x"]}}),
        )
    ),
]
GARBAGE = [b"garbage", b"{}", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize(
    "garbage", [*GARBAGE, *(json.dumps({**to_json(EPISODE), **odd}).encode() for odd in DAMAGE)]
)
def test_garbage_in_the_middle_is_named_and_left_out_and_nothing_is_touched(
    tmp_path: Path, garbage: bytes
) -> None:
    a_run(tmp_path, 2)
    first, second, _ = lines(tmp_path)
    spoiled = b"\n".join([first, garbage, second, b""])
    (tmp_path / "episodes.jsonl").write_bytes(spoiled)
    with pytest.warns(EntryLeftOut, match=r"left out: .*line 2 is not an episode"):
        assert len(read_run(tmp_path)[1]) == 2
    with (
        pytest.warns(EntryLeftOut, match="line 2"),
        RunStore.create(tmp_path, CONFIG, resume=True) as store,
    ):
        assert len(store.finished()) == 2
    assert (tmp_path / "episodes.jsonl").read_bytes() == spoiled


def test_a_run_without_a_sound_line_is_an_error_and_blank_lines_are_no_damage(
    tmp_path: Path,
) -> None:
    a_run(tmp_path, 2)
    first, second, _ = lines(tmp_path)
    (tmp_path / "episodes.jsonl").write_bytes(b"\n".join([b"", first, b" \r", second, b"", b""]))
    assert len(read_run(tmp_path)[1]) == 2
    (tmp_path / "episodes.jsonl").write_bytes(b"{}\n\n{}\n")
    with pytest.raises(StoreError, match="line 1 is not an episode"):
        read_run(tmp_path)


def test_of_many_damaged_lines_the_first_are_named(tmp_path: Path) -> None:
    a_run(tmp_path, 1)
    with (tmp_path / "episodes.jsonl").open("ab") as file:
        file.write(b"{}\n" * 50)
    with pytest.warns(EntryLeftOut) as named:
        read_run(tmp_path)
    texts = [str(warning.message) for warning in named]
    assert (len(texts), texts[-1]) == (21, "left out: 30 more")


@pytest.mark.parametrize(
    "content", ["{", "[]", "[" * 100_000, *(json.dumps({**CONFIG, **odd}) for odd in ODD)]
)
def test_damaged_settings_are_a_clear_error(tmp_path: Path, content: str) -> None:
    a_run(tmp_path)
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(StoreError, match="damaged"):
        read_run(tmp_path)


def test_settings_that_could_not_be_read_again_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    for odd in ODD:
        with pytest.raises(UsageError, match=next(iter(odd))):
            RunStore.create(tmp_path / "run", {**CONFIG, **odd})
        assert list((tmp_path / "run").iterdir()) == []


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
        with pytest.raises(StoreError, match="recorded already"):
            store.append(EPISODE)
    assert len(lines(tmp_path)) == 5
    assert read_run(tmp_path)[1] == [EPISODE, cut]


HOLD = """
import sys
from intercode.runs.store import RunStore
store = RunStore.create(sys.argv[1], {})
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_holds_between_processes_and_ends_with_a_killed_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
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
from intercode.runs.store import RunStore
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
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout
    assert [episode.task for episode in read_run(tmp_path)[1]] == ["a", "c"]


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
    assert [turn.action for turn in Episode("t", "q", turns, 1.0, True, "submit").line] == [
        "a",
        "b",
        "d",
    ]
    assert [turn.action for turn in Episode("t", "q", turns[:2], 1.0, True, "submit").line] == [
        "a",
        "wrong",
    ]
    assert Episode("t", "q", (question,), None, False, "limit").line == []
