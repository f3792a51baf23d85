"""A scripted model server in the three forms of the protocol, streamed and not, for programs whose
model has a tool that runs shell commands."""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from intercode.types import Task

Object = dict[str, Any]
_TOKENS = 5


@dataclass
class Answered:
    """A request with what it was answered. `prompt_tokens` differs from request to request; `tool`
    is None for words."""

    form: str
    request: Object
    text: str
    tool: str | None
    arguments: Object
    prompt_tokens: int
    task: str | None
    """The task that the request is about; None for a request without a shell tool (a title)."""

    body: str | None = None
    """What was sent as it is, whatever the other fields say."""

    @property
    def usage(self) -> tuple[int, int]:
        return self.prompt_tokens, _TOKENS


class ShellServer(ThreadingHTTPServer):
    """Answers a request for a task with a call that executes its gold, then with one that submits,
    then with words. Keeps what it answered, and the paths that it does not know. Queries differ."""

    daemon_threads = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.golds = {json.dumps(task.query)[1:-1]: (task.id, task.gold) for task in tasks}
        self.answered: list[Answered] = []
        self.unknown: list[str] = []
        self.submits = True
        """Otherwise it goes on calling the tool."""
        self.replays: dict[str, str] = {}
        """By task: the body of the first answer, sent as it is."""
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, form: str, request: Object) -> Answered:
        whole = json.dumps(request)
        gold = next((known for query, known in self.golds.items() if query in whole), None)
        tool = next(filter(None, map(_shell_call, request.get("tools") or ())), None)
        with self._lock:
            count = len(self.answered) + 100
            task = gold[0] if gold and tool else None
            answered = Answered(form, request, "A title", None, {}, count, task)
            self.answered.append(answered)
            answered.body = self.replays.pop(task, None) if task else None
        if gold is None or tool is None:
            return answered
        results = len(re.findall(r'"(?:role": "tool|type": "(?:\w+_output|tool_result))"', whole))
        if results >= 2 and self.submits:
            answered.text = "It is done."
            return answered
        answered.text = "I run a command."
        answer = ' "$(cat /dev/shm/answer)"' if "submit 'ANSWER'" in whole else ""
        code = f"bash -c {shlex.quote(gold[1])} > /dev/shm/answer; echo {count}"
        answered.tool, fill = tool
        answered.arguments = fill(f"submit{answer}" if results and self.submits else code)
        return answered


def _shell_call(tool: Object) -> tuple[str, Callable[[str], Object]] | None:
    """Return the name of a tool that takes a shell command, and a function that returns the
    arguments for a command."""
    function = tool.get("function") or tool
    schema = function.get("parameters") or function.get("input_schema") or {}
    known = schema.get("properties") or {}
    key = next((key for key in ("command", "cmd", "commands", "code") if key in known), None)
    if key is None:
        return None

    def fill(code: str) -> Object:
        values: Object = {"boolean": False, "string": "run", "number": 1, "integer": 1}
        rest = {name: values[known[name]["type"]] for name in schema["required"] if name != key}
        if key == "commands":
            return {**rest, key: [code]}
        is_list = known[key].get("type") == "array"
        return {**rest, key: ["bash", "-c", code] if is_list else code}

    return str(function["name"]), fill


class _Handler(BaseHTTPRequestHandler):
    server: ShellServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        form = self.path.partition("?")[0].removeprefix("/v1/")
        if form not in _WHOLE:
            self.server.unknown.append(self.path)
            self._send(404, "application/json", "{}")
            return
        answered = self.server.answer(form, request)
        if answered.body is not None:
            streamed = request.get("stream")
            self._send(200, "text/event-stream" if streamed else "application/json", answered.body)
            return
        whole = _WHOLE[form](answered)
        if not request.get("stream"):
            self._send(200, "application/json", json.dumps(whole))
            return
        events = [
            (f"event: {event['type']}\n" if "type" in event else "")
            + f"data: {json.dumps(event)}\n\n"
            for event in _EVENTS[form](whole)
        ]
        end = "data: [DONE]\n\n" if form == "chat/completions" else ""
        self._send(200, "text/event-stream", "".join(events) + end)

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# -- chat/completions ------------------------------------------------------------------------------


