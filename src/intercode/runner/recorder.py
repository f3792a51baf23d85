"""The model of a command-line agent: takes its requests, passes them on, and records them.

    program in the sandbox ──► 127.0.0.1:PORT there ── listener ──► Recorder ──► model's server
                                                                        │
                              a turn: messages, reply, calls, tokens ◄──┘

Each request goes to the user's server in its own form, and the answer comes back as it is, also
piece by piece. Only the model's name and the key are replaced: the program knows a token that is
valid for its episode and nowhere else. Beyond the limits of the episode requests are refused.

A request continues the conversation whose messages it begins with, or begins a new one (a title, a
summary, another agent). The conversation with the most replies is the main one: its turns act.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from socketserver import BaseServer, ThreadingMixIn
from typing import Any

from intercode.errors import ModelError, UsageError
from intercode.models import OpenAIModel
from intercode.models.forms import FORMS, answer_of, question_of, text_of
from intercode.types import Message, Reply, Turn

LARGEST = 32 << 20
"""Bytes of a request and of an answer."""
_CONNECTIONS = 32
"""The most connections of a program; further ones are closed."""
_FAULTS = {401, 403, 404, 405, 407, 408, 425, 429, 501}
"""Statuses below 500, and 501, that the server or the user's account is to blame for."""
_TOLD = ("system", "developer")
_PASSED = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta")


_Request = tuple[str, dict[str, Any], dict[str, str]]
"""A request: its form, body and headers."""


@dataclass
class _Conversation:
    """The messages of a conversation's last question, without the system's (programs put the time
    into it); how often it was asked; and the places of its turns."""

    messages: Sequence[object] = ()
    asked: int = 0
    places: list[int] = field(default_factory=list)


