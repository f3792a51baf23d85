"""A model behind any server of the OpenAI chat protocol: hosted models, vLLM, Ollama, llama.cpp.

    complete ─► _post ─► body ─► _read_reply ─► Reply
        ▲          │ filtered, or not parsed: a Reply   (the policy's words may be the cause)
        │          │ too long: ContextOverflow at once  (`refusals.py`)
        │          │ too large: ModelError at once      (more than `LARGEST` bytes, counted as
        │          │                                    they arrive)
        │          │ refused: ModelError at once        (400, 401, 402, 403, 404, …, a certificate,
        │          │                                    at first a host name: another try cannot
        │          │                                    help)
        └── wait ◄─┴ _Broken: try again, `tries` times  (429, 5xx, no connection, time-out,
                                                        incomplete or wrong body)

Whatever the policy can cause is a reply: no text, a refusal, reasoning alone, half a text. What
servers refuse in a conversation is not sent back to them (`sendable`).

The SDK's own retries are off: they do not repeat a request whose status is good and whose body is
broken. Requests go through the SDK's `post` and return plain text, since its parsed objects hide
what a bad server really sent. Prices come from a table that the user keeps; the program has none,
since prices change without notice:

    # ~/.config/intercode/prices.toml: US dollars per million tokens, in and out
    small-model = [0.15, 0.60]
    "vendor/large-model" = [3, 15]

Left out: streaming, several choices, and noticing a server that silently shortens the conversation.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import ssl
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, fields
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

from intercode.errors import ContextOverflow, ModelError, UsageError
from intercode.models.forms import Unreadable, answer_of, chat_call, sendable, text_of
from intercode.models.refusals import FIXED, Refusal
from intercode.runs.signing import config_folder
from intercode.types import (
    INCOMPLETE,
    REASONING,
    Message,
    Reply,
    Sample,
    Tool,
    ToolCall,
    Usage,
    is_number,
)  # fmt: skip

Price = tuple[float, float]
"""US dollars per million tokens, in and out."""

LONGEST_WAIT = 60.0
"""Seconds between two tries at most, whatever the server asks for."""

LARGEST = 32 << 20
"""Bytes of a reply's body."""

_PASSING = (408, 425, 429)
"""Statuses below 500 of a server that may answer later."""

PATIENCE = 300.0
"""Seconds for a reply: a thinking model sends nothing for minutes, and another try costs again."""

LOCAL = re.compile(
    r"https?://([^/@]*@)?(([\w-]+\.)*localhost|127(\.\d+){3}|0\.0\.0\.0|\[::1?\])([:/]|$)",
    re.IGNORECASE,
)
"""The beginning of an address of this machine, which no proxy could reach."""

_FULL = ("length", "model_context_window_exceeded")
"""The values of finish_reason for a reply that reached `max_tokens` or filled the context."""

_ENDS = {
    "malformed_call": re.compile(r"malformed", re.IGNORECASE),
    "content_filter": re.compile(
        r"filter|safety|prohibited|blocklist|recitation|guardrail|toxic|sensitive|spii",
        re.IGNORECASE,
    ),
    "refusal": re.compile(r"refus", re.IGNORECASE),
    "length": re.compile(r"length|max_?(?:\w+_)?tokens|limit", re.IGNORECASE),
    "error": re.compile(r"error|abort|cancel|resource|^(?:un)?load$", re.IGNORECASE),
    "stop": re.compile(r"^(?:stop|eos|end_?turn|complete$)", re.IGNORECASE),
}
"""Other servers' words for how a reply ended, by OpenAI's; "error" is a fault of the server."""

_ODD_LOGPROBS = (
    "a server returned log-probabilities that are not finite numbers (null, NaN, infinite): these "
    "turns keep their ids without log-probabilities; `stats()` of a pool counts them"
)

NO_KEY = "none-needed"
"""The key for servers that need none; the SDK requires one."""

_MOST_TOKENS = 2**53
"""No server counts more, and any program can store and multiply this number."""


