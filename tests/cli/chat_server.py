"""A real local server that speaks the OpenAI chat protocol, answers from a table, and breaks when
told to."""

from __future__ import annotations

import contextlib
import gc
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import loopback
from loopback import Quiet, Server

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class ChatServer(Server):
    """`answers` maps a query to the code that is sent for it, or the codes, one after the other;
    afterwards comes `submit`.

    `healthy` False, or `good_for` requests that were answered, makes it send 500 from then on;
    `dropping` True, hang up. More than `longest` characters in a conversation are refused as too
    many. `before_answer` is called with the request. `says` makes the whole reply of a request (a
    text, or the fields of a message) in place of the table. `usage` is what it says of the tokens,
    `finish` why each reply ended.
    """

    language = "bash"

    def __init__(self, answers: Mapping[str, str | Sequence[str]]) -> None:
        super().__init__(_Handler)
        self.answers = answers
        self.healthy, self.dropping = True, False
        self.good_for: int | None = None
        self.longest: int | None = None
        self.finish = "stop"
        self.usage: Mapping[str, int] | None = USAGE
        self.before_answer: Callable[[dict[str, Any]], object] = lambda request: None
        self.key: str | None = None
        """The header with the key of the last request."""
        self.says: Callable[[dict[str, Any]], str | Mapping[str, Any]] | None = None

    @property
    def variables(self) -> dict[str, str]:
        return {"INTERCODE_BASE_URL": f"{self.url}/v1"}

    def admit(self, request: dict[str, Any]) -> bool:
        with self.lock:
            self.requests.append(request)
            if self.good_for is not None:
                self.good_for -= 1
                self.healthy = self.healthy and self.good_for >= 0
            return self.healthy


class _Handler(Quiet):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.key = self.headers["Authorization"]
        if self.server.dropping:
            self.close_connection = True
            return
        if not self.server.admit(request):
            self._send(500, {"error": {"message": "out of memory"}})
            return
        messages = request["messages"]
        if (
            self.server.longest
            and sum(len(message["content"]) for message in messages) > self.server.longest
        ):
            self._send(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})
            return
        self.server.before_answer(request)
        text = self.server.says(request) if self.server.says else self._from_table(messages)
        fields = {"content": text} if isinstance(text, str) else text
        message = {"role": "assistant", **fields}
        choices = [{"index": 0, "message": message, "finish_reason": self.server.finish}]
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": choices,
        }
        self._send(200, {**answer, "usage": self.server.usage})

    def _from_table(self, messages: Sequence[Mapping[str, Any]]) -> str:
        answer = self.server.answers[messages[1]["content"]]
        codes = [answer] if isinstance(answer, str) else answer
        code = [*codes, "submit"][min(len(messages) // 2 - 1, len(codes))]
        return f"Let me see.\n\n```{self.server.language}\n{code}\n```\n"

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def serving(answers: Mapping[str, str | Sequence[str]]) -> Iterator[ChatServer]:
    try:
        with loopback.serving(ChatServer(answers)) as server:
            yield server
    finally:
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()  # connections of models that were used in this process
