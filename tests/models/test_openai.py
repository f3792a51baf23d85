"""The OpenAI client against a real local server, which misbehaves in every way that we know of."""

from __future__ import annotations

import json
import math
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from loopback import Behaviour, Server, serving
from misbehaving import GOOD, Handler, answer, drip, half_a_body, hang, nothing, refuse

from intercode.errors import ContextOverflow, ModelError, UsageError
from intercode.models import OpenAIModel, openai_chat
from intercode.types import Message, Sample, ToolCall

pytestmark = pytest.mark.slow

MESSAGES: list[Message] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "list files"},
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    servers = ("INTERCODE_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY")
    for name in (*servers, *proxies):
        monkeypatch.delenv(name, raising=False)
    with serving(Server(Handler, answer(GOOD))) as running:
        yield running


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., OpenAIModel]]:
    models: list[OpenAIModel] = []

    def connect(name: str = "small", **options: Any) -> OpenAIModel:
        models.append(
            OpenAIModel(name, **{"base_url": f"{server.url}/v1", "backoff": 0.001, **options})
        )
        return models[-1]

    yield connect
    for model in models:
        model.close()


Connect = Callable[..., OpenAIModel]


def test_the_request_carries_messages_and_settings_and_the_answer_its_tokens(
    server: Server, connect: Connect
) -> None:
    reply = connect("m", temperature=0.5, max_tokens=7, seed=3, price=(3.0, 15.0)).complete(
        MESSAGES, draw=2
    )
    assert (reply.text, reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
        "ls",
        1000,
        10,
    )
    assert reply.usage.cost == pytest.approx((1000 * 3.0 + 10 * 15.0) / 1e6)
    (request,) = server.requests
    assert (request["path"], request["key"]) == ("/v1/chat/completions", "Bearer none-needed")
    assert request["body"] == {
        "model": "m",
        "temperature": 0.5,
        "max_tokens": 7,
        "seed": 5,
        "messages": MESSAGES,
    }
    assert (
        connect("m", temperature=None, max_tokens=None).complete(MESSAGES, draw=1).usage.cost == 0.0
    )
    assert server.requests[1]["body"] == {"model": "m", "messages": MESSAGES}


def test_tokens_come_back_as_a_sample_if_they_are_asked_for(
    server: Server, connect: Connect
) -> None:
    message = {"role": "assistant", "content": "ls"}
    tokens = {"content": [{"token": "l", "logprob": -0.5}, {"token": "s", "logprob": -0.25}]}
    choice = {"message": message, "finish_reason": "stop", "logprobs": tokens, "token_ids": [7, 8]}
    bare = {
        "message": message,
        "finish_reason": "stop",
        "logprobs": {"content": [{"logprob": "?"}]},
    }
    odd = [{"content": [{"logprob": -0.5}, {"logprob": value}]} for value in (None, -math.inf)]
    infinite = [{**choice, "logprobs": logprobs} for logprobs in odd]
    script = (choice, bare, *infinite, choice)
    server.script = [answer({"choices": [each]}) for each in script]
    model = connect(logprobs=True)
    assert model.complete(MESSAGES).sample == Sample((7, 8), (-0.5, -0.25), "stop")
    for ids in ((), (7, 8), (7, 8)):
        with pytest.warns(UserWarning, match="not finite numbers"):
            assert model.complete(MESSAGES).sample == Sample(ids, (), "stop")
    assert connect().complete(MESSAGES).sample is None
    assert [request["body"].get("logprobs") for request in server.requests] == [True] * 4 + [None]


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "ls", "finish_reason": "stop"},
        {"delta": {"role": "assistant", "content": "ls"}, "finish_reason": "stop"},
        {"message": None, "text": "ls", "finish_reason": "stop"},
    ],
)
def test_a_text_where_a_message_should_be_is_read(
    server: Server, connect: Connect, choice: dict[str, Any]
) -> None:
    server.script = [answer({"choices": [choice]})]
    assert connect().complete(MESSAGES).text == "ls"


TOOL = {
    "type": "function",
    "function": {"name": "execute", "parameters": {"type": "object", "properties": {}}},
}


