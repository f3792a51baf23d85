"""The interface of a model: messages in; a text out, and calls of tools if the question offers tools.

Left out on purpose: streaming, several choices. A model keeps no conversation; the strategy does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from intercode.errors import UsageError
from intercode.plugins import safe_repr
from intercode.types import Message, Reply, Sample, Tool, ToolCall, Usage, is_number


class Model(Protocol):
    """A model that replies to a conversation. Many threads call `complete` of one model at once.

    `complete` raises `ModelError` if there is no reply, and never returns an empty one instead. The reply may call `tools`;
    `draw` numbers the replies that one strategy wants to one question, which should differ. Both are passed
    only if a strategy or a second epoch asks for them, so that a model without these parameters serves all others.
    A model may have a method `close`, which is called at the end of `intercode eval`.
    """

    name: str

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply: ...


def require_reply(reply: object, name: str) -> Reply:
    """Return the reply of the model `name`, which may be the caller's. Raises `UsageError` if it is no valid `Reply`."""
    if isinstance(reply, Reply) and isinstance(reply.text, str) and isinstance(reply.usage, Usage):
        calls: object = reply.calls
        tokens = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
        counted = all(isinstance(count, int) for count in tokens) and all(map(is_number, (*tokens, reply.usage.cost)))
        called = isinstance(calls, list | tuple) and all(isinstance(call, ToolCall) for call in calls)
        if counted and called and isinstance(reply.sample, Sample | None):
            return reply
    raise UsageError(f"the model {name} answered {safe_repr(reply):.200}; it answers a Reply with a text and its Usage")


def as_text(arguments: object) -> str:
    """Return the arguments of a call as text; some servers, and scripts, have the object itself."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
