"""The forms of the protocol in which programs ask a model: read a request and its answer.

    chat/completions   OpenAI's chat protocol     messages; choices, or chunks with `delta`
    responses          OpenAI's newer protocol    instructions, input; output, or events
    messages           Anthropic's                system, messages; content, or events

`question_of` returns the messages of a request, `answer_of` the whole answer in the form of
chat/completions, also of one that was streamed. Nothing here is sent to a server: programs and
servers speak their own form. Left out: what is neither text, nor reasoning, nor a call (images).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from intercode.types import Message

FORMS = ("chat/completions", "responses", "messages")
Object = Mapping[str, Any]


def question_of(form: str, request: Object) -> list[Message]:
    """Return the conversation in a request, as messages with a role."""
    if form == "chat/completions":
        return [dict(message) for message in request.get("messages") or ()]
    told = request.get("instructions") if form == "responses" else request.get("system")
    listed = request.get("input") if form == "responses" else request.get("messages")
    items = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed or []
    system = [{"role": "system", "content": text_of(told)}] if told else []
    return [*system, *map(_message, items)]


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
    """Return an answer, whole or streamed, in the form of chat/completions. Raises ValueError,
    LookupError or TypeError for anything else."""
    is_whole = body.lstrip().startswith("{")
    answer: dict[str, Any]
    answer = _READ[form](json.loads(body) if is_whole else _JOINED[form](_events(body)))
    return answer


def _events(body: str) -> Iterator[dict[str, Any]]:
    """Yield the data of server-sent events. Raises ValueError for an event that is an error."""
    for line in body.split("\n"):  # not splitlines, which breaks lines inside a text
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            event = json.loads(data)
            if event.get("error") or event.get("type") == "error":
                raise ValueError(f"the server says {data:.200}")
            yield event


def text_of(content: object) -> str:
    """Return the text of content, which may be a list of parts."""
    parts = content if isinstance(content, list) else [content]
    texts = [
        part.get("text") or text_of(part.get("content")) if isinstance(part, Mapping) else part
        for part in parts
    ]
    return "".join(text for text in texts if isinstance(text, str))


# -- chat/completions ------------------------------------------------------------------------------


def _join_chunks(events: Iterator[Object]) -> dict[str, Any]:
    """Return the answer of which the events are pieces."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls = dict[int, dict[str, Any]]()
    choice: dict[str, Any] = {"message": message, "finish_reason": None}
    whole: dict[str, Any] = {"choices": [choice]}
    logprobs, ids = list[Any](), list[int]()
    for event in events:
        whole |= {key: event[key] for key in ("usage", "prompt_token_ids") if event.get(key)}
        for piece in (event.get("choices") or ())[:1]:
            delta = piece.get("delta") or {}
            for key, value in delta.items():
                if key == "tool_calls":
                    for part in value or ():
                        call = calls.setdefault(
                            part.get("index", 0),
                            {"id": "", "function": {"name": "", "arguments": ""}},
                        )
                        call["id"] = part.get("id") or call["id"]
                        for name, text in (part.get("function") or {}).items():
                            call["function"][name] = call["function"].get(name, "") + (text or "")
                elif isinstance(value, str) and key != "role":
                    message[key] = message.get(key, "") + value
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
            logprobs += (piece.get("logprobs") or {}).get("content") or []
            ids += piece.get("token_ids") or []
    if calls:
        message["tool_calls"] = [calls[at] for at in sorted(calls)]
    choice |= {"logprobs": {"content": logprobs}} if logprobs else {}
    choice |= {"token_ids": ids} if ids else {}
    return whole


# -- responses -------------------------------------------------------------------------------------

_STATUS = {"completed": "stop", "incomplete": "length"}


def _last_response(events: Iterator[Object]) -> dict[str, Any]:
    """Return the response in the last event that has one: `response.completed`."""
    responses = [event["response"] for event in events if "response" in event]
    return dict(responses[-1])


def _read_response(response: Object) -> dict[str, Any]:
    if response.get("error"):
        raise ValueError(f"the server says {response['error']!r:.200}")
    message: dict[str, Any] = {"content": "", "tool_calls": []}
    logprobs = list[Any]()
    for item in response["output"]:
        if item.get("type") == "message":
            message["content"] += text_of(item.get("content"))
            logprobs += [token for part in item["content"] for token in part.get("logprobs") or ()]
        elif item.get("type") == "reasoning":
            thought = text_of(item.get("content")) or text_of(item.get("summary"))
            message["reasoning"] = message.get("reasoning", "") + thought
        elif "arguments" in item or "input" in item:
            arguments = item.get("arguments") or item.get("input")
            message["tool_calls"].append(_call(item.get("call_id"), item.get("name"), arguments))
    status = str(response.get("status") or "completed")
    whole = _chat(message, _STATUS.get(status, status), response.get("usage"))
    whole["choices"][0] |= {"logprobs": {"content": logprobs}} if logprobs else {}
    return whole


# -- messages --------------------------------------------------------------------------------------


def _join_blocks(events: Iterator[Object]) -> dict[str, Any]:
    """Return the message of which the events are pieces."""
    whole: dict[str, Any] = {"content": [], "usage": {}}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            whole["usage"] |= event["message"].get("usage") or {}
        elif kind == "content_block_start":
            whole["content"].append({**event["content_block"], "partial": ""})
        elif kind == "content_block_delta":
            block, delta = whole["content"][-1], event["delta"]
            for key in ("text", "thinking"):
                if key in delta:
                    block[key] = block.get(key, "") + delta[key]
            block["partial"] += delta.get("partial_json", "")
        elif kind == "message_delta":
            whole["stop_reason"] = event["delta"].get("stop_reason")
            whole["usage"] |= event.get("usage") or {}
    for block in whole["content"]:
        if partial := block.pop("partial"):
            try:
                block["input"] = json.loads(partial)
            except ValueError:  # the reply was cut off
                block["input"] = {"malformed": partial}
    return whole


_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}


def _read_message(whole: Object) -> dict[str, Any]:
    message: dict[str, Any] = {"content": "", "tool_calls": []}
    for block in whole["content"]:
        if block.get("type") == "thinking":
            message["reasoning"] = message.get("reasoning", "") + str(block.get("thinking") or "")
        elif block.get("type") == "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            message["tool_calls"].append(_call(block.get("id"), block.get("name"), arguments))
        else:
            message["content"] += text_of([block])
    stop = whole.get("stop_reason")
    return _chat(message, _STOPS.get(str(stop), stop), whole.get("usage"))


def _call(id: object, name: object, arguments: object) -> dict[str, Any]:
    return {"id": str(id), "function": {"name": str(name), "arguments": str(arguments)}}


def _chat(message: Object, finish_reason: str | None, usage: Object | None) -> dict[str, Any]:
    counts, cached = usage or {}, ("cache_read_input_tokens", "cache_creation_input_tokens")
    tokens = {
        "prompt_tokens": sum(counts.get(name) or 0 for name in ("input_tokens", *cached)),
        "completion_tokens": counts.get("output_tokens"),
    }
    return {"choices": [{"message": message, "finish_reason": finish_reason}], "usage": tokens}


_JOINED = {
    "chat/completions": _join_chunks,
    "responses": _last_response,
    "messages": _join_blocks,
}
_READ: Mapping[str, Any] = {
    "chat/completions": dict,
    "responses": _read_response,
    "messages": _read_message,
}
