"""Read answers of model servers by the providers' documents alone, as a check on the product's
reader: which form a file has, then its text, calls, reasoning, end and tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
ENDS = ("message_stop", "response.completed", "response.incomplete", "response.failed")
"""The last event of a streamed answer; a file may hold several answers."""


@dataclass(frozen=True)
class Call:
    """What the client is asked to execute. `name` is "" for a tool that the protocol itself has;
    `arguments` are then the texts that must not be lost."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class Said:
    """None for what an answer leaves unsaid."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    end: str | None = None
    tokens: tuple[int | None, int | None] = (None, None)
    reasoning_tokens: int = 0


def objects_of(content: str) -> list[Object] | None:
    """Return the objects of an answer: one, one a line, or server-sent events. None if one of them
    is not JSON."""
    try:
        return [json.loads(content)]
    except ValueError:
        lines = [line.removeprefix("data:").strip() for line in content.split("\n")]
    try:
        return [json.loads(line) for line in lines if line.startswith("{")]
    except ValueError:
        return None


def form_of(objects: Sequence[Object]) -> str:
    return next(filter(None, map(_form, objects)), "unknown")


def _form(event: Object) -> str:
    kind, what = str(event.get("type")), str(event.get("object"))
    choices = event.get("choices") or []
    signs = {
        "chat/completions": any({"delta", "message"} & choice.keys() for choice in choices),
        "completions": any("text" in choice for choice in choices),
        "responses": what == "response" or kind.startswith("response."),
        "messages": kind in ("message", "message_start"),
        "Bedrock": bool({"messageStart", "contentBlockDelta", "stopReason"} & event.keys()),
        "Google": "candidates" in event,
        "Google interactions": "event_type" in event or what == "interaction",
        "Cohere": kind == "message-start" or "finish_reason" in event,
        "realtime": kind.startswith("session."),
        "transcription": "text" in event and bool({"language", "segments"} & event.keys()),
        "skill": what.startswith("skill") or kind.startswith("skill"),
        "error": event.keys() <= {"error", "type", "request_id"} and "error" in event,
    }
    return next((form for form, is_there in signs.items() if is_there), "")


def answers_in(objects: Sequence[Object]) -> Iterator[list[Object]]:
    answer = list[Object]()
    for event in objects:
        answer.append(event)
        if event.get("type") in ENDS:
            yield answer
            answer = []
    if answer:
        yield answer


def framed(form: str, events: Sequence[Object]) -> str:
    """Return an answer as its server sends it: one object as JSON, several as server-sent
    events."""
    if len(events) == 1 and not str(events[0].get("type")).startswith("response."):
        return json.dumps(events[0], ensure_ascii=False)
    lines = list[str]()
    for event in events:
        named = f"event: {event['type']}\n" if "type" in event else ""
        lines.append(f"{named}data: {json.dumps(event, ensure_ascii=False)}\n\n")
    return "".join(lines) + ("data: [DONE]\n\n" if form == "chat/completions" else "")


# -- chat/completions: the pieces of a message add up; calls go by their index ---------------------


def chat(events: Sequence[Object]) -> Said:
    text, thought, end, usage = "", "", None, dict[str, Any]()
    calls = dict[int, Object]()
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices") or []:
            message = choice.get("delta") or choice.get("message") or {}
            end = choice.get("finish_reason") or end
            parts = message.get("content") or []
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
            text += "".join(part["text"] for part in parts if part["type"] == "text")
            thoughts = [part["thinking"] for part in parts if part["type"] == "thinking"]
            thought += "".join(piece["text"] for pieces in thoughts for piece in pieces)
            thought += message.get("reasoning_content") or message.get("reasoning") or ""
            for part in message.get("tool_calls") or []:
                call = calls.setdefault(part.get("index", len(calls)), {"arguments": ""})
                call["id"] = call.get("id") or part.get("id")
                call["name"] = call.get("name") or part["function"].get("name")
                call["arguments"] += part["function"].get("arguments") or ""
    return Said(
        text,
        tuple(Call(call["id"], call["name"], plain(call["arguments"])) for call in calls.values()),
        thought,
        end,
        (usage.get("prompt_tokens"), usage.get("completion_tokens")),
        (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    )


# -- responses: items, each whole in its last event; then the whole response -----------------------

BUILT_IN: dict[str, Callable[[Object], list[str]]] = {
    "local_shell_call": lambda item: item["action"]["command"],
    "shell_call": lambda item: item["action"]["commands"],
    "apply_patch_call": lambda item: [item["operation"]["path"], item["operation"].get("diff", "")],
    "tool_search_call": lambda item: list(item["arguments"].values()),
}
"""Tools of the protocol that a client executes, and what it must know for that."""


def responses(events: Sequence[Object]) -> Said:
    response = events[-1].get("response") or events[-1]
    items = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    items = items or response.get("output") or []
    executed = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    text, thought, calls = "", "", list[Call]()
    for item in items:
        kind, call_id = item["type"], item.get("call_id")
        if kind == "message":
            text += "".join(part.get("text", part.get("refusal", "")) for part in item["content"])
        elif kind == "reasoning":
            parts = item.get("content") or item.get("summary") or []
            thought += "".join(part["text"] for part in parts)
        elif kind in ("function_call", "custom_tool_call"):
            sent = item.get("arguments") or item.get("input")
            calls.append(Call(call_id, item["name"], plain(sent)))
        elif kind in BUILT_IN and call_id and call_id not in executed:
            calls.append(Call(call_id, "", tuple(BUILT_IN[kind](item))))
    why = (response.get("incomplete_details") or {}).get("reason")
    usage = response.get("usage") or {}
    return Said(
        text,
        tuple(calls),
        thought,
        {"max_output_tokens": "length"}.get(why, why) if why else "stop",
        (usage.get("input_tokens"), usage.get("output_tokens")),
        (usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )


# -- messages: blocks go by their index; a message that starts replaces one that did not end -------

STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
}


def messages(events: Sequence[Object]) -> Said:
    blocks, message, usage = dict[int, Object](), dict[str, Any](), dict[str, Any]()
    for event in events:
        kind = event["type"]
        if kind in ("message", "message_start"):
            message = dict(event.get("message") or event)
            usage = dict(message["usage"])
            blocks = dict(enumerate(message["content"]))
        elif kind == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "json": ""}
        elif kind == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for name, into in (
                ("text", "text"),
                ("thinking", "thinking"),
                ("partial_json", "json"),
            ):
                if name in delta:
                    block[into] = block.get(into, "") + delta[name]
        elif kind == "message_delta":
            message |= event["delta"]
            usage |= {
                name: count
                for name, count in (event.get("usage") or {}).items()
                if count is not None
            }
    named = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    stop = message.get("stop_reason")
    return Said(
        "".join(block["text"] for block in blocks.values() if block["type"] == "text"),
        tuple(
            Call(block["id"], block["name"], plain(block.get("json") or block["input"]))
            for block in blocks.values()
            if block["type"] == "tool_use"
        ),
        "".join(block["thinking"] for block in blocks.values() if block["type"] == "thinking"),
        STOPS.get(stop, stop),
        (sum(usage.get(name) or 0 for name in named), usage.get("output_tokens")),
        (usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
    )


def plain(arguments: Any) -> Any:
    """Return arguments as a value; as they are if they are not JSON. No arguments are {}."""
    try:
        return json.loads(arguments or "{}") if isinstance(arguments, str) else arguments or {}
    except ValueError:
        return arguments


JOINERS = {"chat/completions": chat, "responses": responses, "messages": messages}
