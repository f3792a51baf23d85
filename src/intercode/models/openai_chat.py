"""A model behind any server that speaks the OpenAI chat protocol: hosted ones, vLLM, Ollama, llama.cpp.

    complete ─► _post ─► body ─► _read_reply ─► Reply
        ▲          │ too long: ContextOverflow at once  (a status, and in words that `context.py` knows)
        │          │ too large: ModelError at once      (more than `LARGEST` bytes, counted as they arrive)
        │          │ refused: ModelError at once        (400, 401, 403, 404, …: asking again cannot help)
        └── wait ◄─┴ _Broken: ask again, `tries` times  (429, 5xx, no connection, time-out, half or wrong body)

The SDK's own retries are off: they know nothing of a good status with a broken body. Requests go through the SDK's
`post` with plain text back, since its parsed objects hide what a bad server really sent.
Left out: streaming, several choices.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from intercode.errors import ContextOverflow, ModelError, UsageError
from intercode.models.base import as_text
from intercode.models.context import is_overflow
from intercode.models.prices import Price
from intercode.models.waiting import Loop
from intercode.types import Message, Reply, Tool, ToolCall, Usage

LONGEST_WAIT = 60.0
"""Seconds: no server can make us wait longer between two tries."""

_ADVICE = {
    400: "the server refuses the request: are the messages too long, or does this model take no other temperature than 1, "
    "or no max_tokens (--reply-tokens)?",
    401: "the key is missing or wrong: set OPENAI_API_KEY",
    403: "this key may not use this model: check OPENAI_API_KEY and the model's name",
    404: "no such model or address: check the model's name and INTERCODE_BASE_URL, which usually ends in /v1",
}


LARGEST = 32 << 20
"""Bytes of a reply's body."""

PATIENCE = 300.0
"""Seconds: a model that thinks sends nothing for minutes, and one that is asked anew is paid anew."""

_FULL = ("length", "model_context_window_exceeded")
"""Reasons for the end of a reply: as many tokens as were allowed, or as there was room for."""

_UNMETERED = "so that no limit of tokens or cost can hold: leave those out, or have the server tell `usage`"

_NO_KEY = "none-needed"
"""What the SDK is given for servers that want none."""

_MOST_TOKENS = 2**53
"""No server counts as far; as many can be stored and multiplied everywhere."""