class Recorder(ThreadingMixIn, BaseServer):
    """Answers on `listener` with the model's server, and appends a turn for each request to
    `turns`.

    `refusal` returns why no further request is passed on, or None; its arguments are the numbers of
    requests in the conversation and in all. `fault` is the error of the last request, if the server
    was to blame for it; `submission` is what the program submitted.
    """

    daemon_threads = True

    def __init__(
        self,
        listener: socket.socket,
        model: OpenAIModel,
        turns: list[Turn],
        refusal: Callable[[int, int], str | None],
    ) -> None:
        super().__init__(listener.getsockname(), _Handler)
        self.listener, self.model, self._turns, self._refusal = listener, model, turns, refusal
        self.token = f"sk-{secrets.token_hex(24)}"
        self.fault: ModelError | None = None
        self.submission: str | None = None
        self.refused_at: float | None = None
        """When the first request was refused, or the work was submitted (`time.monotonic()`)."""
        self._conversations: list[_Conversation] = []
        self._lock, self._free = threading.Lock(), threading.Semaphore(_CONNECTIONS)
        self.asked: _Request | None = None
        """The last request that was answered."""
        self.failed: _Request | None = None
        """The last request that failed by a fault."""
        self.refusal = ""
        """The text of the last refusal, by the server or by this recorder."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    # -- what socketserver asks for ----------------------------------------------------------------

    def fileno(self) -> int:
        return self.listener.fileno()

    def get_request(self) -> tuple[socket.socket, Any]:
        return self.listener.accept()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def shutdown_request(self, request: Any) -> None:
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
        request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a program that ended before its answer

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.shutdown()
        self.listener.close()

    # -- requests ----------------------------------------------------------------------------------

    def admit(self, question: Sequence[Message]) -> _Conversation | str:
        """Return the conversation of a request, or why it is refused."""
        told = [_bare(message) for message in question if message["role"] not in _TOLD]
        with self._lock:
            earlier = [
                conversation
                for conversation in self._conversations
                if conversation.messages == told[: len(conversation.messages)]
            ]
            conversation = max(earlier, key=lambda one: len(one.messages), default=_Conversation())
            asked = sum(one.asked for one in self._conversations)
            over = self.submission is not None
            why = "the work was submitted" if over else self._refusal(conversation.asked, asked)
            if why:
                self.refused_at = self.refused_at or time.monotonic()
                return why
            if not earlier:
                self._conversations.append(conversation)
            conversation.messages = told
            conversation.asked += 1
            return conversation

    def submit(self, answer: str) -> None:
        with self._lock:
            if self.submission is None:
                self.submission, self.refused_at = answer, time.monotonic()

    def provoked(self) -> bool:
        """Return whether the last fault lies in what was sent, which may be the policy's choice:
        the request fails again, but one that was answered before is still answered."""
        if self.asked is None or self.failed is None:
            return False
        return not self._answers(self.failed) and self._answers(self.asked)

    def _answers(self, request: _Request) -> bool:
        try:
            with self.model.forward(*request) as response:
                response.read()
                return bool(response.status_code == 200)
        except ModelError:
            return False

    def note(
        self,
        form: str,
        question: Sequence[Message],
        body: str,
        seconds: float,
        conversation: _Conversation,
    ) -> None:
        """Append the turn of a request and its answer."""
        try:
            reply = self.model.read_answer(answer_of(form, body))
        except Exception as error:  # whatever the server sent
            why = f"{self.model.url}: an answer that cannot be read ({error!r:.200})"
            self.fault, reply = ModelError(why), Reply(body)
        turn = Turn(
            tuple(question),
            reply.text,
            usage=reply.usage,
            calls=reply.calls or None,
            sample=reply.sample,
            reasoning=reply.reasoning or None,
            finish_reason=reply.finish_reason,
            reply_seconds=round(seconds, 6),
        )
        with self._lock:
            conversation.places.append(len(self._turns))
            self._turns.append(turn)

    def add_actions(self) -> None:
        """Give the turns of the main conversation their actions, the calls or the text of each
        reply, and as observations what the program sent next."""
        main = max(self._conversations, key=lambda one: len(one.places), default=_Conversation())
        for place, following in pairwise(main.places):
            turn, asked = self._turns[place], self._turns[following].ask or ()
            sent = [one for one in asked[len(turn.ask or ()) :] if one["role"] != "assistant"]
            self._turns[place] = replace(
                turn,
                action="\n".join(call.arguments for call in turn.calls or ()) or turn.reply,
                observation="\n".join(text_of(message.get("content")) for message in sent),
            )


class _Handler(BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self._authorized():
            models = {"object": "list", "data": [{"id": self.server.model.name, "object": "model"}]}
            self._answer(200, models)

    def do_POST(self) -> None:
        try:
            if not self._authorized():
                return
            length = int(self.headers.get("content-length") or -1)
            if not 0 <= length <= LARGEST:
                raise ValueError(f"Content-Length must be at most {LARGEST}")
            content = self.rfile.read(length)
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/submit":
                self.server.submit(content.decode("utf-8", "replace"))
                self._answer(200, {"submitted": True})
                return
            form = next((form for form in FORMS if path.endswith(f"/{form}")), None)
            if form is None:
                self._refuse(404, f"there is no {path}; there are {', '.join(FORMS)}")
                return
            request = json.loads(content)
            json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
            question = question_of(form, request)
            conversation = self.server.admit(question)
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
            self._refuse(400, f"the request cannot be read: {error!r:.200}")
            return
        if isinstance(conversation, str):
            self._refuse(400, conversation)  # which programs do not try again, unlike 429
        elif not self._pass_on(form, request, question, conversation):
            conversation.asked -= 1

    def _authorized(self) -> bool:
        given = self.headers.get("authorization", "").partition(" ")[2] or self.headers.get(
            "x-api-key", ""
        )
        if hmac.compare_digest(given.encode(), self.server.token.encode()):
            return True
        self._refuse(401, "the key is not that of this episode")
        return False

    def _pass_on(
        self,
        form: str,
        request: dict[str, Any],
        question: Sequence[Message],
        conversation: _Conversation,
    ) -> bool:
        """Send the request to the model's server, and its answer to the program. Return whether the
        answer is a reply of the model."""
        server, began = self.server, time.perf_counter()
        headers = {name: self.headers[name] for name in _PASSED if name in self.headers}
        server.failed, body = (form, request, headers), bytearray()
        try:
            with server.model.forward(form, request, headers) as response:
                status, kind = response.status_code, response.headers.get("content-type", "")
                if status != 200:
                    text = server.model.without_key(response.read().decode("utf-8", "replace"))
                    return self._tell_failure(form, status, kind, text)
                self._begin(status, kind)
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > LARGEST:
                        raise ModelError(f"{server.model.url}: an answer above {LARGEST >> 20} MiB")
                    if piece:
                        self._send(piece)
        except ModelError as error:
            server.fault = error
            self._refuse(502, str(error))
            return False
        server.fault, server.asked, server.failed = None, (form, request, headers), None
        text, seconds = body.decode("utf-8", "replace"), time.perf_counter() - began
        server.note(form, question, text, seconds, conversation)
        with suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")
        return True

    def _tell_failure(self, form: str, status: int, kind: str, text: str) -> bool:
        server = self.server
        server.refusal = f"{server.model.url}: HTTP {status} for /{form}: {text:.300}"
        if status in _FAULTS or status >= 500:
            server.fault = ModelError(server.refusal)
        self._begin(status, kind)
        self._send(text.encode())
        with suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")
        return False

    def _begin(self, status: int, kind: str) -> None:
        with suppress(OSError):  # the program left, which is not the server's fault
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()

    def _send(self, piece: bytes) -> None:
        with suppress(OSError):  # the program left; its answer is recorded all the same
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def _refuse(self, status: int, why: str) -> None:
        self.server.refusal = why
        error = {"type": "invalid_request_error", "message": why}
        self._answer(status, {"type": "error", "error": error})


def _bare(value: Any) -> Any:
    """Return a message without marks for a server's cache, which programs move to the newest one,
    and without the parts that only wrap a marked text."""
    if isinstance(value, dict):
        value = {key: _bare(part) for key, part in value.items() if key != "cache_control"}
        return value["text"] if value.keys() == {"type", "text"} else value
    if isinstance(value, list):
        return _bare(value[0]) if len(value) == 1 else [_bare(part) for part in value]
    return value


def require_server(model: object) -> OpenAIModel:
    """Return the model behind a server. Raises `UsageError` for another one."""
    while (inner := getattr(model, "inner", None)) is not None:
        model = inner
    if isinstance(model, OpenAIModel):
        return model
    raise UsageError("a command-line agent asks a model server: name one with --model")
