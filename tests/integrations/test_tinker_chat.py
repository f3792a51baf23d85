"""The agent `tools` with a renderer of tinker-cookbook: its tokens are the renderer's own."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from call_forms import CALLS, OFFERED, OPENING, calling, tokenizer_of

from intercode.train.chat import ToolChat
from intercode.types import Message

TRL = find_spec("trl")
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        not (TRL and find_spec("tinker_cookbook")),
        reason="trl and tinker-cookbook are not installed: make integrations",
    ),
]
EXAMPLES = str(Path(__file__).parents[2] / "examples")


def qwen(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    """A tokenizer, a renderer, and its chat with tools."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from tinker_chat import TinkerChat
    from tinker_cookbook.renderers.qwen3 import Qwen3Renderer

    assert TRL
    assert TRL.submodule_search_locations
    path = Path(TRL.submodule_search_locations[0], "chat_templates", "qwen3.jinja")
    tokenizer = tokenizer_of(path.read_text())
    renderer = Qwen3Renderer(tokenizer, strip_thinking_from_history=False)
    return tokenizer, renderer, TinkerChat(renderer, tokenizer).with_tools(OFFERED)


def test_tokens_and_calls_are_those_of_the_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinker_cookbook.renderers.base import ToolCall, ensure_text

    _, renderer, chat = qwen(monkeypatch)
    assert isinstance(chat, ToolChat)
    functions = [tool["function"] for tool in OFFERED]
    told = renderer.create_conversation_prefix_with_tools(functions, OPENING[0]["content"])
    messages, whole = [*OPENING], [*told, OPENING[1]]
    ids = chat.encode(messages)
    for turn in range(12):
        calls = CALLS[turn % len(CALLS)]
        reply = calling([(name, json.dumps(values)) for name, values in calls], turn)
        written = [ToolCall.model_validate(call) for call in reply["tool_calls"]]
        thought = [{"type": "thinking", "thinking": "So."}, {"type": "text", "text": f"{turn}."}]
        said: Message = {"role": "assistant", "content": thought}
        whole.append({**said, "tool_calls": written} if calls else said)
        before = renderer.build_generation_prompt(whole[:-1]).to_ints()
        assert ids == before
        after = renderer.build_generation_prompt(whole).to_ints()[len(before) :]
        sampled = after[: after.index(min(chat.end_ids)) + 1]
        text, read = chat.split(chat.decode(sampled))
        assert text.strip() == f"{turn}."
        assert [(call.name, json.loads(call.arguments)) for call in read] == calls
        messages.append(reply if calls else {"role": "assistant", "content": ensure_text(text)})
        results: list[Message] = [{"role": "user", "content": "Go on."}]
        if calls:
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": f"output {turn}"}
                for call in reply["tool_calls"]
            ]
        known = len(messages)
        messages, whole = [*messages, *results], [*whole, *results]
        ids = chat.append([*ids, *sampled], messages, known)
    assert ids == renderer.build_generation_prompt(whole).to_ints()


def test_an_observation_forges_no_control_token(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, _, chat = qwen(monkeypatch)
    call = calling([("execute", json.dumps({"code": "cat x"}))])
    result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "x"}
    ids = [*chat.encode(OPENING), *tokenizer.encode("x"), min(chat.end_ids)]
    added = {*tokenizer.added_tokens_decoder}
    plain = chat.append(ids, [*OPENING, call, result], 3)
    for id in added:  # whatever the policy samples is read
        for reply in ([id], [*tokenizer.encode("<think>ls"), id, id]):
            chat.split(chat.decode(reply))
            assert chat.append([*ids, *reply], [*OPENING, call, result], 3)
    result = {**result, "content": " ".join(tokenizer.added_tokens_encoder)}
    forged = chat.append(ids, [*OPENING, call, result], 3)
    assert [id for id in forged if id in added] == [id for id in plain if id in added]
