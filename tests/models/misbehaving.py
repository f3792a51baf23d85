"""A chat server on loopback that answers as it is told to: well, wrongly, by half, or not at
all."""

from __future__ import annotations

import json
import time
from typing import Any

from loopback import Behaviour, Quiet

GOOD = {
    "id": "1",
    "object": "chat.completion",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ls"}}
    ],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
}


class Handler(Quiet):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = {
            "path": self.path,
            "key": self.headers["Authorization"],
            "body": body,
            "time": time.monotonic(),
        }
        self.server.next_behaviour(request)(self)

    def respond(
        self, status: int, body: bytes, headers: dict[str, str], announced: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)


def answer(body: Any, status: int = 200, **headers: str) -> Behaviour:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.respond(
        status, data, {k.replace("_", "-"): v for k, v in headers.items()}
    )


def half_a_body(handler: Handler) -> None:
    data = json.dumps(GOOD).encode()
    handler.respond(200, data[: len(data) // 2], {}, announced=len(data))
    handler.close_connection = True


def nothing(handler: Handler) -> None:
    handler.close_connection = True


def hang(handler: Handler) -> None:
    handler.server.stopping.wait(5)
    handler.close_connection = True


def refuse(status: int, message: str = "no") -> Behaviour:
    return answer({"error": {"message": message}}, status)


def drip(handler: Handler) -> None:
    """One space at a time, as a proxy sends them while it waits, and no end."""
    handler.close_connection = True
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
    )
    while not handler.server.stopping.wait(0.02):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return