def calling(*calls: object, content: object = None) -> Behaviour:
    return answer(
        {
            "choices": [
                {"message": {"role": "assistant", "content": content, "tool_calls": list(calls)}}
            ]
        }
    )


def test_tools_are_sent_and_calls_come_back_as_the_model_wrote_them(
    server: Server, connect: Connect
) -> None:
    server.script = [
        calling(
            {
                "id": "a",
                "type": "function",
                "function": {"name": "execute", "arguments": '{"code": '},
            },
            {"function": {"name": "submit", "arguments": {}}},
        )
    ]
    reply = connect().complete(MESSAGES, tools=[TOOL])
    assert (reply.text, reply.calls) == (
        "",
        (ToolCall("a", "execute", '{"code": '), ToolCall("", "submit", "{}")),
    )
    assert server.requests[0]["body"]["tools"] == [TOOL]


@pytest.mark.parametrize(
    "usage",
    [None, "many", {"prompt_tokens": None}, *({"prompt_tokens": n} for n in (10**400, -5, 2.5))],
)
def test_missing_or_odd_usage_counts_as_no_tokens(
    server: Server, connect: Connect, usage: Any
) -> None:
    server.script = [answer({**GOOD, "usage": usage})]
    reply = connect(price=(1.0, 1.0)).complete(MESSAGES)
    assert (
        reply.text,
        reply.usage.prompt_tokens,
        reply.usage.completion_tokens,
        reply.usage.cost,
    ) == ("ls", 0, 0, 0.0)


def test_the_address_and_key_come_from_the_environment(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("INTERCODE_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "key-1\n")
    connect(base_url=None).complete(MESSAGES)
    assert server.requests[0]["key"] == "Bearer key-1"


@pytest.mark.parametrize(
    ("address", "key", "told"),
    [
        (None, None, "no model server is named: set INTERCODE_BASE_URL"),
        ("localhost:8000/v1", None, "must start with http"),
        ("http://[::1", None, "cannot be the base URL"),
        (None, "two\nlines", "OPENAI_API_KEY"),
    ],
)
@pytest.mark.usefixtures("server")
def test_what_is_no_address_or_key_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, address: str | None, key: str | None, told: str
) -> None:
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match=told) as caught:
        OpenAIModel("m", base_url=address)
    assert str(key) not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "odd://127.0.0.1:1"),
        ("https_proxy", "://"),
        ("SSL_CERT_FILE", "/nonexistent/certificates"),
        ("SSL_CERT_FILE", __file__),
    ],
)
@pytest.mark.usefixtures("server")
def test_a_setting_of_the_machine_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=rf"{variable}.*cannot be used|cannot be used.*{variable}"):
        OpenAIModel("m", base_url="https://example.invalid/v1")


def test_proxies_are_for_other_machines_alone(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "[::1,a b,:/,*")
    for proxy in ("http://127.0.0.1:1", "odd://x"):
        monkeypatch.setenv("ALL_PROXY", proxy)
        for host in ("127.0.0.1", "localhost", "0.0.0.0"):
            address = f"http://{host}:{server.server_port}/v1"
            assert connect(base_url=address).complete(MESSAGES).text == "ls"
    monkeypatch.delenv("ALL_PROXY")
    monkeypatch.setenv("NO_PROXY", "other.invalid")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    model = connect(base_url="http://example.invalid/v1")
    assert model.complete(MESSAGES).text == "ls"
    server.script = [refuse(403)]
    with pytest.raises(ModelError, match=r"HTTP 403.*proxies: HTTP_PROXY"):
        model.complete(MESSAGES)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(ModelError, match=r"the connection failed.*proxies: HTTP_PROXY.*tried 2"):
        connect(base_url="http://example.invalid/v1", tries=2).complete(MESSAGES)


