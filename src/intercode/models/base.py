"""What the rest of the system asks of a model: messages in, one text out, and calls of tools where it is given any.

Left out on purpose: streaming, several choices. A model keeps no conversation; the strategy does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from intercode.errors import UsageError
from intercode.plugins import safe_repr
from intercode.types import Message, Reply, Tool, ToolCall, Usage, is_number


class Model(Protocol):
    """Anything that answers a conversation. Many threads call `complete` of one model at once.

    `complete` raises `ModelError` when no answer could be had; it never invents an empty one. `tools` may be called in
    the answer; `draw` numbers the answers that one strategy wants to one question, which should differ. Both are given
    only where a strategy or a second epoch asks for them, so that a model without them serves all others.
    """

    name: str

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply: ...


def whole(reply: object, name: str) -> Reply:
    """What a model, which may be anybody's, answered. Raises `UsageError` if it is no `Reply`, or has what none has."""
    if isinstance(reply, Reply) and isinstance(reply.text, str) and isinstance(reply.usage, Usage):
        calls: object = reply.calls
        tokens = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
        counted = all(isinstance(count, int) for count in tokens) and all(map(is_number, (*tokens, reply.usage.cost)))
        if counted and isinstance(calls, list | tuple) and all(isinstance(call, ToolCall) for call in calls):
            return reply
    raise UsageError(f"the model {name} answered {safe_repr(repr, reply):.200}; it answers a Reply with a text and its Usage")


def as_text(arguments: object) -> str:
    """What a tool is called with, as text; some servers, and scripts, give the object itself."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
