"""Exported runs: what the agent wrote is marked, and other programs read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

from intercode import doors
from intercode.agents.tools import EXECUTE
from intercode.cli import main
from intercode.errors import UsageError
from intercode.interop import command as export_command
from intercode.interop.export import export_run
from intercode.interop.export.formats import conversations
from intercode.models import ScriptedModel
from intercode.models.forms import answer_of, as_chat, chat_call, question_of, with_objects
from intercode.rescoring.recordings import load_recording
from intercode.runs import read_run
from intercode.runs.evaluation import Evaluation
from intercode.runs.formats import Format
from intercode.runs.store import RunStore
from intercode.types import Episode, Message, Reply, Sample, ToolCall, Turn, Usage

CONFIG = {"env": "bash", "agent": "try_again", "model": "m", "protocol": "submit", "data": "box"}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


PROMPT = (
    {"role": "system", "content": "be brief"},
    user("an example"),
    assistant("```ls```"),
    user("How many?"),
)
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
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "execute", "arguments": '{"code": "ls"'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a\n"},
        ),
        "done",
        None,
        "submit",
        score=1.0,
    ),
)


def a_run(path: Path, *episodes: Episode, **config: Any) -> Path:
    with RunStore.create(path, {**CONFIG, **config}) as store:
        for episode in episodes:
            store.append(episode)
    return path


def exported(run: Path, form: str, **how: Any) -> list[dict[str, Any]]:
    file = run / f"out.{form}"
    export_run(run, form, output=file, force=True, **how)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_chat_has_the_whole_conversation_and_weighs_only_what_the_agent_wrote(
    tmp_path: Path,
) -> None:
    (row,) = exported(a_run(tmp_path / "run", SOLVED), "chat")
    assert [message["content"] for message in row["messages"]] == [
        *("be brief", "an example", "```ls```", "How many?"),
        *("I look.\n```ls```", "a\nb\n", "```wc```"),
    ]
    assert [message.get("weight") for message in row["messages"]] == [
        None,
        None,
        0,
        None,
        1,
        None,
        1,
    ]
    assert (row["task"], row["reward"], row["agent"]) == ("count", 1.0, "try_again")


def test_sft_has_each_reply_once_with_what_was_seen_before_it(tmp_path: Path) -> None:
    rows = exported(a_run(tmp_path / "run", SOLVED), "sft")
    assert [row["completion"] for row in rows] == [
        [assistant(ONE.reply or "")],
        [assistant("```wc```")],
    ]
    assert [row["prompt"] for row in rows] == [list(ONE.ask or ()), list(TWO.ask or ())]


def test_an_episode_is_as_many_conversations_as_its_questions_began() -> None:
    plan = Turn(ask=(user("Make a plan."),), reply="1. look")
    elsewhere = replace(TWO, ask=(PROMPT[0], *(TWO.ask or ())[4:]))
    asked = conversations(replace(SOLVED, turns=(plan, ONE, elsewhere, LAST)))
    assert [each.own for each in asked] == [
        [False, True],
        [False] * 4 + [True],
        [False] * 3 + [True],
    ]
    (acted,) = conversations(replace(SOLVED, turns=(Turn(action="ls", observation="a\n"), LAST)))
    assert acted.messages == [
        user("How many?"),
        assistant("ls"),
        user("a\n"),
        assistant("submit"),
    ], "without a model"


def test_a_reply_sent_back_with_other_white_space_continues_its_conversation() -> None:
    calls = (ToolCall("c1", "execute", '{"code": "ls"}'),)
    sent = assistant("I look.")
    sent["tool_calls"] = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "execute", "arguments": '{"code":"ls"}'},
        }
    ]
    first = Turn(ask=PROMPT, reply="\nI look.\n\n", calls=calls, action="ls")
    second = Turn(ask=(*PROMPT, sent, user("a")), reply="One.")
    (conversation,) = conversations(replace(SOLVED, turns=(first, second)))
    assert conversation.own == [False] * len(PROMPT) + [True, False, True]


MESSAGES = [  # Anthropic's form
    user("How many?"),
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "execute", "input": {"code": "ls"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "a"}],
            },
            {"type": "text", "text": "Go on."},
        ],
    },
]
ITEMS = [  # of OpenAI's Responses, as they are recorded
    {"role": "user", "content": [{"type": "input_text", "text": "How many?"}]},
    {"role": "assistant", "content": "", "type": "reasoning", "summary": []},
    {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {
        "role": "assistant",
        "content": "",
        "type": "function_call",
        "call_id": "c1",
        "id": "f1",
        "name": "execute",
        "arguments": '{"code":"ls"}',
    },
    {"role": "tool", "content": "a", "tool_call_id": "c1"},
    {"role": "user", "content": "Go on."},
]


def test_a_conversation_in_any_protocol_is_one_row_in_the_form_of_chat() -> None:
    calls = (ToolCall("c1", "execute", '{"code": "ls"}'),)
    for asked in (MESSAGES, ITEMS):
        first = Turn(ask=asked[:1], reply="I look.", calls=calls, action="ls")
        second = Turn(ask=asked, reply="One.")
        (conversation,) = conversations(replace(SOLVED, turns=(first, second)))
        assert conversation.own == [False, True, False, False, True]
        question, called, result, more, reply = conversation.messages
        assert (question["content"], more["content"]) == ("How many?", "Go on.")
        assert (result["role"], result["content"], result["tool_call_id"]) == ("tool", "a", "c1")
        assert called["content"] == "I look."
        (call,) = called["tool_calls"]
        assert (call["id"], call["type"]) == ("c1", "function")
        assert json.loads(call["function"]["arguments"]) == {"code": "ls"}
        assert reply["content"] == "One."


def test_the_tools_of_the_responses_protocol_are_calls_with_results() -> None:
    output = [
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "custom_tool_call", "call_id": "c0", "name": "apply_patch", "input": "*** A"},
        {"type": "local_shell_call", "call_id": "c1", "action": {"command": ["ls"]}},
    ]
    results = [
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "patched"},
        {"type": "local_shell_call_output", "call_id": "c1", "output": "listed"},
    ]
    answer = json.dumps({"status": "completed", "output": output})
    message = answer_of("responses", answer)["choices"][0]["message"]
    asked = question_of("responses", {"input": [user("Go."), *output, *results]})
    called, *answers = as_chat(asked)[1:]
    assert called["content"] == message["content"] == ""
    assert [result["content"] for result in answers] == ["patched", "listed"]
    assert [result["tool_call_id"] for result in answers] == ["c0", "c1"]
    arguments = [json.loads(call["function"]["arguments"]) for call in called["tool_calls"]]
    assert arguments == [{"input": "*** A"}, {"action": {"command": ["ls"]}}]
    assert [call["input"] for call in message["tool_calls"]] == arguments


def test_rows_have_the_tools_that_the_agent_was_offered(tmp_path: Path) -> None:
    offered = replace(CALLED[0], tools=(EXECUTE,))
    run = a_run(tmp_path / "run", replace(SOLVED, turns=(offered, *CALLED[1:])))
    for form in ("chat", "sft"):
        assert all(row["tools"] == [EXECUTE] for row in exported(run, form))
    assert "tools" not in exported(a_run(tmp_path / "plain", SOLVED), "chat")[0]


def test_arguments_are_objects_in_sft_and_texts_in_chat(tmp_path: Path) -> None:
    whole = replace(CALLED[0], calls=(replace(CALL, arguments='{"code": "ls"}'),))
    asked = (*PROMPT, whole.message, *(CALLED[1].ask or ())[5:])
    turns = (whole, replace(CALLED[1], ask=asked))
    run = a_run(tmp_path / "run", replace(SOLVED, turns=turns))
    (called,), (done,) = (row["completion"] for row in exported(run, "sft"))
    assert called["tool_calls"][0]["function"]["arguments"] == {"code": "ls"}
    assert "tool_calls" not in done
    called = exported(run, "chat")[0]["messages"][4]
    assert called["tool_calls"][0]["function"]["arguments"] == '{"code": "ls"}'


def test_a_malformed_call_is_what_the_model_was_sent_and_not_learnt(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", replace(SOLVED, turns=CALLED))
    (row,) = exported(run, "sft")
    sent = {"malformed": '{"code": "ls"'}
    assert row["prompt"][4]["tool_calls"][0]["function"]["arguments"] == sent
    (row,) = exported(run, "chat")
    called = row["messages"][4]
    assert called["weight"] == 0
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == sent


@pytest.mark.parametrize(
    ("agent", "keep", "sent"),
    [("try_again", False, None), ("try_again", True, "Hm."), ("exec:tool {query}", False, "Hm.")],
)
def test_reasoning_is_in_a_prompt_if_it_was_sent(
    agent: str, keep: bool, sent: str | None, tmp_path: Path
) -> None:
    first = replace(ONE, reasoning={"reasoning_content": "Hm."})
    second = replace(TWO, ask=(*PROMPT, first.message, user("a\nb\n")))
    episode = replace(SOLVED, turns=(first, second, LAST))
    run = a_run(tmp_path / "run", episode, agent=agent, keep_reasoning=keep)
    rows = exported(run, "sft")
    assert rows[0]["completion"][0]["reasoning_content"] == "Hm."
    assert rows[1]["prompt"][4].get("reasoning_content") == sent


def test_a_reply_is_exported_as_it_was_sampled_whatever_a_program_sends_back(
    tmp_path: Path,
) -> None:
    first = Turn(ask=PROMPT, reply="rm -r a b", reasoning={"reasoning": "Hm."}, action="rm")
    second = Turn(ask=(*PROMPT, assistant("rm -r ab"), user("ok")), reply="One.")
    run = a_run(tmp_path / "run", replace(SOLVED, turns=(first, second)), agent="exec:tool")
    (row,) = exported(run, "chat")
    assert row["messages"][4] == assistant("rm -r a b", reasoning="Hm.", weight=1)
    rows = exported(run, "sft")
    assert rows[0]["completion"] == [assistant("rm -r a b", reasoning="Hm.")]
    assert rows[1]["prompt"][4] == assistant("rm -r ab")


def test_calls_without_ids_or_of_other_types_continue_their_conversation(tmp_path: Path) -> None:
    function = {"name": "execute", "arguments": '{"code": "ls"}'}
    custom = {"name": "execute", "input": "ls"}
    for sent, arguments in (
        ({"type": "function", "function": function}, '{"code": "ls"}'),
        ({"id": "own", "type": "function", "function": function}, '{"code": "ls"}'),
        ({"type": "custom", "custom": custom}, '{"input": "ls"}'),
    ):
        assert chat_call(sent)["function"]["arguments"] == arguments
        calls = (ToolCall("", "execute", arguments),)
        first = Turn(ask=PROMPT, reply="", calls=calls, action="ls")
        echo = {**assistant(""), "content": [{"type": "text", "text": ""}], "tool_calls": [sent]}
        second = Turn(ask=(*PROMPT, echo, {"role": "tool", "content": "a"}), reply="One.")
        run = a_run(tmp_path / str(len(str(sent))), replace(SOLVED, turns=(first, second)))
        (row,) = exported(run, "chat")
        assert [message["weight"] for message in row["messages"][4::2]] == [1, 1]
        assert row["messages"][4]["tool_calls"][0]["id"] == sent.get("id", "")
        assert len(exported(run, "sft")) == 2


def test_what_was_given_up_when_an_episode_forked_is_not_learnt() -> None:
    astray = replace(ONE, reply="```rm```", action="rm", after=-1)
    chosen = replace(TWO, ask=PROMPT, after=0)
    found = conversations(replace(SOLVED, turns=(ONE, astray, chosen, LAST)))
    assert [each.messages[-1]["content"] for each in found] == [ONE.reply, "```wc```"]


def test_calls_of_tools_survive_as_the_model_wrote_them(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", replace(SOLVED, turns=CALLED))
    (row,) = exported(run, "chat")
    assert [message["role"] for message in row["messages"][4:]] == [
        "assistant",
        "tool",
        "assistant",
    ]
    assert exported(run, "jsonl")[0]["calls"] == [
        {"id": "c1", "name": "execute", "arguments": '{"code": "ls"'}
    ]


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_intercode_v1_form_is_read_back_as_the_run_is(tmp_path: Path, protocol: str) -> None:
    odd = ["a[1]]", "execute[x]\n]", None, "submit f", "", "submit"]
    turns = [
        Turn(action=action, observation=f"seen {place}", score=place / 10)
        for place, action in enumerate(odd)
    ]
    episodes = [
        replace(SOLVED, turns=tuple(turns), reward=0.7),
        replace(FAILED, turns=()),
        replace(SOLVED, epoch=1),
    ]
    run = a_run(tmp_path / "run", *episodes, protocol=protocol)
    assert export_run(run, "intercode", output=tmp_path / "log.json") == (2, 2)
    log = load_recording(tmp_path / "log.json")
    assert log.protocol == protocol
    played = [
        [
            [(turn.action, turn.observation, turn.score or 0.0) for turn in each.line]
            for each in recording.episodes
        ]
        for recording in (log, load_recording(run))
    ]
    assert played[0] == played[1]


def test_parquet_has_the_rows_of_jsonl(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    broken = replace(ONE, observation="half \ud83d", ask=(user("half \ud83d"),))
    run = a_run(
        tmp_path / "run", SOLVED, FAILED, replace(SOLVED, task="half", turns=(broken, *CALLED))
    )
    rows = exported(run, "jsonl")
    assert export_run(run, "parquet", output=tmp_path / "p") == (3, len(rows)) == (3, 9)
    assert rows[6]["observation"] == "half ?"
    for row, flat in zip(rows, parquet.read_table(tmp_path / "p").to_pylist(), strict=True):
        for key in ("ask", "calls", "parts"):
            row[key] = (
                None if row[key] is None else json.dumps(row[key]).replace("half ?", "half \\ud83d")
            )
        assert flat == {key: row.get(key) for key in flat}


def test_a_table_of_episodes_is_the_one_of_a_run_in_python(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    fault = {"reward": None, "success": False, "ended": None, "error": "model: down"}
    run = a_run(tmp_path / "run", SOLVED, FAILED, replace(SOLVED, task="faulty", **fault))
    rows = exported(run, "jsonl", per="episode")
    assert rows == list(read_run(run).rows())
    assert [(row["task"], row["reward"], row["turns"], row["cost"]) for row in rows] == [
        ("count", 1.0, 3, 0.5),
        ("other", 0.0, 3, 0.5),
        ("faulty", None, 3, 0.5),
    ]
    assert [row["why"] for row in rows] == [None, "wrong answer", None]
    assert export_run(run, "parquet", per="episode", output=tmp_path / "p") == (3, 3)
    for row, flat in zip(rows, parquet.read_table(tmp_path / "p").to_pylist(), strict=True):
        assert flat == {**row, "parts": json.dumps(row["parts"])}
    with pytest.raises(UsageError, match="--per episode"):
        export_run(run, "chat", per="episode", output=tmp_path / "none")


def test_only_some_and_never_an_episode_without_a_result(tmp_path: Path) -> None:
    faulty = replace(
        SOLVED, task="faulty", reward=None, success=False, ended=None, error="model: down"
    )
    run = a_run(tmp_path / "run", SOLVED, FAILED, faulty, replace(SOLVED, epoch=1))
    assert [(row["task"], row["epoch"]) for row in exported(run, "chat")] == [
        ("count", 0),
        ("other", 0),
        ("count", 1),
    ]
    assert [(row["task"], row["epoch"]) for row in exported(run, "chat", only="successful")] == [
        ("count", 0),
        ("count", 1),
    ]
    with pytest.raises(UsageError, match="--only human"):
        export_run(run, "chat", only="human", output=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert len(exported(a_run(tmp_path / "mine", FAILED, agent="human"), "chat", only="human")) == 1


def test_a_file_is_replaced_only_by_force_and_never_half(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", SOLVED)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        export_run(run, "chat", output=tmp_path / "file")
    with pytest.raises(UsageError, match="part of a run"):
        export_run(run, "chat", output=run / "episodes.jsonl", force=True)
    with (run / "episodes.jsonl").open("a") as lines:
        lines.write("{}\n")
    with pytest.raises(Exception, match="line 2"):
        export_run(run, "chat", output=tmp_path / "file", force=True)
    assert (tmp_path / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "file"}


def played(
    env: str, agent: str, folder: Path, replies: ScriptedModel | None = None, **options: Any
) -> list[Episode]:
    (folder.parent / "replies.json").write_text('["replaced below"]')
    evaluation = Evaluation.plan(
        env, agent=agent, model=f"scripted:{folder.parent / 'replies.json'}", workers=1, **options
    )
    evaluation.model = replies
    with evaluation.open(folder, resume=False) as store:
        return evaluation.run(store)[1]


@pytest.mark.parametrize(
    ("env", "agents", "tasks", "protocol", "turns"),
    [
        ("bash", ["try_again", "react", "tools"], ["row-totals", "approver"], "submit", None),
        ("bash", ["try_again_blind"], ["approver"], "paper", 2),
        ("python", ["try_again"], ["telegram-body"], "submit", 5),
    ],
)
def test_a_told_episode_has_the_prompts_that_eval_sends(
    tmp_path: Path, env: str, agents: list[str], tasks: list[str], protocol: str, turns: int | None
) -> None:
    needs_bwrap()
    how: dict[str, Any] = {"task": tasks, "protocol": protocol}
    assert all(
        episode.success for episode in played(env, "gold", tmp_path / "gold", turns=3, **how)
    )
    for agent in agents:
        told = exported(tmp_path / "gold", "sft", as_agent=agent, turns=turns)

        def reply(messages: Sequence[Message], told: list[dict[str, Any]] = told) -> Reply:
            (completion,) = next(
                row["completion"]
                for row in told
                if row["prompt"] == list(map(with_objects, messages))
            )
            calls = []
            for call in completion.get("tool_calls", ()):
                arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
                calls.append(ToolCall(call["id"], call["function"]["name"], arguments))
            return Reply(completion["content"], calls=tuple(calls))

        episodes = played(
            env, agent, tmp_path / agent, ScriptedModel(reply), turns=turns or 3, **how
        )
        assert [episode.ended for episode in episodes] == [
            "submit" if protocol == "submit" else "solved"
        ] * len(tasks)
        assert all(episode.success for episode in episodes)
        turns_played = [turn for episode in episodes for turn in episode.turns]
        asked = [list(map(with_objects, turn.ask or ())) for turn in turns_played]
        assert [row["prompt"] for row in told] == asked
        takes_answer = ["submit ANSWER" in prompt[0]["content"] for prompt in asked[::2]]
        assert takes_answer == [task == "approver" and protocol == "submit" for task in tasks]


TOLD = replace(SOLVED, takes_answer=False)


def test_a_told_episode_has_the_agents_form_and_closing_submission(tmp_path: Path) -> None:
    markdown = Turn(
        action="cat <<'END'\n```sh\n\nEND", observation="```sh\n", exit_code=1, score=0.5
    )
    run = a_run(
        tmp_path / "run",
        replace(TOLD, turns=(markdown, Turn(action=None, observation="?"))),
        turns=5,
    )
    (fences,), (thoughts,), (calls,) = (
        exported(run, "chat", as_agent=name) for name in ("try_again", "react", "tools")
    )
    assert [tool["function"]["name"] for tool in calls["tools"]] == ["execute", "submit"]
    assert "tools" not in fences
    form = [message["content"] for message in fences["messages"][2:]]
    assert form == [
        "````bash\ncat <<'END'\n```sh\n\nEND\n````",
        "```sh\n[exit code 1]\n[4 turns left]",
        "```bash\nsubmit\n```",
    ]
    assert [
        message["content"].rpartition("Action: ")[2] for message in thoughts["messages"][2::2]
    ] == [
        "execute[cat <<'END'\n```sh\n\nEND]",
        "submit",
    ]
    assert [
        message["tool_calls"][0]["function"]["name"] for message in calls["messages"][2::2]
    ] == ["execute", "submit"]
    (paper,) = exported(
        a_run(tmp_path / "paper", replace(TOLD, turns=(ONE, TWO)), turns=5, protocol="paper"),
        "chat",
        as_agent="try_again_blind",
    )
    assert [message["role"] for message in paper["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]


def test_only_solved_episodes_are_told_and_none_in_another_way_than_it_was_played(
    tmp_path: Path,
) -> None:
    twice = replace(TOLD, task="split", turns=(Turn(action="echo a]\nls"), LAST))
    run = a_run(tmp_path / "run", TOLD, replace(FAILED, takes_answer=False), twice, turns=5)
    assert [row["task"] for row in exported(run, "chat", as_agent="try_again")] == [
        "count",
        "split",
    ]
    with pytest.warns(RuntimeWarning, match="1 solved episodes are left out: react"):
        assert [row["task"] for row in exported(run, "chat", as_agent="react")] == ["count"]


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", TOLD, turns=5)
    old = a_run(tmp_path / "old", SOLVED, turns=5, reward="exact")
    for folder, form, agent, why in [
        (run, "chat", "plan_solve", "choose one of try_again, try_again_blind, react, tools"),
        (run, "jsonl", "react", "--format sft or chat"),
        (a_run(tmp_path / "short", TOLD), "sft", "react", "does not say its turns"),
        (old, "sft", "react", "older version"),
    ]:
        with pytest.raises(UsageError, match=why):
            exported(folder, form, as_agent=agent)


def test_rl_has_a_row_for_each_segment_of_tokens(tmp_path: Path) -> None:
    first = replace(ONE, sample=Sample((3, 4), (-0.5, -1.0), None, 7, (1, 2)))
    second = replace(TWO, sample=Sample((6,), (-2.0,), prompt_ids=(1, 2, 3, 4, 5)))
    elsewhere = replace(TWO, sample=Sample((8,), prompt_ids=(7,)))
    rows = exported(
        a_run(tmp_path / "run", replace(SOLVED, turns=(first, second, elsewhere, LAST))), "rl"
    )
    labels = {
        key: rows[0][key] for key in ("env", "agent", "model", "task", "epoch", "reward", "success")
    }
    tokens = {
        "prompt_ids": [1, 2],
        "token_ids": [3, 4, 5, 6],
        "mask": [1, 1, 0, 1],
        "logprobs": [-0.5, -1.0, 0.0, -2.0],
        "policy_versions": [7, 7, None, None],
    }
    assert rows[0] == {**tokens, "turns": [0, 1], **labels}
    assert rows[1] == {
        **labels,
        "prompt_ids": [7],
        "token_ids": [8],
        "mask": [1],
        "policy_versions": [],
        "logprobs": [],
        "turns": [2],
    }
    with pytest.raises(
        UsageError, match="INTERCODE_LOGPROBS=1 and a server that returns token ids"
    ):
        exported(a_run(tmp_path / "none", SOLVED), "rl")


SIZES = Format(lambda config, episode: [{"task": episode.task, "turns": len(episode.turns)}])


def test_a_format_from_elsewhere_is_named_in_doors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path / "run", SOLVED)
    with pytest.raises(UsageError, match="unknown format 'sizes'; choose one of sft, chat"):
        export_run(run, "sizes")
    monkeypatch.setitem(doors.FORMATS, "sizes", (f"{__name__}:SIZES", "the sizes of episodes"))
    monkeypatch.delitem(sys.modules, export_command.__name__)  # which has read the formats
    monkeypatch.delitem(main.commands, "export", raising=False)  # kept after a misspelt command
    for words in (["--help"], [str(run), "--format", "sizes"]):
        with pytest.raises(SystemExit):
            main(["export", *words])
    printed = " ".join(capfd.readouterr().out.split())
    assert "intercode: a log as InterCode v1 wrote it. sizes: the sizes of episodes. " in printed
    assert printed.endswith('{"task": "count", "turns": 3}')


LOAD = """
import json, sys
from datasets import load_dataset
for form, file in zip(sys.argv[1::2], sys.argv[2::2]):
    kind = form if form in ("parquet", "csv") else "json"
    made = load_dataset(kind, data_files=file, split="train")
    print(json.dumps([len(made), made[-1]["task"], made[-1]["reward"]]))
"""


@pytest.mark.slow
def test_the_datasets_library_loads_every_form(tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="the datasets library is not installed")
    sampled = replace(CALLED[0], sample=Sample((3,), (-0.5,), prompt_ids=(1,)))
    tools = replace(SOLVED, task="tools", turns=(sampled, CALLED[1]), query="😀 half \ud83d")
    run = a_run(tmp_path / "run", SOLVED, FAILED, tools)
    forms = [name for name in doors.FORMATS if name not in ("atif", "inspect", "intercode")]
    files = {form: tmp_path / f"out.{form}" for form in forms}
    rows = [export_run(run, form, output=file)[1] for form, file in files.items()]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    command = [sys.executable, "-c", LOAD, *(str(word) for pair in files.items() for word in pair)]
    done = subprocess.run(
        command,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [count, "tools", 1.0] for count in rows
    ]
