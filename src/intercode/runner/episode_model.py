"""The model as one episode asks it: it leaves out what does not fit into the context, and takes
cached replies first.

    strategy ── messages ──► ReplyCache ── none ──► model ── ContextOverflow ──► leave out more,
                                  │                    │                         ask again
                                 └── Reply ◄── add ───┴── Reply

    system, task │ reply, observation, reply, observation, … │ reply, observation
    kept         │ left out: observations first, then replies │ the reply may be left out,
                 │                                            │ the last observation never

A marker replaces each message that is left out, so that roles still alternate. Later questions of
the conversation leave the same messages out at once, without another refusal. Tokens are not
counted beforehand, since counting differs from model to model; nothing is summarized, since a
summary would cost a call and could be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from intercode.errors import ContextOverflow, UsageError
from intercode.models import Model
from intercode.plugins import safe_repr
from intercode.runner.reply_cache import ReplyCache
from intercode.types import Message, Reply, Sample, Tool, ToolCall, Usage, is_number

MARKER = "[left out: the conversation had become too long]"

EPOCH = 1000
"""The distance between the draws of two epochs, so that a model with a seed answers differently in
each epoch."""


class EpisodeModel:
    """A `Model` for one episode and one thread. `cache`, if any, has earlier replies and keeps new
    ones. `dialogue`: of the messages after the task, only this many are sent."""

    def __init__(
        self,
        model: Model,
        epoch: int = 0,
        cache: ReplyCache | None = None,
        dialogue: int | None = None,
    ) -> None:
        self.name, self._dialogue = model.name, dialogue
        self.inner, self._first_draw, self._cache = model, epoch * EPOCH, cache
        self._opening: Sequence[Message] = ()
        self._longest = self._left_out = 0

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        """Return the model's reply. Raises `ContextOverflow` if even the task and the last
        observation are too long."""
        self._opening = self._opening or tuple(messages)
        options: dict[str, Any] = {"tools": tools} if tools else {}
        options |= {"draw": self._first_draw + draw} if self._first_draw + draw else {}
        question = {"model": self.name, "messages": list(messages), **options}
        cached = self._cache.take(question) if self._cache else None
        recent = self._recent(messages)
        dropped = len(messages) - len(recent)
        grown = len(messages) > self._longest
        reply = cached or self._ask(recent, options, self._left_out if grown else 0)
        if dropped and not cached:
            reply = replace(reply, left_out=reply.left_out + dropped)
        if self._cache and not cached:
            self._cache.add(question, reply)
        self._longest, self._left_out = len(messages), reply.left_out - dropped
        return reply

    def _recent(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the task and the last messages, which begin with a reply so that roles
        alternate."""
        first, start = len(self._opening), len(messages) - (self._dialogue or len(messages))
        while start > first and messages[start]["role"] != "assistant":
            start -= 1
        return [*messages[:first], *messages[start:]] if start > first else messages

    def _ask(self, messages: Sequence[Message], options: dict[str, Any], left_out: int) -> Reply:
        """Ask without `left_out` messages at first, which an earlier question had to leave out."""
        places = omittable(messages, self._opening)
        left_out = min(left_out, len(places))
        while True:
            try:
                shortened = omit(messages, places[:left_out])
                reply = require_reply(self.inner.complete(shortened, **options), self.name)
                return replace(reply, left_out=left_out) if left_out else reply
            except ContextOverflow as error:
                if left_out == len(places):
                    though = f"although {left_out} messages were left out, " if left_out else ""
                    advice = "choose a longer context, by --context or by another model or server"
                    raise ContextOverflow(
                        f"{though}the conversation does not fit ({error}); {advice}"
                    ) from error
                left_out = min(2 * left_out or 1, len(places))


def require_reply(reply: object, name: str) -> Reply:
    """Return the reply of the model `name`, which may be the caller's. Raises `UsageError` if it is
    not a valid `Reply`."""
    if isinstance(reply, Reply) and isinstance(reply.text, str) and isinstance(reply.usage, Usage):
        calls: object = reply.calls
        tokens = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
        counted = all(isinstance(count, int) for count in tokens) and all(
            map(is_number, (*tokens, reply.usage.cost))
        )
        called = isinstance(calls, list | tuple) and all(
            isinstance(call, ToolCall) for call in calls
        )
        whole = isinstance(reply.reasoning, Mapping) and isinstance(reply.finish_reason, str | None)
        if counted and called and whole and isinstance(reply.sample, Sample | None):
            return reply
    raise UsageError(
        f"the model {name} answered {safe_repr(reply):.200}; "
        "it answers a Reply with a text and its Usage"
    )


def omittable(messages: Sequence[Message], opening: Sequence[Message]) -> list[int]:
    """Return the positions of messages that may be left out, in the order of removal.

    Messages shared with `opening`, the episode's first question, stay, and so does the user's first
    message.
    """
    shared = 0
    while shared < min(len(messages), len(opening)) and messages[shared] == opening[shared]:
        shared += 1
    first = next(
        (place for place, message in enumerate(messages) if message["role"] == "user"),
        len(messages),
    )
    start = max(shared, first + 1)
    replies = [
        place for place in range(start, len(messages)) if messages[place]["role"] == "assistant"
    ]
    last = replies[-1] if replies else start
    seen = [place for place in range(start, last) if messages[place]["role"] != "assistant"]
    return [
        place for place in seen + replies if len(messages[place].get("content") or "") > len(MARKER)
    ]


def omit(messages: Sequence[Message], places: Sequence[int]) -> list[Message]:
    """Return the conversation with `MARKER` as the content of the messages at `places`."""
    return [
        {**message, "content": MARKER} if n in places else message
        for n, message in enumerate(messages)
    ]