def test_a_certificate_that_is_not_trusted_is_told_at_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    key, certificate = str(tmp_path / "key"), str(tmp_path / "certificate")
    line = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -addext"
    words = [*line.split(), "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(Server(Handler, answer(GOOD))) as secure:
        address = f"https://localhost:{secure.server_port}/v1"
        with pytest.raises(ModelError, match="check INTERCODE_BASE_URL") as caught:
            connect(base_url=address).complete(MESSAGES)
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        with pytest.raises(ModelError, match=r"SSL_CERT_FILE.*REQUESTS_CA_BUNDLE") as untrusted:
            connect(base_url=address).complete(MESSAGES)
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert connect(base_url=address).complete(MESSAGES).text == "ls"
    assert "tried" not in f"{caught.value} {untrusted.value}"


def test_a_host_that_does_not_exist_is_told_at_once_until_it_has_answered(connect: Connect) -> None:
    with pytest.raises(socket.gaierror) as unknown:
        socket.getaddrinfo("example.invalid", 80)
    if unknown.value.errno == socket.EAI_AGAIN:
        pytest.skip("no name server says that a name does not exist")
    model = connect(base_url="http://example.invalid/v1", tries=2)
    with pytest.raises(ModelError, match="INTERCODE_BASE_URL") as caught:
        model.complete(MESSAGES)
    assert "tried" not in str(caught.value)
    model._answered = True
    with pytest.raises(ModelError, match="tried 2 times"):
        model.complete(MESSAGES)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", ""), (b"echo \\ud83d", "echo ?")],
    ids=["empty", "half a surrogate pair"],
)
def test_odd_texts_are_answers(server: Server, connect: Connect, content: bytes, text: str) -> None:
    server.script = [answer(b'{"choices": [{"message": {"content": "%s"}}]}' % content)]
    assert connect().complete(MESSAGES).text == text
    assert len(server.requests) == 1


MENDABLE: dict[str, Behaviour] = {
    "429": refuse(429),
    "500": refuse(500),
    "503 with a page": answer(b"<html>busy</html>", 503, Content_Type="text/html"),
    "half a body": half_a_body,
    "nothing": nothing,
    "an error with status 200": answer({"error": {"message": "overloaded"}}),
    "content that is a number": answer({"choices": [{"message": {"content": 5}}]}),
}


@pytest.mark.parametrize("fault", MENDABLE.values(), ids=MENDABLE.keys())
def test_a_passing_fault_is_mended_by_asking_again_and_a_lasting_one_is_told(
    server: Server, connect: Connect, fault: Behaviour
) -> None:
    server.script = [fault, fault, answer(GOOD)]
    assert connect().complete(MESSAGES).text == "ls"
    assert len(server.requests) == 3
    assert all(request["body"] == server.requests[0]["body"] for request in server.requests)
    server.script = [fault]
    with pytest.raises(
        ModelError, match=rf"{server.url}/v1/chat/completions: .*tried 2 times"
    ) as caught:
        connect(tries=2).complete(MESSAGES)
    assert len(server.requests) == 5
    assert len(str(caught.value)) < 600


def test_a_reply_of_more_than_32_mib_is_not_asked_for_again(
    server: Server, connect: Connect
) -> None:
    server.script = [answer(b" " * (openai_chat.LARGEST + (1 << 20)))]
    with pytest.raises(ModelError, match="more than 32 MiB"):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1


@pytest.mark.parametrize("slow", [hang, drip])
def test_a_reply_that_takes_too_long_is_asked_for_again_and_told(
    server: Server, connect: Connect, slow: Behaviour
) -> None:
    server.script = [slow, answer(GOOD), slow]
    started = time.monotonic()
    assert connect(timeout=0.2).complete(MESSAGES).text == "ls"
    assert 0.2 <= time.monotonic() - started < 20
    with pytest.raises(ModelError, match=r"no answer within 0\.1 s"):
        connect(timeout=0.1, tries=2).complete(MESSAGES)


def test_no_server_at_all_is_a_model_error(connect: Connect) -> None:
    with pytest.raises(ModelError, match=r"the connection failed .*is the server up"):
        connect(base_url="http://127.0.0.1:9/v1", tries=2).complete(MESSAGES)


