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
    """A conversation of a program, and by what its next request is recognized: hashes of the
    messages of the last question and of the system's text, the tools, whether the first message
    asks the query, the marks of the replies (`_marks`), and the text of the last reply.

    `asked` counts its requests but those that failed, `open` those without an answer yet. `places`
    are its turns in the episode. `size` counts the bytes of its last request, `failed` is its last
    request if that failed.
    """

    told: int
    tools: frozenset[str]
    asks_query: bool
    messages: Sequence[int] = ()
    replies: set[str] = field(default_factory=set)
    last: str = ""
    asked: int = 0
    open: int = 0
    places: list[int] = field(default_factory=list)
    size: int = 0
    failed: Any = None


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
            return one.asks_query and bool(one.tools) == has_tools, one.asked

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
        told, texts, marks = list[str](), list[str](), set[str]()
        for message in question.messages:
            text = text_of(message.get("content"))
            (told if message["role"] in _TOLD else texts).append(text)
            marks.update(_marks(message))
        system = hash(_DIGITS.sub("", "".join(told)))
        asks_query = bool(texts) and self._query in _plain(texts[0])
        new = Conversation(system, question.tools, asks_query, _hashes(question))
        ranked = [(*self._rank(one, new, texts, marks), at) for at, one in enumerate(self._all)]
        rank, _, _, at = max(ranked, default=(0, False, 0, 0))
        return self._all[at] if rank else new

    def _rank(
        self, one: Conversation, new: Conversation, texts: list[str], marks: set[str]
    ) -> tuple[int, bool, int]:
        """Return how surely a new question continues a conversation, whether the tools are the
        same, and how much the two share."""
        length, known = len(one.messages), len(one.replies & marks)
        has_tools = one.tools == new.tools
        is_longer = bool(length) and one.messages == new.messages[:length]
        if known:
            return 2 + is_longer, has_tools, known
        if not has_tools or one.told != new.told:
            return 0, False, 0
        if is_longer or one.open:
            return 3 * is_longer, True, length
        is_summary = len(one.last) >= _SUMMARY and any(one.last in text for text in texts)
        asks_query = one.asks_query and new.asks_query
        return int(is_summary or asks_query or one.messages[:1] == new.messages[:1]), True, 0

    def begin(self, conversation: Conversation, question: Question) -> None:
        """Note that a question of the conversation is passed on."""
        if conversation not in self._all:
            self._all.append(conversation)
        conversation.messages = _hashes(question)
        conversation.asked += 1
        conversation.open += 1

    def end(self, conversation: Conversation, failed: Any) -> None:
        """Note that a question failed; `failed` is the request if the server was to blame."""
        conversation.asked -= 1
        conversation.open -= 1
        conversation.failed = failed or conversation.failed
        for one in [one for one in self._all if one.failed][:-_FAILED]:
            one.failed = None
        if not (conversation.failed or conversation.asked):
            self._all.remove(conversation)

    @property
    def failed(self) -> list[Any]:
        """The requests that failed by the server's fault, and after which their conversations got
        no reply."""
        return [one.failed for one in self._all if one.failed]

    def answer(
        self, conversation: Conversation, question: Question, reply: Reply, id: str, place: int
    ) -> None:
        """Note the reply to a question, its id and the place of its turn."""
        conversation.open -= 1
        conversation.failed = None
        conversation.places.append(place)
        conversation.replies.update(_marks(reply.message))
        conversation.last = reply.text.strip()
        if id:
            self._answers[id] = conversation, [*question.messages, reply.message]


def _hashes(question: Question) -> list[int]:
    """Return a hash of each message but the system's, without what programs change in it."""
    asked = [message for message in question.messages if message["role"] not in _TOLD]
    return [hash(repr(_bare_value(message))) for message in asked]


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
