"""Which conversation of a program a request belongs to, found by what the request contains.

    request ──► previous_response_id of an answer          that answer's conversation
                a reply of the model as a message          the same: longer, with old outputs cut
                                                           away, with a message about the moment
                the same system and tools, and             the same
                    all messages of the last question      …, asked again, or with a changed reply
                    a summary that the model wrote, or     …, in a new context: compaction,
                    the first message, or the query in     windows, no history at all
                    both first messages
                none of these                              a new one: a title, a further agent

Of several conversations it is the one with which the request shares most (`_shared`).
Programs change what they send: the time in the system's text, a reminder after the newest message,
marks for a server's cache. A program that runs two agents of the same kind at the same time, with
the same first message, is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from intercode.models.forms import text_of
from intercode.types import Message, Reply

_TOLD = ("system", "developer")
_SUMMARY = 40
"""Characters from which on a reply inside a message is taken for a summary."""
_DIGITS = re.compile(r"\d+")
"""Digits, which differ from request to request in a system's text that tells the time."""
_FAILED = 3
"""The requests that are kept to be sent once more, the last ones that failed."""
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
    """A conversation of a program, and by what its next request is recognized: the system's text
    and the tools, whether the first message asks the query, hashes of the messages of the last
    question, the marks of the replies (`_marks`), and the text of the last reply.

    `asked` counts its requests but those that failed, `places` are its turns in the episode, one
    for each answer. `size` counts the bytes of its last request.
    """

    told: str
    tools: frozenset[str]
    asks_query: bool
    messages: Sequence[int]
    replies: set[str] = field(default_factory=set)
    last: str = ""
    asked: int = 0
    places: list[int] = field(default_factory=list)
    size: int = 0

    @property
    def is_waiting(self) -> bool:
        """True until the server has answered the last request."""
        return self.asked > len(self.places)


class Conversations:
    """The conversations of an episode, whose task asks `query`. Not safe for threads."""

    def __init__(self, query: str) -> None:
        self._query = _plain(query)[:_COMPARED]
        self._all: list[Conversation] = []
        self._answers: dict[str, tuple[Conversation, Sequence[Message]]] = {}
        self.failed: dict[Conversation, Any] = {}
        """By conversation, the last requests that failed by the server's fault and after which it
        got no reply."""

    @property
    def main(self) -> Conversation | None:
        """The conversation about the task's query, by an agent with tools if there is one; of
        several the one with the most replies."""
        has_tools = any(conversation.tools for conversation in self._all)

        def rank(conversation: Conversation) -> tuple[bool, int]:
            asks_query = conversation.asks_query and bool(conversation.tools) == has_tools
            return asks_query, conversation.asked

        return max(self._all, key=rank, default=None)

    @property
    def others(self) -> int:
        """The number of requests in all conversations but the main one."""
        main = self.main
        return sum(conversation.asked for conversation in self._all) - (main.asked if main else 0)

    def whole(self, question: Question) -> Question:
        """Return a question with the messages that the server keeps for it."""
        _, earlier = self._answers.get(question.previous, (None, ()))
        return Question([*earlier, *question.messages], question.tools, question.previous)

    def find(self, question: Question) -> Conversation:
        """Return the conversation that a whole question continues, or a new one."""
        if question.previous in self._answers:
            return self._answers[question.previous][0]
        told, texts, marks = "", list[str](), set[str]()
        for message in question.messages:
            text = text_of(message.get("content"))
            if message["role"] in _TOLD:
                told += text
            else:
                texts.append(text)
            marks |= _marks(message)
        asks_query = bool(texts) and self._query in _plain(texts[0])
        told = _DIGITS.sub("", told)
        continued = Conversation(told, question.tools, asks_query, _hashes(question))
        new, most = continued, (0, 0, False, False)
        for conversation in self._all:
            shared = _shared(conversation, new, texts, marks)
            if (shared[0] or shared[1] or shared[3]) and shared >= most:
                continued, most = conversation, shared
        return continued

    def begin(self, conversation: Conversation, question: Question) -> None:
        """Note that a question of the conversation is passed on."""
        if conversation not in self._all:
            self._all.append(conversation)
        conversation.messages = _hashes(question)
        conversation.asked += 1

    def end(self, conversation: Conversation, failed: Any) -> None:
        """Note that a question failed; `failed` is the request if the server was to blame."""
        conversation.asked -= 1
        if failed:
            self.failed.pop(conversation, None)
            self.failed[conversation] = failed
            self.failed = dict(list(self.failed.items())[-_FAILED:])
        if not (conversation.asked or conversation in self.failed):
            self._all.remove(conversation)

    def answer(
        self, conversation: Conversation, question: Question, reply: Reply, id: str, place: int
    ) -> None:
        """Note the reply to a question, its id and the place of its turn."""
        self.failed.pop(conversation, None)
        conversation.places.append(place)
        conversation.replies.update(_marks(reply.message))
        conversation.last = reply.text.strip()
        if id:
            self._answers[id] = conversation, [*question.messages, reply.message]


def _shared(
    earlier: Conversation, new: Conversation, texts: Sequence[str], marks: set[str]
) -> tuple[int, int, bool, bool]:
    """Return what a conversation and a new question share: all messages of the last question, by
    their number, how many replies, the tools, and the beginning."""
    replies, length = len(earlier.replies & marks), len(earlier.messages)
    has_tools = earlier.tools == new.tools
    is_alike = has_tools and earlier.told == new.told
    if earlier.messages != new.messages[:length] or not (replies or is_alike):
        length = 0
    begins = earlier.messages[:1] == new.messages[:1] or (earlier.asks_query and new.asks_query)
    if len(earlier.last) >= _SUMMARY:
        begins = begins or any(earlier.last in text for text in texts)
    return length, replies, has_tools, begins and is_alike and not earlier.is_waiting


def _hashes(question: Question) -> list[int]:
    """Return a hash of each message but the system's, of what programs do not change in it."""
    return [
        hash((text_of(message.get("content")), frozenset(_marks(message))))
        for message in question.messages
        if message["role"] not in _TOLD
    ]


def _marks(message: Message) -> set[str]:
    """Return by what a message of the model is known in any form: the ids of its calls, or else its
    text."""
    if message["role"] != "assistant":
        return set()
    content, ids = message.get("content"), {str(message.get("call_id") or "")}
    parts = list(message.get("tool_calls") or ())
    if isinstance(content, list):
        parts += content
    for part in parts:
        if isinstance(part, dict):
            ids.add(str(part.get("id") or ""))
    return ids - {""} or {text_of(content).strip()} - {""}


def _plain(text: str) -> str:
    return " ".join(text.split())
