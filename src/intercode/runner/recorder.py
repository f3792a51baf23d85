"""The model of a command-line agent: takes its requests, passes them on, and records them.

    program in the sandbox ──► 127.0.0.1:PORT there ── listener ──► Recorder ──► model's server
                                                                        │
                              a turn: messages, reply, calls, tokens ◄──┘

Each request goes to the user's server in its own form, and the answer comes back as it is, also
piece by piece. Only the model's name and the key are replaced: the program knows a token that is
valid for its episode and nowhere else. Beyond the limits of the episode requests are refused.

A request belongs to a conversation (`conversations.py`). The turns of the main one act.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from socketserver import ThreadingTCPServer
from typing import Any

from intercode.errors import ModelError, UsageError
from intercode.models import OpenAIModel
from intercode.models.forms import (
    FORMS,
    Unreadable,
    answer_of,
    offered_by,
    question_of,
    text_of,
    tools_of,
)
from intercode.models.openai_chat import is_reply
from intercode.runner.conversations import Conversation, Conversations, Question
from intercode.runner.program_http import Asked, Connection, Refused, Room
from intercode.runs.store import shared_length
from intercode.types import Ended, Message, Reply, Tool, Turn, Usage

LARGEST = 32 << 20
"""Bytes of an answer, and of all requests at a time."""
_CONNECTIONS = 32
"""The most connections of a program; further ones are closed."""
_VALUES = 200_000
"""The most values in a request: each takes up to 200 bytes of memory here."""
_FAILING = 10
"""Requests that may fail or be refused, for each turn."""
_RECORDED = 128 << 20
"""Bytes of the requests in a record, without what they repeat of the one before."""
_FORM = re.compile(rf"/({'|'.join(FORMS)})$")
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_FAULTS = {401, 402, 403, 404, 405, 407, 408, 425, 429}
"""Statuses below 500 that the server or the user's account is to blame for."""
_PASSED = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta")


@dataclass(eq=False)
class Exchange:
    """A request, and what became of it: `fault` if the server was to blame for its failure."""

    form: str
    request: dict[str, Any]
    headers: dict[str, str]
    question: Question
    conversation: Conversation
    is_answered: bool = False
    fault: ModelError | None = None


