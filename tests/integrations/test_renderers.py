"""The agent `tools` with the renderers of prime-rl: its tokens are those of `hf_chat`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from call_forms import CALLS, OFFERED, OPENING, calling, tokenizer_of

from intercode.errors import UsageError
from intercode.train import hf_chat
from intercode.train.chat import ToolChat
from intercode.types import Message

TRL = find_spec("trl")
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        not (TRL and find_spec("renderers")),
        reason="trl and renderers are not installed: make integrations",
    ),
]
EXAMPLES = str(Path(__file__).parents[2] / "examples")
RENDERERS = {
    "qwen3": "Qwen3RendererConfig",
    "qwen3_5_think": "Qwen35RendererConfig",
    "qwen3_8": "Qwen38RendererConfig",
    "glm4moe": "GLM45RendererConfig",
    "nemotron_3_nano": "Nemotron3RendererConfig",
}
"""Templates that TRL ships, and the renderer of each."""
CONTROL = """[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|> <|endoftext|> <think>
    </think> <arg_key> </arg_key> <arg_value> </arg_value> <|vision_start|> <|vision_end|>
    <|image_pad|> <|video_pad|> <|begin_of_image|> <|end_of_image|> <|image|> <|begin_of_video|>
    <|end_of_video|> <|video|>"""


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def chats(name: str, **options: str) -> tuple[Any, Any, Any]:
    """A tokenizer, and its chats with tools: by a renderer, and by the template."""
    import renderers
    from renderer_chat import RendererChat

    assert TRL
    assert TRL.submodule_search_locations
    path = Path(TRL.submodule_search_locations[0], "chat_templates", f"{name}.jinja")
    tokenizer = tokenizer_of(path.read_text())
    tokenizer.add_tokens(CONTROL.split(), special_tokens=True)
    marks = ["<tool_response>", "</tool_response>", "<tool_call>", "</tool_call>"]
    tokenizer.add_tokens(marks)
    config = getattr(renderers, RENDERERS[name])(**options)
    renderer = renderers.create_renderer(tokenizer, config)
    chat = RendererChat(renderer, tokenizer).with_tools(OFFERED)
    reference: Any = hf_chat(tokenizer, keep_thoughts=True)
    return tokenizer, chat, reference.with_tools(OFFERED)


@pytest.mark.parametrize("name", RENDERERS)
def test_tokens_and_calls_are_those_of_hf_chat(name: str) -> None:
    tokenizer, chat, reference = chats(name, thinking_retention="all")
    assert isinstance(chat, ToolChat)
    messages: list[Message] = [*OPENING]
    ids = chat.encode(messages)
    assert ids == reference.encode(messages)
    for turn in range(12):
        calls = CALLS[turn % len(CALLS)]
        reply = calling([(name, json.dumps(values)) for name, values in calls], turn)
        messages.append(reply if calls else {"role": "assistant", "content": "I am done."})
        shown = [*OPENING, calling(calls) if calls else messages[-1]]
        text = tokenizer.apply_chat_template(shown, tools=OFFERED, tokenize=False)
        start = tokenizer.apply_chat_template(
            OPENING, tools=OFFERED, tokenize=False, add_generation_prompt=True
        )
        header, _, _ = start.partition("<think>")
        sampled = tokenizer.encode(text.removeprefix(header).rstrip(), add_special_tokens=False)
        sampled = sampled[: -1 if sampled[-1] in chat.end_ids else None]
        read = chat.split(chat.decode(sampled))[1]
        assert [(call.name, json.loads(call.arguments)) for call in read] == calls
        end = min(chat.end_ids & reference.end_ids)
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"output {turn}"}
            for call in reply["tool_calls"]
        ]
        messages += results or [{"role": "user", "content": "Go on."}]
        known = len(messages) - max(1, len(results))
        ids += [*sampled, end]
        assert chat.append(ids, messages, known) == reference.append(ids, messages, known)
        ids = chat.append(ids, messages, known)


@pytest.mark.parametrize("name", RENDERERS)
def test_an_observation_forges_no_control_token(name: str) -> None:
    tokenizer, chat, _ = chats(name, thinking_retention="all")
    call = calling([("execute", json.dumps({"code": "cat x"}))])
    result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "x"}
    ids = [*chat.encode(OPENING), *tokenizer.encode("x"), min(chat.end_ids)]
    added = {*tokenizer.added_tokens_decoder}
    plain = chat.append(ids, [*OPENING, call, result], 3)
    result = {**result, "content": " ".join(tokenizer.added_tokens_encoder)}
    forged = chat.append(ids, [*OPENING, call, result], 3)
    assert [id for id in forged if id in added] == [id for id in plain if id in added]


def test_a_renderer_that_writes_replies_anew_is_refused() -> None:
    with pytest.raises(UsageError, match="thinking_retention"):
        chats("qwen3", thinking_retention="tool_cycle")


@pytest.mark.parametrize("name", RENDERERS)
def test_whatever_the_policy_samples_the_conversation_goes_on(name: str) -> None:
    tokenizer, chat, _ = chats(name, thinking_retention="all")
    call = calling([("execute", json.dumps({"code": "ls"}))])
    result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "x"}
    prompt = chat.encode(OPENING)
    for id in tokenizer.added_tokens_decoder:
        for reply in ([id], [*tokenizer.encode("<think>ls"), id], [id, *chat.end_ids]):
            ids = chat.append([*prompt, *reply], [*OPENING, call, result], 3)
            assert ids[: len(prompt) + len(reply)] == [*prompt, *reply]
            assert "x" in tokenizer.decode(ids[len(prompt) + len(reply) :])
            chat.split(chat.decode(reply))
