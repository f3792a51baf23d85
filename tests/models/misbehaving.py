"""A chat server on loopback that answers as it is told to: well, wrongly, by half, or not at all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ls"}}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
}

Behaviour = Callable[["Handler"], None]


class Server(ThreadingHTTPServer):
    """Answers request k with behaviour k, and the last one again beyond the end; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Behaviour] = [answer(GOOD)]
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: Any) -> None:
        """A client that leaves in the middle of an answer is no error here."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append({"path": self.path, "key": self.headers["Authorization"], "body": body})
            self.server.times.append(time.monotonic())
        self.server.script[min(number, len(self.server.script) - 1)](self)

    def respond(self, status: int, body: bytes, headers: dict[str, str], announced: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answer(body: Any, status: int = 200, **headers: str) -> Behaviour:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.respond(status, data, {k.replace("_", "-"): v for k, v in headers.items()})


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
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while not handler.server.stopping.wait(0.02):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return
