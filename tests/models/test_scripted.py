"""The scripted model answers by position in the conversation, so that threads and episodes can share it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from intercode.errors import DataError, UsageError
from intercode.models import OpenAIModel, ScriptedModel, make_model
from intercode.types import Message, Reply, ToolCall


def conversation(turns: int) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": "task"}]
    for number in range(turns):
        messages.append({"role": "assistant", "content": f"old {number}"})
        messages.append({"role": "user", "content": "observation"})
    return messages


def test_reply_k_answers_a_conversation_with_k_assistant_messages() -> None:
    model = ScriptedModel(["a", "b", "c"])
    assert [model.complete(conversation(k)).text for k in range(3)] == ["a", "b", "c"]


def test_the_last_reply_is_repeated_beyond_the_end() -> None:
    assert ScriptedModel(["a", "submit"]).complete(conversation(9)).text == "submit"


def test_asking_the_same_conversation_twice_gives_the_same_reply() -> None:
    model = ScriptedModel(["a", "b"])
    assert [model.complete(conversation(0)).text for _ in range(3)] == ["a", "a", "a"]


def test_a_function_sees_the_messages() -> None:
    model = ScriptedModel(lambda messages: messages[-1]["content"].upper(), name="shout")
    assert model.complete(conversation(0)).text == "TASK"
    assert model.name == "shout"


def test_many_threads_share_one_model() -> None:
    model = ScriptedModel([str(k) for k in range(50)])
    seen: list[bool] = []

    def episode() -> None:
        seen.extend(model.complete(conversation(k)).text == str(k) for k in range(50))

    threads = [threading.Thread(target=episode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 400
    assert all(seen)


@pytest.mark.parametrize("replies", [[], "ls"])
def test_no_replies_or_a_bare_string_is_wrong_usage(replies: list[str]) -> None:
    with pytest.raises(UsageError, match="at least one reply"):
        ScriptedModel(replies)


def test_make_model_reads_a_script_and_ignores_options_it_has_no_use_for(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(["ls", "ünï"]), encoding="utf-8")
    model = make_model(f"scripted:{path}", temperature=0.7)
    assert model.complete(conversation(1)).text == "ünï"
    assert model.name == f"scripted:{path}"


def test_a_model_file_is_wrong_usage_and_is_to_be_served() -> None:
    with pytest.raises(UsageError, match=r"serve the file .* --base-url"):
        make_model("local:model.gguf")


def test_make_model_takes_every_other_name_as_one_on_a_server() -> None:
    model = make_model("qwen2:7b", base_url="http://127.0.0.1:9/v1")
    assert isinstance(model, OpenAIModel)
    assert model.name == "qwen2:7b"
    model.close()


def test_a_script_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.json: cannot be read"):
        make_model(f"scripted:{tmp_path}/gone.json")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[" * 100_000,
        "[1]",
        "[null]",
        '[{"text": 1}]',
        '[{"tex": "ls"}]',
        '[{"calls": [{"name": "execute", "arguments": 5}]}]',
        '[{"calls": "abc"}]',
        '[{"calls": null}]',
        '{"a": 1}',
        '"ls"',
    ],
)
def test_a_malformed_script_is_the_datas_fault(tmp_path: Path, content: str) -> None:
    path = tmp_path / "replies.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"replies\.json"):
        make_model(f"scripted:{path}")


def test_a_script_without_replies_is_told_in_words_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text("[]")
    with pytest.raises(DataError, match=r"replies\.json: must hold a JSON list of at least one reply.*\(an empty list\)"):
        make_model(f"scripted:{path}")


def test_a_script_may_call_tools(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps([{"text": "", "calls": [{"name": "execute", "arguments": '{"code": "ls"}'}]}, "done"]))
    model = make_model(f"scripted:{path}")
    assert model.complete(conversation(0)) == Reply("", calls=(ToolCall("call-1", "execute", '{"code": "ls"}'),))
    assert model.complete(conversation(1)) == Reply("done")
