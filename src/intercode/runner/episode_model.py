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
from intercode.runs.store import shared_length
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
        options = dict[str, Any]()
        if tools:
            options["tools"] = tools
        if number := self._first_draw + draw:
            options["draw"] = number
        question = {"model": self.name, "messages": list(messages), **options}
        reply = self._cache.take(question) if self._cache else None
        recent = self._recent(messages)
        dropped = len(messages) - len(recent)
        if not reply:
            if len(messages) <= self._longest:
                self._left_out = 0
            reply = self._ask(recent, options, self._left_out)
            reply = replace(reply, left_out=reply.left_out + dropped)
            if self._cache:
                self._cache.add(question, reply)
        self._longest, self._left_out = len(messages), reply.left_out - dropped
        return reply

    def _recent(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the task and the last messages, which begin with a reply so that roles
        alternate."""
        first, start = len(self._opening), len(messages) - (self._dialogue or len(messages))
        while start > first and messages[start]["role"] != "assistant":
            start -= 1
        if start <= first:
            return messages
        return [*messages[:first], *messages[start:]]

    def _ask(self, messages: Sequence[Message], options: dict[str, Any], left_out: int) -> Reply:
        """Ask without `left_out` messages at first, which an earlier question had to leave out."""
        places = omittable(messages, self._opening)
        left_out = min(left_out, len(places))
        while True:
            try:
                shortened = omit(messages, places[:left_out])
                answer = self.inner.complete(shortened, **options)
                reply = require_reply(answer, self.name, messages)
                return replace(reply, left_out=left_out or reply.left_out)
            except ContextOverflow as error:
                if left_out == len(places):
                    why = f"the conversation does not fit ({error})"
                    if left_out:
                        why = f"although {left_out} messages were left out, {why}"
                    advice = "choose a longer context, by --context or by another model or server"
                    raise ContextOverflow(f"{why}; {advice}") from error
                left_out = min(2 * left_out or 1, len(places))


def require_reply(reply: object, name: str, messages: Sequence[Message]) -> Reply:
    """Return the reply of the model `name`, which may be the caller's, to these messages, with ids
    of calls that are new in them. Raises `UsageError` if it is not a valid `Reply`."""
    match reply:
        case Reply(
            str(),
            Usage(int() as read, int() as written, cost=cost),
            calls=list() | tuple() as calls,
            sample=Sample() | None,
            reasoning=Mapping(),
            finish_reason=str() | None,
        ) if all(map(is_number, (read, written, cost))) and all(
            isinstance(call, ToolCall) for call in calls
        ):
            return replace(reply, calls=_with_new_ids(calls, messages))
    raise UsageError(
        f"the model {name} answered {safe_repr(reply):.200}; "
        "it answers a Reply with a text and its Usage"
    )


def _with_new_ids(calls: Sequence[ToolCall], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return calls with ids that are new in the conversation, as some servers demand: those of
    the model if they are."""
    ids = set[str]()
    for message in messages:
        ids.update(call["id"] for call in message.get("tool_calls") or ())
    named = []
    for number, call in enumerate(calls):
        if not call.id or call.id in ids:
            call = replace(call, id=f"call{len(messages):03}{number:02}")
        named.append(call)
        ids.add(call.id)
    return tuple(named)


def omittable(messages: Sequence[Message], opening: Sequence[Message]) -> list[int]:
    """Return the positions of messages that may be left out, in the order of removal.

    Messages shared with `opening`, the episode's first question, stay, and so does the user's first
    message.
    """
    roles = [message["role"] for message in messages]
    start = shared_length(messages, opening)
    if "user" not in roles:
        return []
    start = max(start, roles.index("user") + 1)
    replies = [place for place in range(start, len(roles)) if roles[place] == "assistant"]
    last = [start, *replies][-1]
    seen = [place for place in range(start, last) if roles[place] != "assistant"]
    return [
        place for place in seen + replies if len(messages[place].get("content") or "") > len(MARKER)
    ]


def omit(messages: Sequence[Message], places: Sequence[int]) -> list[Message]:
    """Return the conversation with `MARKER` as the content of the messages at `places`."""
    return [
        {**message, "content": MARKER} if n in places else message
        for n, message in enumerate(messages)
    ]
