"""A model without a server: it answers from a list of replies. For tests, demos and repeated runs.

Left out: token counts and prices (all zero).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.reading import read_json
from intercode.types import Message, Reply, Tool, ToolCall


class ScriptedModel:
    """Answer each conversation from the start of `replies`.

    A conversation that has k assistant messages gets reply k of a sequence, and the last reply
    beyond the end. The model keeps no state, so any number of threads and episodes can share it. A
    callable gets the messages and returns the reply; it should be deterministic and safe to call
    from many threads. A reply may call tools that the question does not offer.
    """

    def __init__(
        self,
        replies: Sequence[str | Reply] | Callable[[Sequence[Message]], str | Reply],
        name: str = "scripted",
    ) -> None:
        if not callable(replies) and (isinstance(replies, str) or not replies):
            raise UsageError(
                "ScriptedModel: give a list with at least one reply, or a function of the messages"
            )
        self.replies = replies if callable(replies) else tuple(replies)
        self.name = name

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        if callable(self.replies):
            answer = self.replies(messages)
        else:
            answered = sum(message["role"] == "assistant" for message in messages)
            answer = self.replies[min(answered, len(self.replies) - 1)]
        if isinstance(answer, str):
            return Reply(answer)
        return answer


def read_script(path: Path) -> ScriptedModel:
    """Return the model of a JSON file with a list of replies: texts, or ``{"text": "", "calls":
    [{"name": …, "arguments": …}], "reasoning": "", "finish_reason": "stop"}``."""
    replies = read_json(path)
    try:
        if replies == []:
            raise TypeError("an empty list")
        if not isinstance(replies, list):
            raise TypeError("not a list")
        return ScriptedModel([_reply(record) for record in replies], name=f"scripted:{path}")
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: must hold a JSON list of at least one reply, "
            f"a text or one with calls ({error})"
        ) from error


def _reply(record: Any) -> Reply:
    if isinstance(record, str):
        return Reply(record)
    if not isinstance(record, dict) or not record.keys() & {"text", "calls"}:
        raise TypeError(f"not {record!r:.50}")
    text, calls = record.get("text", ""), record.get("calls", [])
    reasoning, finish_reason = record.get("reasoning", ""), record.get("finish_reason")
    if not isinstance(text, str) or not isinstance(calls, list):
        raise TypeError(f"{record!r:.50} lacks a text or a list of calls")
    if not isinstance(reasoning, str) or not isinstance(finish_reason, str | None):
        raise TypeError(f"{record!r:.50} has a reasoning or finish_reason that is not a text")
    tool_calls = []
    for number, call in enumerate(calls, 1):
        name, arguments = call["name"], call["arguments"]
        if not isinstance(name, str) or not isinstance(arguments, str | dict):
            raise TypeError(f"{call!r:.50} lacks a name or arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        tool_calls.append(ToolCall(f"call-{number}", name, arguments))
    reply = Reply(text, calls=tuple(tool_calls), finish_reason=finish_reason)
    return replace(reply, reasoning={"reasoning_content": reasoning}) if reasoning else reply
