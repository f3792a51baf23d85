"""prime-rl's renderers (the package `renderers`) as the chat of a pool, with their forms of tool
calls:

    renderer = create_renderer(tokenizer, Qwen3RendererConfig(thinking_retention="all"))
    pool.run_batch(jobs, generate, RendererChat(renderer, tokenizer))

In messages of all roles but the assistant's, a zero-width space divides the text of a control
token, since a renderer would encode it as that token. Left out: images.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from intercode.errors import UsageError
from intercode.models.forms import with_objects
from intercode.train.chat import control_tokens
from intercode.types import Message, Tool, ToolCall

REFUSAL = (
    "the renderer writes replies anew when messages follow; "
    'create it with thinking_retention="all", or use hf_chat'
)
QUESTION: list[Message] = [{"role": "user", "content": "List the files."}]
_REPLY = "</think>\n\nls"
"""A reply that ends the thought that some renderers open in the prompt."""


class RendererChat:
    """A chat whose tokens a renderer makes. Raises `UsageError` for a renderer that writes replies
    anew when messages follow."""

    def __init__(self, renderer: Any, tokenizer: Any, tools: Sequence[Tool] = ()) -> None:
        self._renderer, self._tokenizer = renderer, tokenizer
        self._control = control_tokens(tokenizer)
        self._tools = list(tools) or None
        self.end_ids = frozenset(self._stops())
        self._prompt = self.encode(QUESTION)
        self._reply: list[int] = tokenizer.encode(_REPLY, add_special_tokens=False)
        if self._after([], QUESTION) is None:
            raise UsageError(REFUSAL)

    def with_tools(self, tools: Sequence[Tool]) -> RendererChat:
        return RendererToolChat(self._renderer, self._tokenizer, tools)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        safe = self._safe(messages)
        ids = self._renderer.render_ids(safe, tools=self._tools, add_generation_prompt=True)
        return list(ids)

    def append(self, ids: list[int], messages: Sequence[Message], known: int) -> list[int]:
        new = self._safe(messages[known:])
        after = None
        if ids[-1] in self.end_ids:
            after = self._after(ids[-1:], new)
        if after is None:  # cut off, or its end is not that of such a reply
            after = self._after([], new)
        if after is None:
            raise UsageError(REFUSAL)
        return ids + after

    def _stops(self) -> list[int]:
        stops: list[int] = self._renderer.get_stop_token_ids()
        return stops

    def _after(self, end: list[int], new: list[Message]) -> list[int] | None:
        """Return what the renderer writes after a reply with this end; None if it would write the
        reply anew. What the policy sampled has no influence."""
        reply = self._reply + end
        bridge = self._renderer.bridge_to_next_turn(self._prompt, reply, new, tools=self._tools)
        if bridge is None:
            return None
        return list(bridge.token_ids[len(self._prompt) + len(reply) :])

    def decode(self, token_ids: Sequence[int]) -> str:
        ids = list(token_ids)
        while ids and ids[-1] in self.end_ids:
            ids.pop()
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def _safe(self, messages: Sequence[Message]) -> list[Message]:
        safe = []
        for message in messages:
            content = message.get("content")
            if message["role"] == "assistant" or not isinstance(content, str):
                safe.append(with_objects(message))
            else:
                safe.append({**message, "content": self._control.sub("\\g<0>\u200b", content)})
        return safe


class RendererToolChat(RendererChat):
    """The same with tools."""

    def split(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        reply, calls = self._renderer.parse_response(ids, tools=self._tools), []
        for call in reply.tool_calls:
            arguments = call.arguments
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments or {})
            calls.append(ToolCall("", call.name or "", arguments if call.name else call.raw))
        return str(reply.content), tuple(calls)
