"""The OpenAI client against a real local server, which misbehaves in every way that we know of."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from families import wait_until
from misbehaving import GOOD, Behaviour, Handler, Server, answer, drip, flood, half_a_body, hang, nothing, refuse

from intercode.errors import ContextOverflow, ModelError, UsageError
from intercode.models import OpenAIModel, openai_chat
from intercode.types import Message, ToolCall

MESSAGES: list[Message] = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "list files"}]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("INTERCODE_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.stopping.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., OpenAIModel]]:
    models: list[OpenAIModel] = []

    def connect(name: str = "small", **options: Any) -> OpenAIModel:
        models.append(OpenAIModel(name, **{"base_url": server.base_url, "backoff": 0.001, **options}))
        return models[-1]

    yield connect
    for model in models:
        model.close()


Connect = Callable[..., OpenAIModel]


def test_an_answer_comes_back_with_its_tokens(server: Server, connect: Connect) -> None:
    reply = connect().complete(MESSAGES)
    assert reply.text == "ls"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cost) == (1000, 10, 0.0)
    assert len(server.requests) == 1


def test_the_request_carries_messages_and_settings(server: Server, connect: Connect) -> None:
    connect("m", temperature=0.5, max_tokens=7, seed=3).complete(MESSAGES)
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert request["body"] == {"model": "m", "temperature": 0.5, "max_tokens": 7, "seed": 3, "messages": MESSAGES}


def test_settings_that_are_none_are_left_out(server: Server, connect: Connect) -> None:
    connect("m", temperature=None, max_tokens=None).complete(MESSAGES)
    assert server.requests[0]["body"] == {"model": "m", "messages": MESSAGES}


TOOL = {"type": "function", "function": {"name": "execute", "parameters": {"type": "object", "properties": {}}}}


def calling(*calls: object, content: object = None) -> Behaviour:
    return answer({"choices": [{"message": {"role": "assistant", "content": content, "tool_calls": list(calls)}}]})


def test_tools_are_sent_and_calls_come_back_as_the_model_wrote_them(server: Server, connect: Connect) -> None:
    server.script = [
        calling(
            {"id": "a", "type": "function", "function": {"name": "execute", "arguments": '{"code": '}},
            {"function": {"name": "submit", "arguments": {}}},
        )
    ]
    reply = connect().complete(MESSAGES, tools=[TOOL])
    assert (reply.text, reply.calls) == ("", (ToolCall("a", "execute", '{"code": '), ToolCall("", "submit", "{}")))
    assert server.requests[0]["body"]["tools"] == [TOOL]


@pytest.mark.parametrize("call", ["ls", {}, {"function": None}, {"function": {"arguments": "{}"}}])
def test_a_call_without_a_name_is_no_answer(server: Server, connect: Connect, call: object) -> None:
    server.script = [calling(call), answer(GOOD)]
    assert connect(backoff=0).complete(MESSAGES, tools=[TOOL]).text == "ls"


def test_each_draw_has_a_seed_of_its_own(server: Server, connect: Connect) -> None:
    for draw in (0, 1, 2):
        connect(seed=40).complete(MESSAGES, draw=draw)
    connect(seed=None).complete(MESSAGES, draw=1)
    assert [request["body"].get("seed") for request in server.requests] == [40, 41, 42, None]
    assert all("tools" not in request["body"] for request in server.requests)


def test_prices_are_per_million_tokens_in_and_out(connect: Connect) -> None:
    usage = connect("m", price=(3.0, 15.0)).complete(MESSAGES).usage
    assert usage.cost == pytest.approx((1000 * 3.0 + 10 * 15.0) / 1e6)


def test_an_unpriced_model_costs_nothing(connect: Connect) -> None:
    assert connect("m").complete(MESSAGES).usage.cost == 0.0


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}, "many", {"prompt_tokens": "many"}])
def test_missing_or_odd_usage_counts_as_no_tokens(server: Server, connect: Connect, usage: Any) -> None:
    server.script = [answer({**GOOD, "usage": usage})]
    reply = connect().complete(MESSAGES)
    assert (reply.text, reply.usage.prompt_tokens, reply.usage.completion_tokens) == ("ls", 0, 0)


@pytest.mark.parametrize("count", [10**400, 10**20, 2**53 + 1, -5, True, 2.5, float("nan"), float("inf")])
def test_what_cannot_be_a_number_of_tokens_counts_as_none(server: Server, connect: Connect, count: float) -> None:
    server.script = [answer({**GOOD, "usage": {"prompt_tokens": count, "completion_tokens": 10.0}})]
    usage = connect(price=(1.0, 1.0)).complete(MESSAGES).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cost) == (0, 10, 1e-5)
    assert type(usage.completion_tokens) is int


def test_the_address_and_key_come_from_the_environment(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("INTERCODE_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "key-1\n")
    connect(base_url=None).complete(MESSAGES)
    assert server.requests[0]["key"] == "Bearer key-1"


def test_the_sdks_own_variable_for_the_address_works_too(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert connect(base_url=None).complete(MESSAGES).text == "ls"


def test_a_local_server_needs_no_key(server: Server, connect: Connect) -> None:
    assert connect().complete(MESSAGES).text == "ls"
    assert server.requests[0]["key"] == "Bearer none-needed"


def test_neither_a_server_nor_a_key_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no model server is named: set INTERCODE_BASE_URL"):
        OpenAIModel("m")


def test_an_address_without_a_scheme_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="must start with http"):
        OpenAIModel("m", base_url="localhost:8000/v1")


@pytest.mark.parametrize("address", ["http://[::1", "http://localhost:port/v1", "http://local\nhost/v1"])
def test_what_is_no_address_is_wrong_usage(address: str) -> None:
    with pytest.raises(UsageError, match="cannot be the base URL"):
        OpenAIModel("m", base_url=address)


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", "tab\tkey"])
def test_a_key_that_cannot_be_sent_is_wrong_usage_and_not_printed(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        OpenAIModel("m")
    assert key not in str(caught.value)


def test_an_empty_text_is_an_answer(server: Server, connect: Connect) -> None:
    server.script = [answer({"choices": [{"message": {"content": ""}}]})]
    assert connect().complete(MESSAGES).text == ""
    assert len(server.requests) == 1


def test_half_a_surrogate_pair_cannot_reach_the_store(server: Server, connect: Connect) -> None:
    server.script = [answer(b'{"choices": [{"message": {"content": "echo \\ud83d"}}]}')]
    assert connect().complete(MESSAGES).text == "echo ?"


MENDABLE: dict[str, Behaviour] = {
    "408": refuse(408),
    "429": refuse(429),
    "500": refuse(500),
    "503 with a page": answer(b"<html>busy</html>", 503, Content_Type="text/html"),
    "half a body": half_a_body,
    "half a body of the announced length": answer(json.dumps(GOOD).encode()[:60]),
    "nothing": nothing,
    "an empty body": answer(b""),
    "brackets without end": answer(b"[" * 200_000),
    "a page": answer(b"<html>welcome</html>", Content_Type="text/html"),
    "no choices": answer({"choices": []}),
    "an error with status 200": answer({"error": {"message": "overloaded"}}),
    "a list": answer([1, 2]),
    "no content": answer({"choices": [{"message": {"role": "assistant", "content": None}}]}),
    "a codec that is not for text": answer(GOOD, Content_Type="text/plain; charset=hex"),
    "one that raises": answer(GOOD, Content_Type="text/plain; charset=idna"),
    "500 in a codec that is not for text": answer(GOOD, 500, Content_Type="text/plain; charset=hex"),
    "not UTF-8": answer(b'{"choices": \xff\xfe'),
}


@pytest.mark.parametrize("fault", MENDABLE.values(), ids=MENDABLE.keys())
def test_a_passing_fault_is_mended_by_asking_again(server: Server, connect: Connect, fault: Behaviour) -> None:
    server.script = [fault, fault, answer(GOOD)]
    assert connect().complete(MESSAGES).text == "ls"
    assert len(server.requests) == 3
    assert all(request == server.requests[0] for request in server.requests)


@pytest.mark.parametrize("fault", MENDABLE.values(), ids=MENDABLE.keys())
def test_a_lasting_fault_ends_after_the_given_tries_and_names_the_address(
    server: Server, connect: Connect, fault: Behaviour
) -> None:
    server.script = [fault]
    with pytest.raises(ModelError, match=rf"{server.base_url}/chat/completions: .*tried 3 times"):
        connect(tries=3).complete(MESSAGES)
    assert len(server.requests) == 3


def test_the_last_status_and_body_are_in_the_error(server: Server, connect: Connect) -> None:
    server.script = [refuse(500, "first"), refuse(503, "out of memory")]
    with pytest.raises(ModelError, match=r"HTTP 503, body .*out of memory"):
        connect(tries=2).complete(MESSAGES)


def test_a_long_body_is_cut_in_the_error(server: Server, connect: Connect) -> None:
    server.script = [answer(b"x" * 100_000)]
    with pytest.raises(ModelError) as caught:
        connect(tries=1).complete(MESSAGES)
    assert len(str(caught.value)) < 600


def test_a_server_that_hangs_is_left_after_the_time_out(server: Server, connect: Connect) -> None:
    server.script = [hang, answer(GOOD)]
    started = time.monotonic()
    assert connect(timeout=0.2).complete(MESSAGES).text == "ls"
    assert 0.2 <= time.monotonic() - started < 2


def test_a_server_that_always_hangs_is_named(server: Server, connect: Connect) -> None:
    server.script = [hang]
    with pytest.raises(ModelError, match=r"no answer within 0\.1 s"):
        connect(timeout=0.1, tries=2).complete(MESSAGES)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [b"200 OK", b"500 No"])
def test_a_reply_without_end_is_left_at_its_limit(server: Server, connect: Connect, status: bytes) -> None:
    server.script = [flood(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n\r\n" % status, b" " * (1 << 20))]
    with pytest.raises(ModelError, match="more than 32 MiB"):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1
    assert server.sent < openai_chat.LARGEST + (16 << 20)


HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"


@pytest.mark.parametrize(
    "sent",
    [HEAD % b"200 OK" + b"\r\n", HEAD % b"500 No" + b"\r\n", HEAD % b"200 OK" + b"X-Long: ", b"HTTP/1.1 200 "],
    ids=["body", "body of an error", "head", "first line"],
)
def test_a_server_that_always_sends_a_little_is_left_as_well(server: Server, connect: Connect, sent: bytes) -> None:
    server.script = [drip(sent), answer(GOOD)]
    started = time.monotonic()
    assert connect(timeout=0.3).complete(MESSAGES).text == "ls"
    assert 0.3 <= time.monotonic() - started < 2


def test_a_model_that_is_let_go_leaves_no_thread(server: Server) -> None:
    before = set(threading.enumerate())
    OpenAIModel("m", base_url=server.base_url)
    assert wait_until(lambda: set(threading.enumerate()) <= before)


def test_no_server_at_all_is_a_model_error(connect: Connect) -> None:
    with pytest.raises(ModelError, match=r"the connection failed .*is the server up"):
        connect(base_url="http://127.0.0.1:9/v1", tries=2).complete(MESSAGES)


def test_retry_after_in_seconds_is_waited_for(server: Server, connect: Connect) -> None:
    server.script = [answer({}, 429, Retry_After="0.3"), answer(GOOD)]
    assert connect().complete(MESSAGES).text == "ls"
    assert 0.3 <= server.times[1] - server.times[0] < 1


def test_retry_after_as_a_date_is_waited_for(server: Server, connect: Connect) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.script = [answer({}, 429, Retry_After=soon), answer(GOOD)]
    assert connect().complete(MESSAGES).text == "ls"
    assert 0.5 <= server.times[1] - server.times[0] < 2.5


def test_no_retry_after_can_make_us_wait_for_an_hour(server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "LONGEST_WAIT", 0.1)
    server.script = [answer({}, 429, Retry_After="3600"), answer(GOOD)]
    assert connect().complete(MESSAGES).text == "ls"
    assert 0.1 <= server.times[1] - server.times[0] < 1


@pytest.mark.parametrize("asked", ["soon", "Mon, 01 Jan 2024 00:00:00 +99999999999999999999", "-5", "nan"])
def test_retry_after_that_means_nothing_is_ignored(server: Server, connect: Connect, asked: str) -> None:
    server.script = [answer({}, 503, Retry_After=asked), answer(GOOD)]
    assert connect().complete(MESSAGES).text == "ls"


def test_waits_grow_from_try_to_try(server: Server, connect: Connect) -> None:
    server.script = [refuse(500)]
    with pytest.raises(ModelError):
        connect(backoff=0.04, tries=4).complete(MESSAGES)
    waits = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
    assert waits[0] >= 0.03
    assert waits[1] >= 0.06
    assert waits[2] >= 0.12


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "max_tokens"), (401, "OPENAI_API_KEY"), (403, "may not use"), (404, "INTERCODE_BASE_URL"), (422, "refuses")],
)
def test_a_refusal_is_told_at_once_with_what_to_do(server: Server, connect: Connect, status: int, advice: str) -> None:
    server.script = [refuse(status, "because"), answer(GOOD)]
    with pytest.raises(ModelError, match=rf"HTTP {status}, body .*because.*{advice}"):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1


OVERFLOWS = {
    "OpenAI": (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
    "vLLM": (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    "llama.cpp": (400, "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"),
    "llama-cpp-python": (500, "Requested tokens (9000) exceed context window of 8192"),
    "Ollama": (400, "the input length exceeds the context length"),
    "LM Studio": (400, "Trying to keep the first 9000 tokens when the model is loaded with context length of only 8192"),
    "SGLang": (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    "TGI": (422, "Input validation error: `inputs` must have less than 8192 tokens. Given: 9000"),
    "Anthropic": (400, "prompt is too long: 9000 tokens > 8192 maximum"),
    "Gemini": (400, "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."),
    "Mistral": (400, "Prompt contains 9000 tokens, too large for model with 8192 maximum context length"),
}


@pytest.mark.parametrize(("status", "words"), OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_a_conversation_that_is_too_long_is_told_at_once(server: Server, connect: Connect, status: int, words: str) -> None:
    server.script = [refuse(status, words), answer(GOOD)]
    with pytest.raises(ContextOverflow, match=f"HTTP {status}"):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1


def ended(reason: str, content: str | None, tokens: int) -> Behaviour:
    choice = {"finish_reason": reason, "message": {"role": "assistant", "content": content}}
    return answer({"choices": [choice], "usage": {"prompt_tokens": 90, "completion_tokens": tokens}})


@pytest.mark.parametrize("reason", ["length", "model_context_window_exceeded"])
def test_no_room_for_a_single_word_of_the_reply_is_an_overflow(server: Server, connect: Connect, reason: str) -> None:
    server.script = [ended(reason, "", 0)]
    with pytest.raises(ContextOverflow, match=reason):
        connect().complete(MESSAGES)


def test_a_model_that_thinks_until_it_is_cut_off_said_nothing_and_is_not_asked_again(server: Server, connect: Connect) -> None:
    server.script = [ended("length", None, 77)]
    reply = connect(max_tokens=77).complete(MESSAGES)
    assert (reply.text, reply.usage.completion_tokens, len(server.requests)) == ("", 77, 1)


def test_the_key_is_never_in_an_error(server: Server, connect: Connect) -> None:
    server.script = [refuse(401)]
    with pytest.raises(ModelError) as caught:
        connect(api_key="sk-hidden").complete(MESSAGES)
    assert "sk-hidden" not in str(caught.value)


def test_many_threads_share_one_model_through_faults(server: Server, connect: Connect) -> None:
    def echo(handler: Handler) -> None:
        with handler.server.lock:
            body = handler.server.requests[-1]["body"]
        answer({**GOOD, "usage": {"prompt_tokens": len(body["messages"])}})(handler)

    server.script = [refuse(500), half_a_body, nothing] * 4 + [echo]
    model, texts = connect(tries=20), list[str]()
    threads = [threading.Thread(target=lambda: texts.append(model.complete(MESSAGES).text)) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["ls"] * 32
    assert len(server.requests) == 44
