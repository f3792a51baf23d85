"""What is left out of a conversation with tools that is too long."""

from __future__ import annotations

from intercode.models.context import MARKER, spare, without
from intercode.types import Message

CALL = {"id": "1", "type": "function", "function": {"name": "execute", "arguments": "{}"}}
TURN: list[Message] = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "x" * 200},
]


def test_answers_of_tools_are_observations_and_keep_what_they_answer() -> None:
    messages: list[Message] = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "task"}, *TURN, *TURN]
    assert spare(messages, messages[:2]) == [3]
    assert without(messages, [3])[3] == {"role": "tool", "tool_call_id": "1", "content": MARKER}
