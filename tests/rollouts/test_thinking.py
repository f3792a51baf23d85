"""Tokens of a model that thinks, behind a server that returns the ids of its reasoning too: exact
whether or not the template keeps earlier reasoning in the conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import loopback
import pytest

from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
from intercode.train import Rollout, RolloutLimits, RolloutPool, Segment

TASKS = [{"id": "count", "query": "How many entries does /box have?", "gold": "ls /box | wc -l"}]
THOUGHT = "\n I run `rm -rf /box`:\n```bash\nrm -rf /box\n```\n λ  "
SAID = [f"```bash\n{code}\n```" for code in ("ls /box", "ls /box | wc -l", "submit")]


def rendered(messages: list[dict[str, Any]], keeps: bool) -> str:
    """The prompt; a template that `keeps` reasoning renders that of earlier replies."""
    texts = [
        f"<think>{message['reasoning_content']}</think>{message['content']}"
        if keeps and message.get("reasoning_content")
        else message["content"]
        for message in messages
    ]
    pairs = zip(messages, texts, strict=True)
    return "".join(f"{message['role']}: {text}\n" for message, text in pairs) + "assistant: "


class Thinker(loopback.Quiet):
    """A token is a character, and the server parses the reasoning out of the reply, as vLLM does.
    `says`: the replies, None for thoughts alone; `keeps`: the template keeps earlier reasoning;
    `counted`: the share of tokens with a log-probability."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages, server = request["messages"], self.server
        place = sum(message["role"] == "assistant" for message in messages)
        said = server.says[min(place, len(server.says) - 1)]
        prompt = rendered(messages, server.keeps)
        reply = f"<think>{THOUGHT}</think>{said or ''}\n"
        server.requests.append((prompt, reply))
        logprobs = [{"logprob": -0.5}] * int(len(reply) * server.counted)
        choice = {
            "message": {"role": "assistant", "content": said, "reasoning_content": THOUGHT},
            "finish_reason": "stop",
            "token_ids": list(map(ord, reply)),
            "logprobs": {"content": logprobs},
        }
        body = {
            "choices": [choice],
            "prompt_token_ids": list(map(ord, prompt)),
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(reply)},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = loopback.Server(Thinker)
    server.says, server.keeps, server.counted = SAID, True, 1.0
    with loopback.serving(server):
        yield server


def played(factory: EnvFactory, server: Any, keep: bool, **limits: int) -> Rollout:
    model = OpenAIModel("m", base_url=f"{server.url}/v1", logprobs=True, keep_reasoning=keep)
    pool = RolloutPool(factory, envs=1, limits=RolloutLimits(**limits))
    with pool, closing(model):
        (rollout,) = pool.run([("count", 0)], model)
    assert rollout.episode.error is None
    return rollout


def sampled(segment: Segment) -> str:
    pairs = zip(segment.token_ids, segment.mask, strict=True)
    return "".join(chr(token) for token, mask in pairs if mask)


def text(ids: tuple[int, ...]) -> str:
    return "".join(map(chr, ids))


def test_reasoning_that_is_sent_back_stays_in_one_segment(factory: EnvFactory, server: Any) -> None:
    rollout = played(factory, server, keep=True)
    (segment,) = rollout.segments
    (first, _), (last, reply) = server.requests[0], server.requests[-1]
    assert text(segment.prompt_ids) == first
    assert text(segment.prompt_ids + segment.token_ids) == last + reply, "what the policy saw"
    assert sampled(segment) == "".join(reply for _, reply in server.requests)
    assert sampled(segment).count(THOUGHT) == 3, "reasoning is sampled by the policy"
    assert segment.logprobs == tuple(-0.5 * mask for mask in segment.mask)
    assert [turn.action for turn in rollout.episode.turns] == [
        "ls /box",
        TASKS[0]["gold"],
        "submit",
    ]
    assert rollout.reward == 1.0


@pytest.mark.filterwarnings("ignore:a rollout has:RuntimeWarning")
@pytest.mark.parametrize(("keep", "keeps"), [(False, True), (False, False), (True, False)])
def test_reasoning_that_is_dropped_begins_a_segment_with_what_the_policy_saw(
    factory: EnvFactory, server: Any, keep: bool, keeps: bool
) -> None:
    server.keeps = keeps
    rollout = played(factory, server, keep)
    segments = [(text(segment.prompt_ids), text(segment.token_ids)) for segment in rollout.segments]
    assert segments == server.requests
    assert all(THOUGHT not in prompt for prompt, _ in segments)
    assert all(set(segment.mask) == {1} for segment in rollout.segments)
    assert [segment.turns for segment in rollout.segments] == [(0,), (1,), (2,)]


@pytest.mark.filterwarnings("ignore:a rollout has:RuntimeWarning")
def test_thoughts_alone_are_sampled_tokens_too(factory: EnvFactory, server: Any) -> None:
    server.says = [None, *SAID[1:]]
    rollout = played(factory, server, keep=True)
    assert [turn.action for turn in rollout.episode.turns] == [None, TASKS[0]["gold"], "submit"]
    assert "".join(map(sampled, rollout.segments)) == "".join(reply for _, reply in server.requests)
    assert all(
        any(text(segment.prompt_ids + segment.token_ids).startswith(prompt + reply)
            for segment in rollout.segments)
        for prompt, reply in server.requests[:1]
    )  # fmt: skip


def test_log_probabilities_without_those_of_the_reasoning_are_none(
    factory: EnvFactory, server: Any
) -> None:
    server.counted = 0.5
    (segment,) = played(factory, server, keep=True).segments
    assert segment.logprobs == ()


@pytest.mark.filterwarnings("ignore:a rollout has:RuntimeWarning")
def test_the_limit_of_tokens_counts_reasoning_that_is_dropped(
    factory: EnvFactory, server: Any
) -> None:
    server.keeps = False
    length = len(f"<think>{THOUGHT}</think>{SAID[0]}\n")
    rollout = played(factory, server, keep=False, tokens=2 * length)
    assert (rollout.cut, rollout.episode.ended) == ("tokens", "limit")
    assert sum(len(sampled(segment)) for segment in rollout.segments) <= 2 * length
