"""Real HTTP servers on loopback, which answer each request as a test tells them to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Behaviour = Callable[[Any], None]


class Server(ThreadingHTTPServer):
    """Answers request k with behaviour k, and the last one again beyond the end; keeps what it was
    asked."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], *script: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.script = list(script)
        self.requests: list[Any] = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_behaviour(self, request: Any) -> Behaviour:
        with self.lock:
            self.requests.append(request)
            return self.script[min(len(self.requests), len(self.script)) - 1]

    def handle_error(self, *_: Any) -> None:
        """A client that leaves in the middle of an answer is no error here."""


class Quiet(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """A server that answers while the block runs."""
    with server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()