class _Broken(Exception):
    """A failure that another try may avoid; `wait` is the pause that the server asked for, in
    seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class _Unreadable(_Broken, Unreadable):
    """A body with status 200 that has neither an answer nor an error in it."""


@dataclass(eq=False, slots=True)
class Forwarded:
    """A server's answer to a program's request: its status, type and body, whole or, if
    `is_stream`, piece by piece."""

    status: int
    kind: str
    is_stream: bool
    pieces: Iterable[bytes]


@dataclass(eq=False, slots=True)
class Pending:
    """A question without a reply yet: when it was asked (`time.monotonic()`), its failed tries, and
    why the last one failed."""

    since: float
    failed: int = 0
    why: str = ""


@dataclass(eq=False, repr=False)
class OpenAIModel:
    """A chat model on an OpenAI-compatible server. Threads may share it.

    Two attributes may be set before the first question: `give_up` is called between two tries and
    returns a reason not to try again, or None; `metered` makes a reply without token counts a
    `UsageError`, since limits depend on the counts.

    `base_url` falls back to INTERCODE_BASE_URL, then OPENAI_BASE_URL, then OpenAI's own; `api_key`
    to OPENAI_API_KEY (local servers need none). `temperature`, `max_tokens` (of one reply) and
    `seed` are left out of the request when None. `timeout` limits each try, in seconds (None:
    `PATIENCE`), also if the server sends its reply byte by byte; the n-th wait before another try
    is about `backoff` × 2ⁿ seconds, or the number in Retry-After, and never more than a minute.
    `price` is in US dollars per million tokens, in and out; without it (None) the cost is 0.0.
    `logprobs` asks for the log-probabilities and ids of the reply's tokens, stored in
    `Reply.sample` if the server returns them; None: only if INTERCODE_LOGPROBS is 1. `token_ids`
    are an extension of vLLM's.

    `request` adds parameters to the request's body, and removes those whose value is None.
    `context` is the most tokens of a question; they are estimated from the counts of earlier
    replies, or as three characters each, and a longer question is a `ContextOverflow`. `no_system`
    sends the system's text at the start of the first message of the user, and `keep_reasoning`
    sends the model's reasoning back with its replies.
    """

    model: str
    _: KW_ONLY
    base_url: str | None = None
    api_key: str | None = None
    temperature: float | None = 0.0
    max_tokens: int | None = None
    seed: int | None = None
    tries: int = 6
    timeout: float | None = None
    backoff: float = 0.5
    price: Price | None = None
    logprobs: bool | None = None
    request: Mapping[str, Any] | None = None
    context: int | None = None
    no_system: bool = False
    keep_reasoning: bool = False

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise UsageError(f"tries must be at least 1, not {self.tries}")
        self.name = self.model
        self._patience = self.timeout or PATIENCE
        self.give_up: Callable[[], str | None] = lambda: None
        self.metered = False
        self._pending: list[Pending] = []
        self._lock = threading.Lock()
        self._sampling = dict[str, Any]()
        if self.logprobs or (self.logprobs is None and os.environ.get("INTERCODE_LOGPROBS") == "1"):
            self._sampling = {"logprobs": True, "return_token_ids": True}
        self._added = self.request or {}
        if fixed := self._added.keys() & set(FIXED):
            raise UsageError(f"--request cannot set {', '.join(sorted(fixed))}")
        settings = {
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            **self._sampling,
            **self._added,
        }
        self._settings = {key: value for key, value in settings.items() if value is not None}
        self._characters_per_token = 3.0
        self._answered = False
        self._client = self._connect()
        # messages must not show a password
        public = self._client.base_url.copy_with(username=None, password=None, query=None)
        self.url = f"{str(public).rstrip('/')}/chat/completions"
        if not self.url.startswith(("http://", "https://")):
            raise UsageError(
                f"{self.url}: the base URL (INTERCODE_BASE_URL) must start with http:// or https://"
            )

    def _connect(self) -> Any:
        """Return the client of the SDK for the server. Raises `UsageError` for a missing or wrong
        address or key."""
        import openai

        address = (
            self.base_url
            or os.environ.get("INTERCODE_BASE_URL")
            or os.environ.get("OPENAI_BASE_URL")
            or None
        )
        key = self.api_key or os.environ.get("OPENAI_API_KEY", "").strip() or NO_KEY
        if not address and key == NO_KEY:
            raise UsageError(
                "no model server is named: set INTERCODE_BASE_URL to one that speaks the OpenAI "
                "chat protocol, or OPENAI_API_KEY for OpenAI's own"
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(
                "OPENAI_API_KEY contains characters that a key cannot have, "
                "such as an umlaut or a newline"
            )
        http = _http_client(
            address or "",
            event_hooks={"request": [self._set_deadline], "response": [_read_body]},
            follow_redirects=False,
        )
        try:
            return openai.OpenAI(
                base_url=address,
                api_key=key,
                timeout=self._patience,
                max_retries=0,
                http_client=http,
            )
        except Exception as error:  # from the HTTP library, which differs between SDKs
            raise UsageError(
                f"{address}: cannot be the base URL (INTERCODE_BASE_URL): {error}"
            ) from error

    def __reduce__(self) -> Any:
        """A copy has connections of its own, and where nothing was given the settings of its
        process."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(type(self), **settings), ()

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        """Return the server's reply; `draw` is added to the seed.

        Raises `ModelError` if the server refuses or every try fails, `ContextOverflow` if the
        messages are too long.
        """
        body: dict[str, Any] = {**self._settings, "messages": self._sendable(messages)}
        if tools:
            body["tools"] = list(tools)
        if draw and "seed" in body:
            body["seed"] += draw
        length = len(json.dumps(body["messages"], ensure_ascii=False))
        if self.context and length / self._characters_per_token > self.context:
            raise ContextOverflow(f"the question is longer than {self.context} tokens (--context)")
        with self._asking() as question:
            for attempt in range(self.tries):
                try:
                    reply = self._read_reply(self._post(body))
                    if reply.usage.prompt_tokens:
                        self._characters_per_token = length / reply.usage.prompt_tokens
                    return reply
                except _Caused as caused:
                    return caused.reply
                except _Broken as broken:
                    last = broken
                    question.failed = attempt + 1
                    question.why = str(broken).partition(", ")[0]  # without the body
                if why := self.give_up():
                    raise ModelError(f"{self.url}: {last}; not tried again, since {why}")
                if attempt < self.tries - 1:
                    self._pause(attempt, last.wait)
        raise ModelError(
            f"{self.url}: {last} (tried {self.tries} times); is the server up and not overloaded?"
        )

    def _sendable(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation without what servers refuse."""
        sent = [sendable(message, keep_reasoning=self.keep_reasoning) for message in messages]
        if self.no_system and [message["role"] for message in sent[:2]] == ["system", "user"]:
            text = f"{sent[0]['content']}\n\n{sent[1]['content']}"
            sent[:2] = [{**sent[1], "content": text}]
        return sent

    def pending(self) -> list[Pending]:
        """Return the questions that threads wait for now, the oldest first."""
        with self._lock:
            return list(self._pending)

    @contextmanager
    def _asking(self) -> Iterator[Pending]:
        """List a question as pending within the block."""
        question = Pending(time.monotonic())
        with self._lock:
            self._pending.append(question)
        try:
            yield question
        finally:
            with self._lock:
                self._pending.remove(question)

    @contextmanager
    def forward(
        self, form: str, request: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[Forwarded]:
        """Send a program's request, in one of the forms of `forms.py`, with this model's name and
        key; give the answer. Tries again as `complete` does where the server may answer later, and
        where a whole answer says that it failed. Raises `ModelError` if there is no answer."""
        sent = {**request, **self._added, "model": self.name}
        sent |= dict.fromkeys(sent.keys() & {"n", "best_of"}, 1)
        if form == "chat/completions":
            sent |= self._sampling
            if sent.get("stream"):
                options = sent.get("stream_options")
                if not isinstance(options, Mapping):
                    options = {}
                sent["stream_options"] = {**options, "include_usage": True}
        key = self._client.api_key
        headers = {**headers, "authorization": f"Bearer {key}", "x-api-key": key}
        address = f"{str(self._client.base_url).rstrip('/')}/{form}"
        with ExitStack() as opened:
            client = opened.enter_context(_http_client(self.url, timeout=self._patience))
            for attempt in range(self.tries):
                is_last, wait = attempt == self.tries - 1 or self.give_up(), None
                try:
                    response = opened.enter_context(
                        client.stream("POST", address, json=sent, headers=headers)
                    )
                    answer = self._forwarded(response, bool(sent.get("stream")))
                    if is_last or not _is_broken(form, answer):
                        break
                    wait = _seconds_until(response.headers.get("retry-after", ""))
                except Exception as error:  # from the HTTP library, which differs between SDKs
                    if is_last:
                        raise self._lost(error) from error
                self._pause(attempt, wait)
            yield answer

    def _pause(self, attempt: int, wait: float | None) -> None:
        """Sleep before another try, as long as the server asked for."""
        if wait is None:  # so that threads do not retry in step
            wait = self.backoff * 2**attempt * random.uniform(0.75, 1.25)
        time.sleep(min(wait, LONGEST_WAIT))

    def _forwarded(self, response: Any, streams: bool) -> Forwarded:
        """Return a response, with little more than `LARGEST` bytes if it is whole, and without the
        key if it is a refusal."""
        kind = response.headers.get("content-type", "").encode("ascii", "replace").decode()
        if streams and response.is_success and "json" not in kind:
            return Forwarded(200, kind, True, self._pieces(response))
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > LARGEST:
                break
        if response.is_success:
            return Forwarded(200, kind, False, [bytes(body)])
        text = self.without_key(body.decode("utf-8", "replace"))
        return Forwarded(response.status_code, kind, False, [text.encode()])

    def _pieces(self, response: Any) -> Iterator[bytes]:
        try:
            yield from response.iter_bytes()
        except Exception as error:  # from the HTTP library
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> ModelError:
        return ModelError(f"{self.url}: {type(error).__name__}: {error}")

    def without_key(self, text: str) -> str:
        """Return a server's text without the key, which some servers repeat."""
        key = self._client.api_key
        return text if key == NO_KEY else text.replace(key, "[the key]")

    def read_answer(self, answer: Mapping[str, Any]) -> Reply:
        """Return the reply in a whole answer of the chat protocol, with its cost. Raises
        `ModelError` if the server says that it failed, and `Unreadable` if there is no reply in
        it."""
        try:
            return self._read_reply(json.dumps(answer))
        except _Caused as caused:
            return caused.reply
        except ContextOverflow:
            return Reply("", Usage(uncounted=1), finish_reason="length")
        except Unreadable:
            raise
        except _Broken as error:
            raise ModelError(f"{self.url}: {error}") from error

    def close(self) -> None:
        """Close the connections. May be called twice; the end of the process does the same."""
        self._client.close()

    def _set_deadline(self, request: Any) -> None:
        """Note in the request when its reply must be complete, for `_read_body`."""
        request.extensions["deadline"] = time.monotonic() + self._patience

    def _post(self, body: Mapping[str, Any]) -> str:
        import openai

        try:
            text: str = self._client.post("/chat/completions", cast_to=str, body=body)
            self._answered = True
            return text
        except openai.APIStatusError as error:
            self._answered = True
            if to := error.response.headers.get("location"):
                advice = "name that address, if you trust it"
                raise ModelError(f"{self.url}: redirects to {to:.200}; {advice}") from error
            wait = _seconds_until(error.response.headers.get("retry-after", ""))
            text = self.without_key(error.response.text)
            raise self._refusal(error.status_code, text, body, wait) from error
        except (openai.APIConnectionError, _TooLarge, TimeoutError) as error:
            # SDKs before version 3 raise the former from an error in `_read_body`
            cause = error.__cause__ or error
            if isinstance(cause, _TooLarge):
                raise ModelError(f"{self.url}: {cause}") from error
            if isinstance(error, openai.APITimeoutError) or isinstance(cause, TimeoutError):
                raise _Broken(f"no answer within {self._patience} s") from error
            raise self._failure(cause) from error
        except Exception as error:  # from the HTTP library, for an answer that it cannot decode
            raise _Broken(
                f"an answer that cannot be read ({type(error).__name__}: {error})"
            ) from error

    def _failure(self, cause: BaseException) -> Exception:
        """Return the exception for a connection that failed."""
        root: Any = cause
        while root and not isinstance(root, ssl.SSLError | socket.gaierror):
            root = root.__cause__ or root.__context__
        why, advice = f"the connection failed ({cause}){_proxies()}", "check INTERCODE_BASE_URL"
        if isinstance(root, ssl.SSLCertVerificationError):
            advice = (
                "certificates are read from SSL_CERT_FILE or SSL_CERT_DIR, if one is set, and not "
                "from REQUESTS_CA_BUNDLE: name a certificate of your own there"
            )
        elif isinstance(root, ssl.SSLEOFError) or self._answered:
            return _Broken(why)
        if root is None or root.errno == socket.EAI_AGAIN:
            return _Broken(why)
        return ModelError(f"{self.url}: {why}; {advice}")

    def _refusal(
        self, status: int, text: str, body: Mapping[str, Any], wait: float | None = None
    ) -> Exception:
        """Return the exception for a request that the server refused; `wait` is the pause in
        seconds that it asked for."""
        refusal = Refusal(status, text, body, wait, no_system=self.no_system)
        words = f"HTTP {status}{' without an answer in it' * (status == 200)}, {_excerpt(text)}"
        match refusal.kind:
            case "unread":
                return _Caused("malformed_call", _failed_generation(text))
            case "filtered":
                return _Caused("content_filter")
            case "overflow":
                return ContextOverflow(f"{self.url}: {words}")
            case "passing":
                return _Broken(words, wait)
        advice = refusal.advice()
        if status in (403, 407):
            advice += _proxies()
        return ModelError(f"{self.url}: {words}; {advice}")

    def _read_reply(self, body: str) -> Reply:
        try:
            answer = json.loads(body.removeprefix("\ufeff"))  # a byte order mark
            choice = (answer.get("choices") or [{"error": answer.get("error")}])[0]
            finish_reason = _end(choice.get("finish_reason"))
            if "error" in (*choice, finish_reason):
                raise self._refusal(_status(choice.get("error")), body, {})
            message = _message(choice, finish_reason)
            calls = tuple(map(_call, _call_records(message)))
            text, reasoning = _contents(message)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise _Unreadable(f"HTTP 200 without an answer in it, {_excerpt(body)}") from error
        counts = answer.get("usage")
        if not isinstance(counts, dict):
            counts = {}
        read, written = _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
        is_uncounted = read is None or written is None
        tokens_in, tokens_out = read or 0, written or 0
        # a question without any token does not exist
        if self.metered and (is_uncounted or not (tokens_in or tokens_out)):
            raise UsageError(
                f"{self.url}: a reply does not report its tokens, so limits of tokens or cost "
                "cannot be enforced: leave them out, or make the server send `usage`"
            )
        is_empty = not (text or calls or reasoning)
        if is_empty and finish_reason in _FULL and counts and tokens_out <= 1:
            raise ContextOverflow(
                f"{self.url}: no room was left for a reply (finish_reason {finish_reason})"
            )
        if isinstance(refusal := message.get("refusal"), str) and refusal and not calls:
            text, finish_reason = text or refusal, "refusal"
        price_in, price_out = self.price or (0.0, 0.0)
        cost = (tokens_in * price_in + tokens_out * price_out) / 1e6
        thought = _count(counts.get("completion_tokens_details"), "reasoning_tokens")
        return Reply(
            _storable(text),
            Usage(tokens_in, tokens_out, cost, thought or 0, int(is_uncounted)),
            calls,
            sample=_read_sample(answer, choice) if self._sampling else None,
            reasoning=reasoning,
            finish_reason=finish_reason,
        )


def _http_client(address: str, **options: Any) -> Any:
    """Return an HTTP client with this machine's settings; for this machine itself without proxies.
    Raises `UsageError` for a setting that cannot be used."""
    import openai

    file, folder = (os.environ.get(name) or None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    try:
        if file or folder:
            options["verify"] = ssl.create_default_context(cafile=file, capath=folder)
        return openai.DefaultHttpxClient(trust_env=not LOCAL.match(address), **options)
    except Exception as error:  # from the HTTP library; an OSError is about the file
        what = f"SSL_CERT_FILE={file}" if isinstance(error, OSError) else "a proxy or NO_PROXY"
        raise UsageError(f"{what} cannot be used{_proxies()}: {error}") from error


def is_reply(form: str, answer: Forwarded) -> bool:
    """Return whether an answer is a reply, or in a form that a program may know; read it to its
    end."""
    if answer.status != 200:
        return False
    try:
        answer_of(form, b"".join(answer.pieces).decode("utf-8", "replace"))
    except ModelError:
        return False
    except Unreadable:
        return True
    return True


def _is_broken(form: str, answer: Forwarded) -> bool:
    """Return whether another try may give a better answer."""
    if answer.status == 200:
        return not (answer.is_stream or is_reply(form, answer))
    return answer.status in _PASSING or answer.status >= 500


def _proxies() -> str:
    """Return words about the variables that name proxies, which follow a failure."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    named = ", ".join(name for name, to in os.environ.items() if to and name.lower() in names)
    return f" (proxies: {named}; none for this machine)" if named else ""


class _TooLarge(Exception):
    pass


class _Caused(Exception):
    """A reply is missing because of what the model wrote: a filter stopped it, or the server could
    not parse it."""

    def __init__(self, finish_reason: str, text: str = "") -> None:
        self.reply = Reply(text, finish_reason=finish_reason)


def _status(error: Any) -> int:
    """Return the HTTP status in an error that came with status 200, or 200 if it has none."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch(r"[45]\d\d", code) else 200


def _end(reason: Any) -> str | None:
    """Return how a reply ended, in OpenAI's words."""
    if not isinstance(reason, str):
        return None
    if reason not in INCOMPLETE:
        for word, pattern in _ENDS.items():
            if pattern.search(reason):
                return word
    return reason


def _failed_generation(text: str) -> str:
    """Return what the model wrote, if the server that could not parse it says so."""
    with suppress(ValueError, LookupError, TypeError):
        return _storable(str(json.loads(text)["error"]["failed_generation"]))
    return ""


def _call_records(message: Mapping[str, Any]) -> Sequence[Any]:
    """Return the calls in a message: in its list, alone as OpenAI once sent them, or as parts."""
    if calls := message.get("tool_calls") or message.get("function_call"):
        return calls if isinstance(calls, list) else [calls]
    parts = message.get("content")
    if not isinstance(parts, list):
        return []
    return [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_use"]


def _seconds_until(after: str) -> float | None:
    """Return the seconds that a header Retry-After asks to wait for: a number or a date."""
    with suppress(ValueError):
        return max(0.0, float(after))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    return None


def _message(choice: Mapping[str, Any], finish_reason: str | None) -> Mapping[str, Any]:
    """Return the message of a choice, which some servers call `delta` or send as `text`; an empty
    one if the reply ended before it began. Raises LookupError if there is neither."""
    named = [name for name in ("message", "delta", "text") if name in choice]
    if not named and not finish_reason:
        raise LookupError("message")
    value = next(filter(None, map(choice.get, named)), None) or {}
    return {"content": value} if isinstance(value, str) else value


_PART = ("text", "thinking", "summary", "refusal")
"""The fields of a part of a message that may have its text; parts of other kinds have none."""


def _contents(message: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of a message and the fields of its reasoning. Raises TypeError for content
    that is neither text nor parts."""
    reasoning = {key: message[key] for key in REASONING if message.get(key)}
    content = message.get("content") or ""
    if isinstance(content, list | dict):
        parts, content, thoughts = content, "", ""
        for part in parts if isinstance(parts, list) else [parts]:
            text = text_of(part, _PART)
            if isinstance(part, dict) and (
                part.get("thought") is True
                or re.search(r"think|thought|reason", str(part.get("type")))
            ):
                thoughts += text
            else:
                content += text
        if thoughts and not reasoning:
            reasoning = {"reasoning_content": thoughts}
    if not isinstance(content, str):
        raise TypeError("the content is not text")
    return content, json.loads(_storable(json.dumps(reasoning, ensure_ascii=False)))


def _read_body(response: Any) -> None:
    """Read the body. Raise `_TooLarge` after more than `LARGEST` bytes, and `TimeoutError` after
    the request's deadline.

    The time-out of an HTTP client limits only each wait for data; a server that sends a space now
    and then never exceeds it.
    """
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > LARGEST:
            raise _TooLarge(
                f"a reply has more than {LARGEST >> 20} MiB; "
                "is this a server of the OpenAI chat protocol?"
            )
        if time.monotonic() > response.request.extensions["deadline"]:
            raise TimeoutError
    response._content = bytes(body)


def price_table() -> Path:
    """Return the path of the user's table of prices."""
    return config_folder() / "prices.toml"


def listed_price(model: str) -> Price | None:
    """Return the price of `model` in the table, if any. Raises `UsageError` for a table that cannot
    be read."""
    path = price_table()
    if not path.exists():
        return None
    try:
        entry = tomllib.loads(path.read_text(encoding="utf-8")).get(model)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}; repair the table of prices") from error
    match entry:
        case None:
            return None
        case [
            int() | float() as tokens_in,
            int() | float() as tokens_out,
        ] if 0 <= tokens_in < 1e9 and 0 <= tokens_out < 1e9:
            return float(tokens_in), float(tokens_out)
    raise UsageError(
        f'{path}: {model} must be two numbers of 0 or more, such as "{model}" = [0.15, 0.60]'
    )


def _count(counts: Any, name: str) -> int | None:
    """Return a number of tokens among the counts of a server; None if there is no such number."""
    value = counts.get(name) if isinstance(counts, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value <= _MOST_TOKENS and value == int(value) else None


def _read_sample(answer: Mapping[str, Any], choice: Mapping[str, Any]) -> Sample | None:
    """Return the tokens of a choice; None if the server returned neither tokens nor a reason for
    the end, or anything else. If one log-probability is not a number, none is kept.

    vLLM puts the ids of the prompt next to the choices, SGLang into the choice.
    """
    try:
        token_ids = tuple(choice.get("token_ids") or ())
        prompt_ids = tuple(answer.get("prompt_token_ids") or choice.get("prompt_token_ids") or ())
        tokens = (choice.get("logprobs") or {}).get("content") or ()
        logprobs = tuple(token["logprob"] for token in tokens)
        reason = _end(choice.get("finish_reason"))
    except (AttributeError, KeyError, TypeError):
        return None
    if not all(isinstance(id, int) and is_number(id) for id in (*token_ids, *prompt_ids)):
        return None
    if not all(map(is_number, logprobs)):
        warnings.warn(_ODD_LOGPROBS, stacklevel=2)
        logprobs = ()
    if not (token_ids or logprobs or reason):
        return None
    return Sample(token_ids, logprobs, reason, prompt_ids=prompt_ids)


def _call(record: Any) -> ToolCall:
    call = chat_call(record)
    function = call["function"]
    texts = (call["id"], function["name"], function["arguments"])
    return ToolCall(*map(_storable, texts))


def _storable(text: str) -> str:
    """Replace halves of surrogate pairs, which UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def _excerpt(body: str) -> str:
    return f"body {body[:300]!r}" if body else "an empty body"
