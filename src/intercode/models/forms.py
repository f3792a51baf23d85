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
from collections.abc import Iterator, Mapping
from typing import Any

from intercode.types import Message

FORMS = ("chat/completions", "responses", "messages")
Object = Mapping[str, Any]


class Failed(ValueError):
    """An answer in which the server says that it failed, or which is not complete."""


class Unreadable(ValueError):
    """An answer in another form."""


def question_of(form: str, request: Object) -> list[Message]:
    """Return the conversation in a request, as messages with a role."""
    if form == "chat/completions":
        return [dict(message) for message in request.get("messages") or ()]
    told = request.get("instructions") if form == "responses" else request.get("system")
    listed = request.get("input") if form == "responses" else request.get("messages")
    items = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed or []
    system = [{"role": "system", "content": text_of(told)}] if told else []
    return [*system, *map(_message, items)]


def tools_of(request: Object) -> frozenset[str]:
    """Return the names of the tools that a request offers; a tool of the protocol itself has only a
    type."""
    tools = [tool.get("function") or tool for tool in request.get("tools") or ()]
    return frozenset(str(tool.get("name") or tool.get("type")) for tool in tools)


def _message(item: Object) -> Message:
    """Return an item of `input` or `messages` as a message; other fields than the role stay as
    they are."""
    kind = item.get("type")
    if "role" in item:
        return {"role": str(item["role"]), "content": item.get("content")}
    if kind == "function_call_output":
        return {"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
    return {"role": "assistant", "content": "", **item}


def answer_of(form: str, body: str) -> dict[str, Any]:
    """Return an answer, whole or streamed, in the form of chat/completions, with its id. Raises
    `Failed` or `Unreadable`."""
    body = body.lstrip("\ufeff \t\r\n")
    try:
        whole = json.loads(body) if body.startswith("{") else _joined(form, body)
        _require_sound(whole)
        answer: dict[str, Any] = _READ[form](whole)
        if not answer["choices"]:
            raise Failed("the answer has no choices")
        if not body.startswith("{") and _is_nothing(answer["choices"][0]):
            raise Failed("the stream ends before the reply")
        return {"id": whole.get("id"), **answer}
    except Failed:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{error!r:.200}") from error


def _joined(form: str, body: str) -> dict[str, Any]:
    """Return the answer of which a stream has the pieces. Raises `Failed` for a stream without an
    event."""
    is_stream = not body or body.startswith((":", "data:", "event:", "id:", "retry:"))
    events = list(_events(body))
    if is_stream and not events:
        raise Failed("the answer is empty")
    whole: dict[str, Any] = _JOINED[form](iter(events))
    return whole


def _is_nothing(choice: Object) -> bool:
    message = choice["message"]
    return not (choice["finish_reason"] or any(map(message.get, message.keys() - {"role"})))


def _events(body: str) -> Iterator[dict[str, Any]]:
    """Yield the data of server-sent events. Raises `Failed` for an event that is an error."""
    data = ""
    for line in re.split("[\r\n]", body):  # not splitlines, which breaks lines inside a text
        data += line.removeprefix("data:").strip() if line.startswith("data:") else ""
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
        raise Failed(f"the server says {sent.get('error') or sent!s:.200}")


def text_of(content: object) -> str:
    """Return the text of content, which may be a list of parts."""
    parts = content if isinstance(content, list) else [content]
    texts = [
        part.get("text") or part.get("refusal") or text_of(part.get("content"))
        if isinstance(part, Mapping)
        else part
        for part in parts
    ]
    return "".join(text for text in texts if isinstance(text, str))


# -- chat/completions ------------------------------------------------------------------------------


def _join_chunks(events: Iterator[Object]) -> dict[str, Any]:
    """Return the answer of which the events are pieces."""
    message: dict[str, Any] = {"content": [], "tool_calls": []}
    choice: dict[str, Any] = {"message": message, "finish_reason": None}
    whole: dict[str, Any] = {}
    logprobs, ids = list[Any](), list[int]()
    for event in events:
        whole |= {key: event[key] for key in ("usage", "prompt_token_ids") if event.get(key)}
        if "choices" in event:
            whole["choices"] = [choice]
        for piece in (event.get("choices") or ())[:1]:
            if whole_one := not piece.get("delta") and piece.get("message"):
                message |= {"content": [], "tool_calls": []}
            _add_delta(message, whole_one or piece.get("delta") or piece)
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
            logprobs += (piece.get("logprobs") or {}).get("content") or []
            ids += piece.get("token_ids") or []
    choice |= {"logprobs": {"content": logprobs}} if logprobs else {}
    choice |= {"token_ids": ids} if ids else {}
    return whole


def _add_delta(message: dict[str, Any], delta: Object) -> None:
    for part in delta.get("tool_calls") or ():
        _add_call(message["tool_calls"], part)
    if old := delta.get("function_call"):
        _add_call(message["tool_calls"], {"function": old})
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
    sent = function.get("arguments") or ""
    text = sent if isinstance(sent, str) else json.dumps(sent, ensure_ascii=False)
    known = [call for call in calls if id and call["id"] == id]
    if not known and not (id and name):
        known = [call for call in calls if index is None or call["index"] == index]
        earlier = known[-1]["function"] if known and name else {"name": "", "arguments": ""}
        is_whole = bool(text) and _is_json(earlier["arguments"])
        if is_whole or earlier["name"] not in ("", name):
            known = []
    if not known:
        known = [{"id": id, "index": index, "function": {"name": "", "arguments": ""}}]
        calls += known
    call = known[-1]
    call["id"] = call["id"] or id
    call["function"]["name"] = call["function"]["name"] or name
    call["function"]["arguments"] += text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# -- responses -------------------------------------------------------------------------------------


def _join_items(events: Iterator[Object]) -> dict[str, Any]:
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
    message: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": []}
    logprobs, items = list[Any](), response["output"]
    executed = {item.get("call_id") for item in items if str(item["type"]).endswith("_output")}
    for item in items:
        kind, id = str(item["type"]), item.get("call_id")
        id = id or (item.get("id") if kind == "function_call" else None)
        if kind == "message":
            message["content"] += text_of(item.get("content"))
            for part in item.get("content") or ():
                logprobs += (part.get("logprobs") if isinstance(part, dict) else None) or []
        elif kind == "reasoning":
            message["reasoning"] += text_of(item.get("content")) or text_of(item.get("summary"))
        elif kind.endswith("_call") and id and id not in executed:
            message["tool_calls"].append(_call_of(item, kind, id))
    if response.get("status") in ("failed", "cancelled"):
        raise Failed(f"the response was {response['status']}")
    why = (response.get("incomplete_details") or {}).get("reason")
    end = None if response.get("status") == "in_progress" else "stop"
    reason = "length" if why == "max_output_tokens" else why or end
    answer = _chat(message, reason, response.get("usage"), "reasoning_tokens")
    answer["choices"][0] |= {"logprobs": {"content": logprobs}} if logprobs else {}
    return answer


def _call_of(item: Object, kind: str, id: object) -> dict[str, Any]:
    """Return an item that the program must execute as a call; a tool that the protocol itself has
    is named after its kind, and has the item's own fields as arguments."""
    if "name" in item:
        return _call(id, item["name"], item.get("arguments") or item.get("input"))
    fields = {key: item[key] for key in item.keys() - {"type", "id", "call_id", "status"}}
    return _call(id, kind.removesuffix("_call"), fields)


# -- messages --------------------------------------------------------------------------------------


def _join_blocks(events: Iterator[Object]) -> dict[str, Any]:
    """Return the message of which the events are pieces. A message that begins replaces one that
    did not end."""
    whole, usage, blocks = dict[str, Any](), dict[str, Any](), dict[int, dict[str, Any]]()
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            whole = dict(event["message"])
            usage = dict(whole.get("usage") or {})
            blocks = {at: dict(block) for at, block in enumerate(whole.get("content") or ())}
        elif kind == "content_block_start":
            blocks[event.get("index", len(blocks))] = dict(event["content_block"])
        elif kind == "content_block_delta":
            block = blocks.setdefault(event.get("index", max(blocks, default=0)), {})
            for key in ("text", "thinking", "partial_json"):
                if piece := event["delta"].get(key):
                    block.setdefault("type", key)
                    block[key] = (block.get(key) or "") + piece
        elif kind == "message_delta":
            whole |= event["delta"]
            counts = (event.get("usage") or {}).items()
            usage |= {name: count for name, count in counts if count is not None}
    if not whole:
        raise LookupError("there is no message_start")
    return {**whole, "content": [blocks[at] for at in sorted(blocks)], "usage": usage}


_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}


