"""What is left out of a conversation that is too long, and in which order."""

from __future__ import annotations

from intercode.models.context import MARKER, is_overflow, spare, without
from intercode.types import Message

LONG = "x" * 200


def conversation(*turns: tuple[str, str]) -> list[Message]:
    messages = [{"role": "system", "content": LONG}, {"role": "user", "content": LONG}]
    for reply, observation in turns:
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": observation}]
    return messages


def test_observations_go_first_then_replies_the_oldest_first_and_never_what_was_seen_last() -> None:
    messages = conversation((LONG, LONG), (LONG, LONG), (LONG, LONG))
    assert spare(messages, messages[:2]) == [3, 5, 2, 4, 6]


def test_short_texts_are_kept_since_the_marker_is_no_shorter() -> None:
    messages = conversation(("ls", LONG), ("ls", "a b"), ("ls", LONG))
    assert spare(messages, messages[:2]) == [3]


def test_nothing_can_be_left_out_of_the_opening_even_if_it_holds_example_turns() -> None:
    opening = [*conversation((LONG, LONG), (LONG, LONG)), {"role": "user", "content": LONG}]
    assert spare(opening, opening) == []
    later = [*opening, {"role": "assistant", "content": LONG}, {"role": "user", "content": LONG}]
    assert spare(later, opening) == [7]


def test_a_conversation_with_another_opening_keeps_its_own_system_prompt_and_task() -> None:
    messages = conversation((LONG, LONG), (LONG, LONG))
    assert spare(messages, [{"role": "user", "content": "make a plan"}]) == [3, 2, 4]


def test_answers_of_tools_are_observations_and_keep_what_they_answer() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "execute", "arguments": "{}"}}
    messages: list[Message] = [
        *conversation(),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": LONG},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": LONG},
    ]
    assert spare(messages, messages[:2]) == [3]
    assert without(messages, [3])[3] == {"role": "tool", "tool_call_id": "1", "content": MARKER}


def test_the_conversation_itself_is_not_changed() -> None:
    messages = conversation((LONG, LONG), (LONG, LONG))
    shorter = without(messages, [3])
    assert [message["content"] for message in shorter] == [LONG, LONG, LONG, MARKER, LONG, LONG]
    assert messages[3]["content"] == LONG


def test_an_ordinary_refusal_is_no_overflow() -> None:
    assert not is_overflow('{"error": {"message": "temperature must be at most 2", "code": "invalid_value"}}')
