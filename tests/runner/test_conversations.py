"""Which conversation a request belongs to, as programs keep their histories: each step is a
request, and what the model answered it."""

from __future__ import annotations

from typing import Any

import pytest

from intercode.runner.conversations import Conversations, Question
from intercode.types import Message, Reply, ToolCall

QUERY = "Make the file /box/new."
SUMMARY = "The agent looked into /box and now wants to make the file new there."
BASH = frozenset({"bash"})


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def told(text: str) -> Message:
    return {"role": "system", "content": text}


def called(id: str) -> Message:
    block = {"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls"}}
    return {"role": "assistant", "content": [block]}


Step = tuple[list[Message], frozenset[str], Reply]


def step(messages: list[Message], reply: str | ToolCall, tools: frozenset[str] = BASH) -> Step:
    calls = () if isinstance(reply, str) else (reply,)
    return messages, tools, Reply(reply if isinstance(reply, str) else "", calls=calls)


def numbers_of(*steps: Step) -> list[int]:
    """Return the conversation of each step by the number of the first step in it, and the main
    one's number."""
    conversations, found, firsts = Conversations(QUERY), list[Any](), list[int]()
    for place, (messages, tools, reply) in enumerate(steps):
        question = conversations.whole(Question(messages, tools))
        conversation = conversations.find(question)
        conversations.begin(conversation, question)
        conversations.answer(conversation, question, reply, "", place)
        found.append(conversation)
        firsts.append(found.index(conversation))
    return [*firsts, found.index(conversations.main)]


TITLE = step([told("Write a title."), user(QUERY)], "A new file", frozenset())
FIRST = step([told("You code."), user(QUERY)], "ls /box")
EXPLORERS = [step([told("You explore."), user(f"Read /srv/{name}.")], "ls") for name in "ab"]
HISTORIES: dict[str, tuple[list[Step], list[int]]] = {
    "a title, two agents of one kind, and the main one goes on": (
        [
            TITLE,
            FIRST,
            *EXPLORERS,
            step([*EXPLORERS[1][0], said("ls"), user("c")], "done"),
            step([*EXPLORERS[0][0], said("ls"), user("d")], "done"),
            step([*FIRST[0], said("ls /box"), user("a b")], "submit"),
        ],
        [0, 1, 2, 3, 3, 2, 1, 1],
    ),
    "the time in the system's text": (
        [
            step([told("It is 12:00:01."), user("go")], "a"),
            step([told("It is 12:00:02."), user("go"), said("a"), user("b")], "c"),
        ],
        [0, 0, 0],
    ),
    "old outputs cut away": (
        [
            FIRST,
            step([*FIRST[0], said("ls /box"), user("a b")], "cat /box/a"),
            step(
                [*FIRST[0], said("ls /box"), user("[cut]"), said("cat /box/a"), user("x")], "ok"
            ),
        ],
        [0, 0, 0, 0],
    ),
    "calls by their ids, in a window": (
        [
            step([user(QUERY)], ToolCall("c1", "bash", "{}")),
            step([user(QUERY), called("c1"), user("a")], ToolCall("c2", "bash", "{}")),
            step([user("(earlier steps left out)"), called("c2"), user("b")], "ok"),
        ],
        [0, 0, 0, 0],
    ),
    "a summary begins a new context": (
        [
            FIRST,
            step([*FIRST[0], said("ls /box"), user("Summarize."),], SUMMARY),
            step([told("You code."), user(f"So far: {SUMMARY}")], "touch /box/new"),
        ],
        [0, 0, 0, 0],
    ),
    "two agents with windows, whose replies are alike": (
        [
            FIRST,
            step([told("You code."), user("Read /srv.")], "ls /box"),
            step([*FIRST[0], said("ls /box"), user("a")], "ls -a"),
            step([told("You code."), user("Read /srv."), said("ls /box"), user("b")], "ls -a"),
            step([*FIRST[0], said("ls -a"), user("c")], "submit"),
        ],
        [0, 1, 0, 1, 0, 0],
    ),
    "the query and the last output alone": (
        [
            step([user(f"{QUERY}\nLast output: {number}")], f"echo {number}") for number in range(3)
        ],
        [0, 0, 0, 0],
    ),
    "agents with the same example in their first requests": (
        [
            step([told("A."), user("x"), said("Ok."), user("y")], "1", frozenset()),
            step([told("B."), user("z"), said("Ok."), user("w")], "2"),
            step([told("B."), user("z"), said("Ok."), user("w"), said("2"), user("v")], "3"),
        ],
        [0, 1, 1, 1],
    ),
    "another agent that is told of the query keeps its own": (
        [FIRST, step([told("Is this safe?"), user(f"{QUERY}: ls /box")], "yes", frozenset())],
        [0, 1, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_a_request_continues_the_conversation_that_it_contains(name: str) -> None:
    steps, expected = HISTORIES[name]
    assert numbers_of(*steps) == expected


def test_the_server_keeps_the_messages_of_an_answer_that_a_request_names() -> None:
    conversations = Conversations(QUERY)
    first = Question([user(QUERY)])
    conversation = conversations.find(first)
    conversations.begin(conversation, first)
    conversations.answer(conversation, first, Reply("ls"), "resp_1", 0)
    second = conversations.whole(Question([user("a")], previous="resp_1"))
    assert list(second.messages) == [user(QUERY), said("ls"), user("a")]
    assert conversations.find(second) is conversation