def _read_message(whole: Object) -> dict[str, Any]:
    message: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": []}
    content = whole["content"]
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        kind = block["type"]
        if kind == "text":
            message["content"] += block.get("text") or ""
        elif kind == "thinking":
            message["reasoning"] += block.get("thinking") or ""
        elif kind == "tool_use":
            arguments = block.get("partial_json") or block.get("input")
            message["tool_calls"].append(_call(block.get("id") or "", block["name"], arguments))
    stop = whole.get("stop_reason")
    return _chat(message, _STOPS.get(stop or "", stop), whole.get("usage"), "thinking_tokens")


def _call(id: object, name: object, arguments: object) -> dict[str, Any]:
    text = (
        arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    )
    return {"id": str(id), "function": {"name": str(name), "arguments": text}}


def _chat(
    message: Object, finish_reason: str | None, usage: Object | None, thought: str
) -> dict[str, Any]:
    """Return an answer in the form of chat/completions; `thought` is the field with the tokens of
    reasoning."""
    counts = usage or {}
    details = counts.get("output_tokens_details") or {}
    prompt = counts.get("input_tokens")
    if prompt is not None:
        cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
        prompt += sum(counts.get(name) or 0 for name in cached)
    tokens = {
        "prompt_tokens": prompt,
        "completion_tokens": counts.get("output_tokens"),
        "completion_tokens_details": {"reasoning_tokens": details.get(thought)},
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
