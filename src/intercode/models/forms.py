"""The forms of the protocol in which programs ask a model: read a request and its answer.

    chat/completions   OpenAI's chat protocol     messages; choices, or chunks with `delta`
    responses          OpenAI's newer protocol    instructions, input; output, or events
    messages           Anthropic's                system, messages; content, or events

`question_of` returns the messages of a request, `answer_of` the whole answer in the form of
chat/completions, also of one that was streamed: its pieces are put together first, and then read as
a whole answer is. Nothing here is sent to a server: programs and servers speak their own form. Left
out: what is neither text, nor reasoning, nor a call that the program must execute (images, and the
calls that a server executes itself).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from intercode.errors import ModelError
from intercode.types import REASONING, Message, Tool

FORMS = ("chat/completions", "responses", "messages")
Object = Mapping[str, Any]
_STREAM = re.compile(r"[a-z]*:|$")
"""The beginning of server-sent events: a field, a comment, or nothing."""
_EMPTY = "(empty reply)"
"""Sent instead of an empty reply, which many servers refuse in a conversation."""


class Unreadable(ValueError):
    """An answer in another form."""


def question_of(form: str, request: Object) -> list[Message]:
    """Return the conversation in a request, as messages with a role."""
    if form == "chat/completions":
        return [dict(message) for message in request.get("messages") or ()]
    names = ("instructions", "input") if form == "responses" else ("system", "messages")
    told, items = map(request.get, names)
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    messages = [_message(item) for item in items or ()]
    return [{"role": "system", "content": text_of(told)}, *messages] if told else messages


def tools_of(request: Object) -> frozenset[str]:
    """Return the names of the tools that a request offers; a tool of the protocol itself has only a
    type."""
    names = set[str]()
    for offer in request.get("tools") or ():
        tool = offer.get("function") or offer
        names.add(str(tool.get("name") or tool.get("type")))
    return frozenset(names)


def offered_by(request: Object) -> list[Tool]:
    """Return the functions that a request of any form offers, in the form of chat/completions."""
    tools = list[Tool]()
    for offer in request.get("tools") or ():
        tool = offer.get("function") or offer
        if "name" in tool:
            function = {
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool.get("parameters") or tool.get("input_schema") or {},
            }
            tools.append({"type": "function", "function": function})
    return tools


def _message(item: Object) -> Message:
    """Return an item of `input` or `messages` as a message."""
    if "role" in item:
        return {"role": str(item["role"]), "content": item.get("content")}
    if str(item.get("type")).endswith("_call_output"):
        return {"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
    return {"role": "assistant", "content": "", **item}


def as_chat(messages: Iterable[Message]) -> list[Message]:
    """Return messages of any form as chat/completions has them: calls and results that are parts or
    items become `tool_calls` and messages, the items of a reply one message. Images are left
    out."""
    chat = list[Message]()
    for message in messages:
        parts = [message] if "type" in message else message.get("content")
        calls = list(map(chat_call, message.get("tool_calls") or ()))
        if calls:
            message = {**message, "tool_calls": calls}
        if not (isinstance(parts, list) and all(isinstance(part, dict) for part in parts)):
            chat.append(message)
            continue
        reply: Message = {"role": "assistant", "content": ""}
        if chat and chat[-1]["role"] == message["role"] == "assistant":
            reply = chat.pop()
        text = ""
        for part in parts:
            kind = str(part.get("type"))
            if kind == "tool_use" or kind.endswith("_call"):
                calls.append(chat_call(part))
            elif kind == "tool_result":
                result = {"role": "tool", "content": text_of(part.get("content"))}
                chat.append({**result, "tool_call_id": part.get("tool_use_id")})
            elif not kind.startswith("reasoning"):
                text += text_of(part)
        if message["role"] == "assistant":
            reply = {**reply, "content": reply["content"] + text}
            if calls:
                reply["tool_calls"] = [*reply.get("tool_calls", ()), *calls]
            chat.append(reply)
        elif text or message["role"] != "user":
            chat.append({**message, "content": text})
    return chat


def with_objects(message: Message) -> Message:
    """Return a message whose calls have objects as arguments, which chat templates want, instead of
    JSON."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = json.loads(object_text(call["function"]["arguments"]))
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls}


def sendable(message: Message, *, keep_reasoning: bool) -> Message:
    """Return a message without what servers refuse: an empty reply, names of tools that cannot be
    one, arguments of a call that are not a JSON object."""
    if message["role"] != "assistant":
        return message
    sent = {key: value for key, value in message.items() if keep_reasoning or key not in REASONING}
    calls = []
    for call in message.get("tool_calls") or ():
        function = {
            "name": re.sub(r"[^A-Za-z0-9_-]", "_", call["function"]["name"])[:64] or "unnamed",
            "arguments": object_text(call["function"]["arguments"]),
        }
        calls.append({**call, "function": function})
    if calls:
        sent["tool_calls"] = calls
    elif not text_of(sent.get("content")).strip():
        sent["content"] = _EMPTY
    return sent


