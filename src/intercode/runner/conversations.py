"""Which conversation of a program a request belongs to, found by what the request contains.

    request ──► previous_response_id of an answer          that answer's conversation
                a reply of the model as a message          the same: longer, with old outputs cut
                                                           away, with a message about the moment
                the same system and tools, and             the same
                    all messages of the last question      …, asked again, or with a changed reply
                    a summary that the model wrote, or     …, in a new context: compaction,
                    the first message                      windows, no history at all
                none of these                              a new one: a title, a further agent

Programs change what they send: the time in the system's text, a reminder after the newest message,
marks for a server's cache. A program that runs two agents of the same kind at the same time, with
the same first message, is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from intercode.models.forms import text_of
from intercode.types import Message, Reply

_TOLD = ("system", "developer")
_SUMMARY = 40
"""Characters from which on a reply inside a message is taken for a summary."""
_DIGITS = re.compile(r"\d+")
"""What differs in a system's text that says the time."""
_COMPARED = 200
"""Characters of the task's query by which a question about it is known."""


@dataclass(frozen=True)
class Question:
    """A request of a program: its messages, the names of the tools that it offers, and the id of
    the answer that it continues, or ""."""

    messages: Sequence[Message]
    tools: frozenset[str] = frozenset()
    previous: str = ""


@dataclass(eq=False)
class Conversation:
    """What a conversation is known by: the messages of its last question, without the system's; the
    tools, the system's text and the first message of its first question; the marks of its replies
    (`_marks`), and the text of the last one.

    `asked` counts its requests but those that failed, `open` those without an answer yet. `places`
    are its turns in the episode.
    """

    told: str
    tools: frozenset[str]
    first: str
    messages: Sequence[Any] = ()
    replies: set[str] = field(default_factory=set)
    last: str = ""
    asked: int = 0
    open: int = 0
    places: list[int] = field(default_factory=list)


class Conversations:
    """The conversations of an episode, whose task asks `query`. Not safe for threads."""

    def __init__(self, query: str) -> None:
        self._query = _plain(query)[:_COMPARED]
        self._all: list[Conversation] = []
        self._answers: dict[str, tuple[Conversation, Sequence[Message]]] = {}

    @property
    def main(self) -> Conversation | None:
        """The conversation about the task's query, by an agent with tools if there is one; of
        several the one with the most replies."""
        has_tools = any(one.tools for one in self._all)

        def rank(one: Conversation) -> tuple[bool, int]:
            is_agent = bool(one.tools) == has_tools
            return self._query in _plain(one.first) and is_agent, one.asked

        return max(self._all, key=rank, default=None)

    def others(self, conversation: Conversation) -> int:
        """Return how many requests all conversations but the main one had; 0 for the main one."""
        if conversation is (main := self.main) or main is None:
            return 0
        return sum(one.asked for one in self._all if one is not main)

    def whole(self, question: Question) -> Question:
        """Return a question with the messages that the server keeps for it."""
        _, earlier = self._answers.get(question.previous, (None, ()))
        return Question([*earlier, *question.messages], question.tools, question.previous)

    def find(self, question: Question) -> Conversation:
        """Return the conversation that a whole question continues, or a new one."""
        if question.previous in self._answers:
            return self._answers[question.previous][0]
        told, asked = list[str](), _bare(question)
        for message in question.messages:
            if message["role"] in _TOLD:
                told.append(_DIGITS.sub("", text_of(message.get("content"))))
        texts = [text_of(message.get("content")) for message in asked]
        marks = set[str]().union(*map(_marks, question.messages))
        new = Conversation("".join(told), question.tools, "".join(texts[:1]), asked, marks)
        ranked = [(*self._rank(one, new, texts), at) for at, one in enumerate(self._all)]
        rank, _, at = max(ranked, default=(0, 0, 0))
        return self._all[at] if rank else new

    def _rank(self, one: Conversation, new: Conversation, texts: list[str]) -> tuple[int, int]:
        """Return how surely a new question continues a conversation, and how much they share."""
        length, known = len(one.messages), len(one.replies & new.replies)
        is_longer = bool(length) and one.messages == new.messages[:length]
        if known:
            return 2 + is_longer, known
        if (one.tools, one.told) != (new.tools, new.told):
            return 0, 0
        if is_longer or one.open:
            return 3 * is_longer, length
        is_summary = len(one.last) >= _SUMMARY and any(one.last in text for text in texts)
        asks_query = all(self._query in _plain(first) for first in (one.first, new.first))
        return int(is_summary or asks_query or one.first == new.first), 0

    def begin(self, conversation: Conversation, question: Question) -> None:
        """Note that a question of the conversation is passed on."""
        if conversation not in self._all:
            self._all.append(conversation)
        conversation.messages = _bare(question)
        conversation.asked += 1
        conversation.open += 1

    def end(self, conversation: Conversation) -> None:
        """Note that a question failed."""
        conversation.asked -= 1
        conversation.open -= 1

    def answer(
        self, conversation: Conversation, question: Question, reply: Reply, id: str, place: int
    ) -> None:
        """Note the reply to a question, its id and the place of its turn."""
        conversation.open -= 1
        conversation.places.append(place)
        conversation.replies.update(_marks(reply.message))
        conversation.last = reply.text.strip()
        if id:
            self._answers[id] = conversation, [*question.messages, reply.message]


def _bare(question: Question) -> list[Any]:
    """Return the messages but the system's, without what programs change in them."""
    told = [message for message in question.messages if message["role"] not in _TOLD]
    return [_bare_value(message) for message in told]


def _bare_value(value: Any) -> Any:
    """Return a message without fields of null, without marks for a server's cache, which programs
    move to the newest one, and without the parts that only wrap a marked text."""
    if isinstance(value, dict):
        value = {
            key: _bare_value(part)
            for key, part in value.items()
            if key != "cache_control" and part is not None
        }
        return value["text"] if value.keys() == {"type", "text"} else value
    if isinstance(value, list):
        return _bare_value(value[0]) if len(value) == 1 else [_bare_value(part) for part in value]
    return value


def _marks(message: Message) -> Iterator[str]:
    """Yield by what a message of the model is known in any form: the ids of its calls, or else its
    text."""
    if message["role"] != "assistant":
        return
    content = message.get("content")
    parts = [*(content if isinstance(content, list) else ()), *(message.get("tool_calls") or ())]
    ids = [part.get("id") for part in parts if isinstance(part, dict)]
    ids = [id for id in (*ids, message.get("call_id")) if id]
    yield from (f"id {id}" for id in ids)
    text = text_of(content).strip()
    if text and not ids:
        yield f"text {text}"


def _plain(text: str) -> str:
    return " ".join(text.split())