def test_retry_after_is_waited_for_but_not_for_an_hour(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_chat, "LONGEST_WAIT", 0.4)
    waits = ("0.2", "3600", "soon", "-5", "nan")
    server.script = [*(answer({}, 429, Retry_After=wait) for wait in waits), answer(GOOD)]
    assert connect(tries=9).complete(MESSAGES).text == "ls"
    seconds = [
        after - before for before, after in pairwise(request["time"] for request in server.requests)
    ]
    for found, least in zip(seconds, (0.2, 0.4, 0, 0, 0), strict=True):
        assert least <= found < least + 0.2


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "--request"),
        (401, "OPENAI_API_KEY"),
        (403, "may not use"),
        (404, "INTERCODE_BASE_URL"),
        (422, "refuses"),
    ],
)
def test_a_refusal_is_told_at_once_with_what_to_do(
    server: Server, connect: Connect, status: int, advice: str
) -> None:
    server.script = [refuse(status, "because"), answer(GOOD)]
    with pytest.raises(ModelError, match=rf"HTTP {status}, body .*because.*{advice}") as caught:
        connect(api_key="sk-hidden").complete(MESSAGES)
    assert "sk-hidden" not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("API key not valid. Please pass a valid API key.", "OPENAI_API_KEY"),
        ("model not found", "INTERCODE_BASE_URL"),
        ("The model `gpt-9` does not exist", "INTERCODE_BASE_URL"),
    ],
)
def test_a_400_that_means_another_status_is_told_so(
    server: Server, connect: Connect, said: str, advice: str
) -> None:
    server.script = [refuse(400, said)]
    with pytest.raises(ModelError, match=advice) as caught:
        connect().complete(MESSAGES)
    assert "--context" not in str(caught.value)


def test_a_reply_may_begin_with_a_byte_order_mark(server: Server, connect: Connect) -> None:
    server.script = [answer(f"\ufeff{json.dumps(GOOD)}".encode())]
    assert connect().complete(MESSAGES).text == "ls"


def test_a_key_that_the_server_repeats_is_not_told(server: Server, connect: Connect) -> None:
    server.script = [refuse(401, "Incorrect API key provided: Bearer sk-hidden.")]
    with pytest.raises(ModelError, match=r"Bearer \[the key\]") as caught:
        connect(api_key="sk-hidden").complete(MESSAGES)
    assert "sk-hidden" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_named_and_not_followed(
    server: Server, connect: Connect, status: int
) -> None:
    def redirect(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Location", f"{server.url}/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.script = [redirect, answer(GOOD)]
    with pytest.raises(ModelError, match=r"redirects to http.*/elsewhere; name that address"):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1


OVERFLOWS = {
    "OpenAI": (
        400,
        (
            "This model's maximum context length is 8192 tokens. "
            "However, your messages resulted in 9000 tokens."
        ),
    ),
    "vLLM": (
        400,
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    ),
    "llama.cpp": (
        400,
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
    ),
    "Ollama": (400, "the input length exceeds the context length"),
    "TGI": (422, "Input validation error: `inputs` must have less than 8192 tokens. Given: 9000"),
    "Anthropic": (400, "prompt is too long: 9000 tokens > 8192 maximum"),
    "Gemini": (
        400,
        "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
    ),
    "Mistral": (
        400,
        "Prompt contains 9000 tokens, too large for model with 8192 maximum context length",
    ),
}


@pytest.mark.parametrize(("status", "words"), OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_a_conversation_that_is_too_long_is_told_at_once(
    server: Server, connect: Connect, status: int, words: str
) -> None:
    server.script = [refuse(status, words), answer(GOOD)]
    with pytest.raises(ContextOverflow, match=f"HTTP {status}"):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1


def test_a_model_that_thinks_until_it_is_cut_off_said_nothing_and_is_not_asked_again(
    server: Server, connect: Connect
) -> None:
    choice = {"finish_reason": "length", "message": {"role": "assistant", "content": None}}
    server.script = [
        answer({"choices": [choice], "usage": {"prompt_tokens": 90, "completion_tokens": 77}})
    ]
    reply = connect(max_tokens=77).complete(MESSAGES)
    assert (reply.text, reply.usage.completion_tokens, len(server.requests)) == ("", 77, 1)