def object_text(arguments: str) -> str:
    """Return the arguments of a call, as an object with them if they are not a JSON object."""
    with suppress(ValueError, RecursionError):
        if not arguments or isinstance(json.loads(arguments), dict):
            return arguments or "{}"
    return json.dumps({"malformed": arguments})


def chat_call(part: Object) -> dict[str, Any]:
    """Return a call of any form as chat/completions has it. Some servers send the arguments as an
    object, and some nothing for a call without any."""
    item = part.get("function") or part.get("custom") or part
    call = _call_of(item, part.get("call_id") or part.get("id"))
    arguments = call.get("arguments") or call.get("input") or {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": str(call.get("name") or ""), "arguments": arguments}
    return {"id": str(call["id"] or ""), "type": "function", "function": function}


def answer_of(form: str, body: str) -> dict[str, Any]:
    """Return an answer, whole or streamed, in the form of chat/completions, with its id. Raises
    `Unreadable`, and `ModelError` if the server says that it failed, or did not send all."""
    body = body.lstrip("\ufeff \t\r\n")
    is_stream = not body.startswith("{")
    try:
        if is_stream:
            events = list(_events(body))
            if not events and _STREAM.match(body):
                raise ModelError("the server's answer is empty")
            whole = _JOINED[form](events)
        else:
            whole = json.loads(body)
        _require_sound(whole)
        answer: dict[str, Any] = _READ[form](whole)
        if not answer["choices"]:
            raise ModelError("the server's answer has no choices")
        if is_stream and _is_nothing(answer["choices"][0]):
            raise ModelError("the server's stream ends before the reply")
        return {"id": whole.get("id"), **answer}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{error!r:.200}") from error


def _is_nothing(choice: Object) -> bool:
    message = choice["message"]
    return not (choice["finish_reason"] or any(map(message.get, message.keys() - {"role"})))


def _events(body: str) -> Iterator[dict[str, Any]]:
    """Yield the data of server-sent events. Raises `ModelError` for an event that is an error."""
    data = ""
    for line in re.split("[\r\n]", body):  # not splitlines, which breaks lines inside a text
        if line.startswith("data:"):
            data += line.removeprefix("data:").strip()
        if data.upper() in ("", "[DONE]"):
            data = ""
            continue
        try:
            event = json.loads(data)
        except ValueError:
            if not line.strip():
                raise
            continue  # an event may have several lines
        data = ""
        if isinstance(event, dict):
            _require_sound(event)
            yield event


def _require_sound(sent: Object) -> None:
    if sent.get("error") or sent.get("type") == "error":
        raise ModelError(f"the server says {sent.get('error') or sent!s:.200}")


def text_of(content: object, fields: Sequence[str] = ("text", "refusal", "content")) -> str:
    """Return the text of content, which may be a part or a list of parts; the first of the `fields`
    that a part has is its text."""
    if isinstance(content, Mapping):
        content = next(filter(None, map(content.get, fields)), "")
    if isinstance(content, list):
        return "".join(text_of(part, fields) for part in content)
    return content if isinstance(content, str) else ""


# -- chat/completions ------------------------------------------------------------------------------


def _join_chunks(events: Sequence[Object]) -> dict[str, Any]:
    """Return the answer of which the events are pieces."""
    message: dict[str, Any] = {"content": [], "tool_calls": []}
    choice: dict[str, Any] = {"message": message, "finish_reason": None}
    logprobs, ids, whole = list[Any](), list[int](), dict[str, Any]()
    for event in events:
        for key in ("usage", "prompt_token_ids"):
            whole[key] = event.get(key) or whole.get(key)
        if "choices" in event:
            whole["choices"] = [choice]
        for piece in (event.get("choices") or ())[:1]:
            delta = piece.get("delta") or piece.get("message") or piece
            if delta is piece.get("message"):
                message |= {"content": [], "tool_calls": []}
            _add_delta(message, delta)
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
            logprobs += (piece.get("logprobs") or {}).get("content") or []
            ids += piece.get("token_ids") or []
    choice |= {"logprobs": {"content": logprobs}, "token_ids": ids}
    return whole


def _add_delta(message: dict[str, Any], delta: Object) -> None:
    for part in delta.get("tool_calls") or ():
        _add_call(message["tool_calls"], part)
    content = delta.get("content") or delta.get("text") or []
    message["content"] += content if isinstance(content, list) else [content]
    for key, value in delta.items():
        if isinstance(value, str) and key not in ("role", "content", "text", "finish_reason"):
            message[key] = message.get(key, "") + value


def _add_call(calls: list[dict[str, Any]], part: Object) -> None:
    """Add a piece to the call of its id, or else to the last one of its index. A piece with a name
    begins a new call if it has an id of its own, or if that call is whole."""
    function = part.get("function") or {}
    id, index, name = part.get("id") or "", part.get("index"), function.get("name") or ""
    text = function.get("arguments") or ""
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    call = next((call for call in calls if id and call["id"] == id), None)
    if not (call or (id and name)):
        for earlier in calls:
            if index in (None, earlier["index"]):
                call = earlier
        is_whole = call and text and _is_json(call["arguments"])
        if call and name and (is_whole or call["name"] not in ("", name)):
            call = None
    if not call:
        call = {"id": "", "index": index, "name": "", "arguments": ""}
        calls.append(call)
    call["id"] = call["id"] or id
    call["name"] = call["name"] or name
    call["arguments"] += text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# -- responses -------------------------------------------------------------------------------------


def _join_items(events: Sequence[Object]) -> dict[str, Any]:
    """Return the last response in the events, with the items that came one by one."""
    response, items, text = dict[str, Any](), list[Object](), ""
    for event in events:
        response = event.get("response") or response
        if event.get("type") == "response.output_item.done":
            items.append(event["item"])
        elif event.get("type") == "response.output_text.delta":
            text += event["delta"]
    items = max(items, response["output"], key=len)
    return {**response, "output": items or [{"type": "message", "content": text}]}


def _read_response(response: Object) -> dict[str, Any]:
    items, calls = response["output"], list[Object]()
    executed = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    for item in items:
        id = item.get("call_id") or (item["type"] == "function_call" and item.get("id"))
        if item["type"].endswith("_call") and id and id not in executed:
            calls.append(_call_of(item, id))
    if response.get("status") in ("failed", "cancelled"):
        raise ModelError(f"the server says that the response was {response['status']}")
    message = {
        "content": text_of(_of_kind("message", items)),
        "reasoning": text_of(_of_kind("reasoning", items), ("text", "content", "summary")),
        "tool_calls": calls,
    }
    reason = (response.get("incomplete_details") or {}).get("reason")
    if reason is None and response.get("status") != "in_progress":
        reason = "stop"
    return _chat(message, reason, response.get("usage"))


_PROTOCOLS_OWN = ("type", "id", "call_id", "status", "role", "content")


def _call_of(item: Object, id: object) -> Object:
    """Return an item that the program must execute as a call; a tool that the protocol itself has
    is named after its kind, and has the item's own fields as arguments. Text that a tool takes
    alone is its argument `input`."""
    if isinstance(item.get("input"), str):
        return {"id": id, "name": item["name"], "input": {"input": item["input"]}}
    if "name" in item or "type" not in item:
        return {**item, "id": id}
    fields = {key: value for key, value in item.items() if key not in _PROTOCOLS_OWN}
    return {"id": id, "name": item["type"].removesuffix("_call"), "input": fields}


# -- messages --------------------------------------------------------------------------------------


_PIECES = {"text": "text", "thinking": "thinking", "partial_json": "arguments"}


def _join_blocks(events: Sequence[Object]) -> dict[str, Any]:
    """Return the message of which the events are pieces. A message that begins replaces one that
    did not end."""
    whole, blocks = dict[str, Any](), dict[int, dict[str, Any]]()
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = event["message"]
            whole = {**message, "usage": message.get("usage") or {}}
            blocks = dict(enumerate(whole.get("content") or ()))
        elif kind == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif kind == "content_block_delta":
            block = blocks[event["index"]]
            for name, field in _PIECES.items():
                if piece := event["delta"].get(name):
                    block[field] = (block.get(field) or "") + piece
        elif kind == "message_delta":
            whole |= event["delta"]
            for name, count in (event.get("usage") or {}).items():
                if count is not None:
                    whole["usage"][name] = count
    if not whole:
        raise LookupError("there is no message_start")
    return {**whole, "content": [blocks[at] for at in sorted(blocks)]}


def _read_message(whole: Object) -> dict[str, Any]:
    blocks = whole["content"]
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    message = {
        "content": text_of(_of_kind("text", blocks)),
        "reasoning": text_of(_of_kind("thinking", blocks), ["thinking"]),
        "tool_calls": _of_kind("tool_use", blocks),
    }
    stop = whole.get("stop_reason")
    if stop == "tool_use":
        stop = "tool_calls"
    return _chat(message, stop, whole.get("usage"))


def _of_kind(kind: str, items: Sequence[Object]) -> list[Object]:
    return [item for item in items if item["type"] == kind]


def _chat(message: Object, finish_reason: str | None, usage: Object | None) -> dict[str, Any]:
    """Return an answer in the form of chat/completions."""
    counts = usage or {}
    details = counts.get("output_tokens_details") or {}
    prompt = counts.get("input_tokens")
    if prompt is not None:
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
            prompt += counts.get(name) or 0
    thought = details.get("reasoning_tokens") or details.get("thinking_tokens")
    tokens = {
        "prompt_tokens": prompt,
        "completion_tokens": counts.get("output_tokens"),
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    return {"choices": [{"message": message, "finish_reason": finish_reason}], "usage": tokens}


_JOINED = {
    "chat/completions": _join_chunks,
    "responses": _join_items,
    "messages": _join_blocks,
}
_READ: Mapping[str, Any] = {
    "chat/completions": dict,
    "responses": _read_response,
    "messages": _read_message,
}
