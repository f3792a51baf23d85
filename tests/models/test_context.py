"""What is left out of a conversation that is too long, and in which order."""

from __future__ import annotations

from intercode.models.context import MARKER, spare, without
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


def test_nothing_can_be_left_out_of_the_opening_even_if_it_holds_example_turns() -> None:
    opening = [*conversation((LONG, LONG), (LONG, LONG)), {"role": "user", "content": LONG}]
    assert spare(opening, opening) == []
    later = [*opening, {"role": "assistant", "content": LONG}, {"role": "user", "content": LONG}]
    assert spare(later, opening) == [7]


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
