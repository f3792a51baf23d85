"""The scripted model answers by position in the conversation, so that threads and episodes can
share it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from intercode.errors import DataError, UsageError
from intercode.models import ScriptedModel, make_model
from intercode.types import Message, Reply, ToolCall

pytestmark = pytest.mark.slow


def conversation(turns: int) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": "task"}]
    for number in range(turns):
        messages.append({"role": "assistant", "content": f"old {number}"})
        messages.append({"role": "user", "content": "observation"})
    return messages


def test_reply_k_answers_a_conversation_with_k_assistant_messages_and_the_last_is_repeated() -> (
    None
):
    model = ScriptedModel(["a", "b", "submit"])
    assert [model.complete(conversation(k)).text for k in (0, 0, 1, 2, 9)] == [
        "a",
        "a",
        "b",
        "submit",
        "submit",
    ]


@pytest.mark.parametrize("replies", [[], "ls"])
def test_no_replies_or_a_bare_string_is_wrong_usage(replies: list[str]) -> None:
    with pytest.raises(UsageError, match="at least one reply"):
        ScriptedModel(replies)


def test_what_is_no_script_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.json: cannot be read"):
        make_model(f"scripted:{tmp_path}/gone.json")


@pytest.mark.parametrize(
    "content", ["{", "[]", '[{"tex": "ls"}]', '[{"calls": [{"name": "execute", "arguments": 5}]}]']
)
def test_a_malformed_script_is_the_datas_fault(tmp_path: Path, content: str) -> None:
    path = tmp_path / "replies.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"replies\.json"):
        make_model(f"scripted:{path}")


def test_a_script_may_call_tools(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text(
        json.dumps(
            [{"text": "", "calls": [{"name": "execute", "arguments": '{"code": "ls"}'}]}, "done"]
        )
    )
    model = make_model(f"scripted:{path}", temperature=0.7)
    assert model.name == f"scripted:{path}"
    assert model.complete(conversation(0)) == Reply(
        "", calls=(ToolCall("call-1", "execute", '{"code": "ls"}'),)
    )
    assert model.complete(conversation(1)) == Reply("done")