class Recorder(ThreadingTCPServer):
    """Answers on `listener` with the model's server, and appends a turn for each reply to `turns`.

    The main conversation gets `most` replies, and all others together as many. `stop` returns why
    no request at all is passed on any more, or None. `submission` is what the program submitted;
    `ended` says why the program has to end, once it has, at `ended_at` (`time.monotonic()`).
    """

    daemon_threads = True

    def __init__(
        self,
        listener: socket.socket,
        model: OpenAIModel,
        turns: list[Turn],
        query: str,
        most: int,
        stop: Callable[[], str | None],
    ) -> None:
        address = listener.getsockname()
        super().__init__(address, self._serve, bind_and_activate=False)  # type: ignore[arg-type]
        self.socket.close()
        self.socket, self.model, self._turns, self._stop = listener, model, turns, stop
        self.token = f"sk-{secrets.token_hex(24)}"
        self.submission: str | None = None
        self.ended: Ended | None = None
        self.ended_at = 0.0
        self.refusal = ""
        """The text of the last refusal, by the server or by this recorder."""
        self.crash: BaseException | None = None
        """A mistake of this program, not of the one that asked."""
        self.answered: Exchange | None = None
        """The last request that got an answer that can be read."""
        self.was_limited = False
        """True once a request was refused because of a limit."""
        self._most, self._failures, self._recorded, self._over = most, 0, 0, False
        self._conversations, self._tools = Conversations(query), LastTools()
        self._room, self._lock = Room(LARGEST), threading.Lock()
        self._free = threading.Semaphore(_CONNECTIONS)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    # -- what socketserver asks for ----------------------------------------------------------------

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.crash = sys.exception()

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.shutdown()
        self.server_close()

    # -- a connection ------------------------------------------------------------------------------

    def _serve(self, connected: socket.socket, address: Any, server: Any) -> None:
        connection = Connection(connected, self._room)
        try:
            while connection.is_open():
                try:
                    if (asked := connection.next()) is None:
                        break
                    self._handle(asked, connection)
                except Refused as refused:
                    self._refuse(connection, refused)
        finally:
            connection.close()

    def _handle(self, asked: Asked, connection: Connection) -> None:
        if self.token not in " ".join(asked.headers.values()).split():
            raise Refused(401, "the key is not that of this episode")
        path, answer = asked.path, dict[str, Any]()
        if asked.method in ("GET", "HEAD") and "/models" in path:
            answer = {"id": self.model.name, "object": "model"}
            if path.endswith("/models"):
                answer = {"object": "list", "data": [answer]}
        elif (asked.method, path) == ("POST", "/submit"):
            self._submit(asked.body.decode("utf-8", "replace"))
        elif asked.method == "POST" and (form := _FORM.search(path)):
            self._pass_on(self._admit(form[1], asked), connection)
            return
        elif asked.method != "OPTIONS":
            raise Refused(404, f"there is no {asked.method} {path}; there are {', '.join(FORMS)}")
        connection.answer(200, json.dumps(answer).encode())

    def _refuse(self, connection: Connection, refused: Refused) -> None:
        self.refusal = str(refused)
        error = {"type": "invalid_request_error", "message": self.refusal}
        connection.answer(refused.status, json.dumps({"type": "error", "error": error}).encode())

    def _submit(self, answer: str) -> None:
        with self._lock:
            if self.submission is None:
                self.submission = answer
                self._end("submit")

    def _end(self, why: Ended) -> None:
        if self.ended is None:
            self.ended, self.ended_at = why, time.monotonic()

    # -- a request ---------------------------------------------------------------------------------

    def _admit(self, form: str, asked: Asked) -> Exchange:
        """Return the exchange of a request. Raises `Refused`."""
        structure = _TEXTS.sub(b"", asked.body)
        if sum(map(structure.count, (b",", b"[", b"{"))) > _VALUES:
            raise Refused(413, f"a request may have {_VALUES:,} values")
        del structure
        try:
            with self._lock:
                request = json.loads(asked.body.decode("utf-8-sig"))
                json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
                previous = str(request.get("previous_response_id") or "")
                question = Question(question_of(form, request), tools_of(request), previous)
                question = self._conversations.whole(question)
                conversation = self._conversations.find(question)
                self._check_limits(conversation)
                self._conversations.begin(conversation, question)
                self._recorded += len(asked.body)
                if self._repeats(conversation, question):
                    self._recorded -= conversation.size
                conversation.size = len(asked.body)
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
            raise Refused(400, f"the request cannot be read: {error!r:.200}") from error
        headers = {
            name: asked.headers[name] for name in _PASSED if asked.headers.get(name, "é").isascii()
        }
        return Exchange(form, request, headers, question, conversation)

    def _repeats(self, conversation: Conversation, question: Question) -> bool:
        """Return whether a question begins with the conversation's last one."""
        before = self._turns[conversation.places[-1]].ask or () if conversation.places else ()
        return tuple(question.messages[: len(before)]) == before

    def _check_limits(self, conversation: Conversation) -> None:
        """Raise `Refused` where no further request is passed on: with status 400, which programs do
        not try again, unlike 429."""
        is_main = conversation is self._conversations.main
        if self.submission is not None:
            why = "the work was submitted"
        elif why := self._stop() or "":
            self._end("limit")
        elif self._recorded > _RECORDED:
            why = f"the requests have more than {_RECORDED >> 20} MiB, too much for a record"
            self._end("limit")
        elif self._failures >= _FAILING * self._most:
            why = f"{self._failures} requests failed or were refused"
            self._end("turns")
        elif conversation.asked >= self._most:
            why = f"all {self._most} turns are used up"
            if is_main:
                self._end("turns")
        elif not is_main and self._conversations.others >= self._most:
            why = f"conversations beside the main one may have {self._most} replies together"
        if why:
            self._failures += 1
            self.was_limited = True
            raise Refused(400, why)

    def _pass_on(self, exchange: Exchange, connection: Connection) -> None:
        """Send a request to the model's server, and its answer to the program: a stream as it
        comes, a whole answer once it is recorded."""
        body, began = bytearray(), time.perf_counter()
        try:
            with self.model.forward(exchange.form, exchange.request, exchange.headers) as answer:
                if answer.is_stream:
                    connection.begin(answer.status, {"content-type": answer.kind})
                for piece in answer.pieces:
                    body += piece
                    if len(body) > LARGEST:
                        raise Refused(502, f"an answer of the model above {LARGEST >> 20} MiB")
                    if answer.is_stream and piece:
                        connection.send(piece)
            text = body.decode("utf-8", "replace")
            if answer.status == 200:
                self._note(exchange, text, time.perf_counter() - began)
            else:
                self.refusal = (
                    f"{self.model.url}: HTTP {answer.status} for /{exchange.form}: {text:.300}"
                )
                if answer.status in _FAULTS or answer.status >= 500:
                    exchange.fault = ModelError(self.refusal)
        except ModelError as error:
            exchange.fault = error
            raise Refused(502, str(error)) from error
        finally:
            if not exchange.is_answered:
                with self._lock:
                    self._conversations.end(exchange.conversation, exchange.fault and exchange)
                    self._failures += 1
        if answer.is_stream:
            connection.end()
        else:
            connection.answer(answer.status, bytes(body), answer.kind)

    def _note(self, exchange: Exchange, text: str, seconds: float) -> None:
        """Append the turn of a request and its answer, which is kept as it came if it cannot be
        read."""
        question, id, is_read = exchange.question, "", True
        try:
            answer = answer_of(exchange.form, text)
            reply, id = self.model.read_answer(answer), str(answer["id"] or "")
        except ModelError as error:
            exchange.fault = error
            return
        except Unreadable:
            reply, is_read = Reply(text, Usage(uncounted=1)), False
            self.refusal = f"{self.model.url}: an answer that cannot be read: {text:.200}"
        with self._lock:
            if self._over:  # nobody hears it any more
                return
            tools = self._tools.change(offered_by(exchange.request))
            turn = turn_of(question.messages, reply, seconds, tools)
            place = len(self._turns)
            self._conversations.answer(exchange.conversation, question, reply, id, place)
            self._turns.append(turn)
            exchange.is_answered = True
            if is_read:
                self.answered = exchange

    # -- after the program -------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Return whether the server owes an answer."""
        main = self._conversations.main
        return main is not None and main.is_waiting

    def require_no_fault(self) -> None:
        """Raise the error of a request that failed by the server's fault, and after which its
        conversation got no reply. Not if the fault lies in what was sent, which may be the policy's
        choice: the request fails again, but one that was answered before is still answered."""
        for failed in list(self._conversations.failed.values()):
            if not self.answered or self._answers(failed) or not self._answers(self.answered):
                raise failed.fault

    def _answers(self, exchange: Exchange) -> bool:
        try:
            with self.model.forward(exchange.form, exchange.request, exchange.headers) as answer:
                return is_reply(exchange.form, answer)
        except ModelError:
            return False

    def close(self) -> None:
        """Record no further reply, and give the turns of the main conversation their actions, the
        calls or the text of each reply, and as observations what the program sent next."""
        with self._lock:
            self._over, main = True, self._conversations.main
        for place, following in pairwise(main.places if main else ()):
            turn, asked = self._turns[place], self._turns[following].ask or ()
            sent = list[str]()
            for message in asked[shared_length(turn.ask or (), asked) :]:
                if message["role"] == "assistant":
                    sent.clear()
                else:
                    sent.append(text_of(message.get("content")))
            action = "\n".join(call.arguments for call in turn.calls or ()) or turn.reply
            self._turns[place] = replace(turn, action=action, observation="\n".join(sent))


class LastTools:
    """The tools of the last question of an episode."""

    def __init__(self) -> None:
        self._tools: Sequence[Tool] = ()

    def change(self, tools: Sequence[Tool]) -> Sequence[Tool] | None:
        """Return the tools of a question; None if they are the last question's."""
        if self._tools == tuple(tools):
            return None
        self._tools = tuple(tools)
        return self._tools


def turn_of(
    messages: Sequence[Message], reply: Reply, seconds: float, tools: Sequence[Tool] | None
) -> Turn:
    """Return the turn that a question and its reply begin."""
    return Turn(
        tuple(messages),
        reply.text,
        usage=reply.usage,
        calls=reply.calls or None,
        left_out=reply.left_out or None,
        sample=reply.sample,
        reasoning=reply.reasoning or None,
        finish_reason=reply.finish_reason,
        reply_seconds=round(seconds, 6),
        tools=tools,
    )


def require_server(model: object) -> OpenAIModel:
    """Return the model behind a server. Raises `UsageError` for another one."""
    while (inner := getattr(model, "inner", None)) is not None:
        model = inner
    if isinstance(model, OpenAIModel):
        return model
    raise UsageError("a command-line agent asks a model server: name one with --model")