def _chat(answered: Answered) -> Object:
    message: Object = {"role": "assistant", "content": answered.text}
    if answered.tool:
        called = {"name": answered.tool, "arguments": json.dumps(answered.arguments)}
        call = {"id": f"call_{answered.prompt_tokens}", "type": "function", "function": called}
        message["tool_calls"] = [call]
    end = "tool_calls" if answered.tool else "stop"
    prompt, completion = answered.usage
    return {
        "id": f"chat-{prompt}",
        "object": "chat.completion",
        "created": 1,
        "model": answered.request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": end}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def _chunks(whole: Object) -> Iterator[Object]:
    head = {key: whole[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    (choice,) = whole["choices"]
    message = choice["message"]
    deltas: list[Object] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": letter} for letter in message["content"]]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        opened = {**call, "index": index, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        for part in _parts(function["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield {**head, "choices": [end]}
    yield {**head, "choices": [], "usage": whole["usage"]}


def _parts(text: str) -> Iterator[str]:
    return (text[at : at + 20] for at in range(0, len(text), 20))


# -- responses -------------------------------------------------------------------------------------


def _response(answered: Answered) -> Object:
    count, completion = answered.usage
    said = {"type": "output_text", "text": answered.text, "annotations": []}
    output: list[Object] = [
        {
            "type": "message",
            "id": f"msg_{count}",
            "role": "assistant",
            "status": "completed",
            "content": [said],
        }
    ]
    if answered.tool:
        output.append(
            {
                "type": "function_call",
                "id": f"fc_{count}",
                "call_id": f"call_{count}",
                "status": "completed",
                "name": answered.tool,
                "arguments": json.dumps(answered.arguments),
            }
        )
    return {
        "id": f"resp_{count}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": answered.request["model"],
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "usage": {
            "input_tokens": count,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": count + completion,
        },
    }


def _response_events(whole: Object) -> Iterator[Object]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        kind = item["type"]
        if kind == "message":
            opened = {**item, "status": "in_progress", "content": []}
            yield {"type": "response.output_item.added", "output_index": index, "item": opened}
            place |= {"content_index": 0}
            text = item["content"][0]["text"]
            empty = {**item["content"][0], "text": ""}
            yield {"type": "response.content_part.added", **place, "part": empty}
            for letter in text:
                yield {"type": "response.output_text.delta", **place, "delta": letter}
            yield {"type": "response.output_text.done", **place, "text": text}
        else:
            opened = {**item, "status": "in_progress", "arguments": ""}
            yield {"type": "response.output_item.added", "output_index": index, "item": opened}
            for part in _parts(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": part}
            done = {**place, "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


# -- messages --------------------------------------------------------------------------------------


def _message(answered: Answered) -> Object:
    count, completion = answered.usage
    content: list[Object] = [{"type": "text", "text": answered.text}]
    if answered.tool:
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_{count}",
                "name": answered.tool,
                "input": answered.arguments,
            }
        )
    return {
        "id": f"msg_{count}",
        "type": "message",
        "role": "assistant",
        "model": answered.request["model"],
        "content": content,
        "stop_reason": "tool_use" if answered.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": count, "output_tokens": completion},
    }


def _blocks(whole: Object) -> Iterator[Object]:
    begun = {**whole, "content": [], "stop_reason": None}
    begun["usage"] = {**whole["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        opened: Object = {**block, "text": ""} if "text" in block else {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        if "text" in block:
            deltas = [{"type": "text_delta", "text": letter} for letter in block["text"]]
        else:
            parts = _parts(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


_WHOLE = {"chat/completions": _chat, "responses": _response, "messages": _message}
_EVENTS = {"chat/completions": _chunks, "responses": _response_events, "messages": _blocks}
