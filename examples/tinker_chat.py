"""The renderers of tinker-cookbook as the chat of a pool, with their forms of tool calls:

    renderer = Qwen3Renderer(tokenizer, strip_thinking_from_history=False)
    pool.run_batch(jobs, generate, TinkerChat(renderer, tokenizer))

What comes after a reply is what the renderer writes after another one, so earlier thoughts stay as
they were sampled. Control tokens in observations are divided as in `renderer_chat.py`. Left out:
images, and renderers that end a reply with a text instead of a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from renderer_chat import QUESTION, RendererChat

from intercode.types import Message, Tool, ToolCall

_SAID = "I list them."


class TinkerChat(RendererChat):
    """A chat whose tokens a renderer makes."""

    def with_tools(self, tools: Sequence[Tool]) -> TinkerChat:
        return TinkerToolChat(self._renderer, self._tokenizer, tools)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        safe = self._safe(messages)
        if self._tools:
            told = ""
            if safe[0]["role"] == "system":
                told = safe.pop(0)["content"]
            functions = [tool["function"] for tool in self._tools]
            safe = [*self._renderer.create_conversation_prefix_with_tools(functions, told), *safe]
        return self._ids(safe)

    def _ids(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = self._renderer.build_generation_prompt(messages).to_ints()
        return ids

    def _stops(self) -> list[int]:
        stops: list[int] = self._renderer.get_stop_sequences()
        return stops

    def _after(self, end: list[int], new: list[Message]) -> list[int]:
        """Return what the renderer writes after a reply with this end."""
        said = self._tokenizer.encode(_SAID, add_special_tokens=False)
        ids = self._ids([*QUESTION, {"role": "assistant", "content": _SAID}, *new])
        start = next(at for at in range(len(ids)) if ids[at : at + len(said)] == said)
        after = ids[start + len(said) :]
        return after[1:] if end and after[:1] == end else after


class TinkerToolChat(TinkerChat):
    """The same with tools."""

    def split(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        reply, _ = self._renderer.parse_response([*ids, min(self.end_ids)])
        content, calls = reply["content"], []
        if not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content)
        for call in reply.get("tool_calls", ()):
            calls.append(ToolCall("", call.function.name, call.function.arguments))
        for call in reply.get("unparsed_tool_calls", ()):
            calls.append(ToolCall("", "", call.raw_text))
        return content, tuple(calls)