class _Broken(Exception):
    """An answer that another try may mend; `wait` is what the server asked for, in seconds."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


class OpenAIModel:
    """One chat model. Safe to share between threads: nothing changes after construction.

    Two things may be set: `give_up` is asked between two tries, for words that say why there must be no more of them; `metered`
    says that a limit counts on the tokens of each reply, so that one which does not tell them is a `UsageError`.

    `base_url` falls back to INTERCODE_BASE_URL, then OPENAI_BASE_URL, then OpenAI's own; `api_key` to OPENAI_API_KEY
    (local servers need none). `temperature`, `max_tokens` (of one reply) and `seed` are left out of the request when None.
    `timeout` bounds each try as a whole, in seconds (None: `PATIENCE`); the n-th wait before another try is
    about `backoff` × 2ⁿ seconds, or what Retry-After says, and never more than a minute.
    `price` is in US dollars per million tokens, in and out; the cost of an unknown one (None) is 0.0.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        tries: int = 6,
        timeout: float | None = None,
        backoff: float = 0.5,
        price: Price | None = None,
    ) -> None:
        import openai

        if tries < 1:
            raise UsageError(f"tries must be at least 1, not {tries}")
        self.name = model
        self.tries = tries
        self.backoff = backoff
        self.price = price
        self._patience = timeout or PATIENCE
        self.give_up: Callable[[], str | None] = lambda: None
        self.metered = False
        settings = {"model": model, "temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        self._settings = {key: value for key, value in settings.items() if value is not None}
        address = base_url or os.environ.get("INTERCODE_BASE_URL") or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY", "").strip() or _NO_KEY
        if not address and key == _NO_KEY:
            raise UsageError(
                "no model server is named: set INTERCODE_BASE_URL to one that speaks the OpenAI chat protocol, "
                "or OPENAI_API_KEY for OpenAI's own"
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError("the key (OPENAI_API_KEY) holds what no key can, such as an umlaut or the end of a line")
        try:
            http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [_read_body]})
            self._client = openai.AsyncOpenAI(
                base_url=address, api_key=key, timeout=self._patience, max_retries=0, http_client=http
            )
        except Exception as error:  # of the HTTP library, which is another one from version to version of the SDK
            raise UsageError(f"{address}: cannot be the base URL (INTERCODE_BASE_URL): {error}") from error
        whole = self._client.base_url.copy_with(username=None, password=None, query=None)  # messages must not tell a password
        self.url = f"{str(whole).rstrip('/')}/chat/completions"
        if not self.url.startswith(("http://", "https://")):
            raise UsageError(f"{self.url}: the base URL (INTERCODE_BASE_URL) must start with http:// or https://")
        self._loop = Loop()

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply:
        """The server's answer; `draw` is added to the seed.

        Raises `ModelError` if it refuses or is still broken after `tries`, `ContextOverflow` if there is no room.
        """
        body: dict[str, Any] = {**self._settings, "messages": list(messages)}
        body |= {"tools": list(tools)} if tools else {}
        body |= {"seed": body["seed"] + draw} if draw and "seed" in body else {}
        for attempt in range(self.tries):
            try:
                return self._read_reply(self._post(body))
            except _Broken as broken:
                last = broken
            if why := self.give_up():
                raise ModelError(f"{self.url}: {last}; not tried again, since {why}")
            if attempt < self.tries - 1:
                wait = self.backoff * 2**attempt * random.uniform(0.75, 1.25)  # so that threads do not return in step
                time.sleep(min(wait if last.wait is None else last.wait, LONGEST_WAIT))
        raise ModelError(f"{self.url}: {last} (tried {self.tries} times); is the server up and not overloaded?")

    def close(self) -> None:
        """Closes idle connections. Optional: they also end with the process."""
        self._loop.within(self._patience, self._client.close())
        self._loop.close()

    def _post(self, body: Mapping[str, Any]) -> str:
        import openai

        try:
            return self._loop.within(self._patience, self._client.post("/chat/completions", cast_to=str, body=body))
        except openai.APIStatusError as error:
            what = f"HTTP {error.status_code}, {_excerpt(error.response.text)}"
            if is_overflow(error.response.text):
                raise ContextOverflow(f"{self.url}: {what}") from error
            if error.status_code in (408, 409, 429) or error.status_code >= 500:
                raise _Broken(what, _retry_after(error.response.headers.get("retry-after"))) from error
            raise ModelError(f"{self.url}: {what}; {_ADVICE.get(error.status_code, _ADVICE[400])}") from error
        except (openai.APITimeoutError, TimeoutError) as error:
            raise _Broken(f"no answer within {self._patience} s") from error
        except (openai.APIConnectionError, _TooLarge) as error:
            cause = error.__cause__ or error  # SDKs before version 3 raise the former from the latter
            if isinstance(cause, _TooLarge):
                raise ModelError(f"{self.url}: {cause}") from error
            raise _Broken(f"the connection failed ({cause})") from error
        except Exception as error:  # of the HTTP library, at an answer that it cannot decode
            raise _Broken(f"an answer that cannot be read ({type(error).__name__}: {error})") from error

    def _read_reply(self, body: str) -> Reply:
        try:
            answer = json.loads(body)
            choice = answer["choices"][0]
            message = choice["message"]
            calls = tuple(map(_call, message.get("tool_calls") or ()))
            text = message.get("content") or "" if calls else message["content"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise _Broken(f"HTTP 200 without an answer in it, {_excerpt(body)}") from error
        counts = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
        told = [_count(counts.get(key)) for key in ("prompt_tokens", "completion_tokens")]
        if self.metered and (None in told or not any(told)):  # a question without any token does not exist
            raise UsageError(f"{self.url}: a reply does not say how many tokens it took, {_UNMETERED}")
        if not text and not calls and choice.get("finish_reason") in _FULL:
            if counts and (told[1] or 0) <= 1:
                raise ContextOverflow(f"{self.url}: no room was left for a reply (finish_reason {choice['finish_reason']})")
            text = ""  # it thought until it was cut off
        if not isinstance(text, str):
            raise _Broken(f"HTTP 200 with no text as the answer, {_excerpt(body)}")
        tokens_in, tokens_out = (count or 0 for count in told)
        price_in, price_out = self.price or (0.0, 0.0)
        usage = Usage(tokens_in, tokens_out, (tokens_in * price_in + tokens_out * price_out) / 1e6)
        return Reply(_storable(text), usage, calls)


class _TooLarge(Exception):
    pass


async def _read_body(response: Any) -> None:
    """Read the body as the HTTP library would, but raise `_TooLarge` once it has more than `LARGEST` bytes."""
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            body += part
            if len(body) > LARGEST:
                raise _TooLarge(f"a reply has more than {LARGEST >> 20} MiB; is this a server of the OpenAI chat protocol?")
    response._content = bytes(body)


def _count(said: Any) -> int | None:
    """None for what cannot be a number of tokens."""
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return int(said) if is_number and 0 <= said <= _MOST_TOKENS and said == int(said) else None


def _call(record: Any) -> ToolCall:
    function = record["function"]
    name, arguments = function["name"], as_text(function.get("arguments", ""))
    return ToolCall(_storable(str(record.get("id") or "")), _storable(str(name)), _storable(arguments))


def _storable(text: str) -> str:
    """Half a surrogate pair could not be stored."""
    return text.encode(errors="replace").decode()


def _retry_after(header: str | None) -> float | None:
    """Seconds from now that the header asks for; it holds either seconds or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _excerpt(body: str) -> str:
    return f"body {body[:300]!r}" if body else "an empty body"
