"""The forms in which chat templates write tool calls, in short templates; those that TRL ships are
tested by `make integrations`."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from call_forms import OFFERED, Conversations, tokenizer_of

from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.interop.export.formats import chat_rows
from intercode.train import RolloutPool, hf_chat

PAIRS = "{% for key, value in call.arguments.items() %}"
MORE = "{{ ', ' if not loop.first }}"
ESCAPED = r"value | replace('\\', '\\\\') | replace('\'', '\\\'') | replace('\n', '\\n')"


def template(
    call: str,
    *,
    before: str = "",
    between: str = "",
    after: str = "",
    end: str = "<|im_end|>\n",
    calls: str = "message.tool_calls",
) -> str:
    """A chat template that writes calls so."""
    return (
        "{{ tools | tojson if tools else '' }}{% for message in messages %}"
        f"{{% if message.tool_calls %}}<|im_start|>assistant\n{before}"
        f"{{% for item in {calls} %}}{{% set call = item.function %}}"
        f"{{% if not loop.first %}}{between}{{% endif %}}{call}{{% endfor %}}{after}{end}"
        "{% elif message.role == 'tool' %}<|tool_response>{{ message.content }}<tool_response|>"
        "{% else %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


def listed(value: str, before: str, after: str) -> str:
    return template(
        f"{{{{ call.name }}}}({PAIRS}{MORE}{{{{ key }}}}='{{{{ {value} }}}}'{{% endfor %}})",
        before=before,
        between=", ",
        after=after,
    )


TEMPLATES = {
    "XML": template(
        f"<tool_call>\n<function={{{{ call.name }}}}>\n{PAIRS}<parameter={{{{ key }}}}>\n"
        "{{ value }}\n</parameter>\n{% endfor %}</function>\n</tool_call>",
        between="\n",
    ),
    "quoted": template(
        f"<|tool_call>call:{{{{ call.name ~ '{{' }}}}{PAIRS}{MORE}{{{{ key }}}}:<|quote|>"
        "{{ value }}<|quote|>{% endfor %}}<tool_call|>",
        end="",
    ),
    "in tags": template(
        f"<tool_call>{{{{ call.name }}}}\n{PAIRS}<arg_key>{{{{ key }}}}</arg_key>\n"
        "<arg_value>{{ value }}</arg_value>\n{% endfor %}</tool_call>",
        end="",
    ),
    "object": template(
        " to=functions.{{ call.name }}<|channel|>json<|message|>{{ call.arguments | tojson }}",
        end="<|call|>",
        calls="message.tool_calls[:1]",
    ),
    "list": listed("value", "<|tool_call_start|>[", "]<|tool_call_end|>"),
    "escaped": listed(ESCAPED, "<|tool_call_start|>[", "]<|tool_call_end|>"),
    "bare list": listed(ESCAPED, "[", "]"),
    "list of objects": template(
        "{{ {'name': call.name, 'arguments': call.arguments} | tojson }}",
        before="[",
        between=", ",
        after="]",
    ),
}


TASKS = [{"id": "count", "query": "How many entries does /box have?", "gold": "ls /box"}]


@pytest.mark.journey
@pytest.mark.parametrize("name", TEMPLATES)
def test_an_episode_is_solved_with_calls_in_each_form(factory: EnvFactory, name: str) -> None:
    conversations = Conversations(TEMPLATES[name])
    replies = [conversations.written([("execute", {"code": "ls /box"})])]
    replies.append(conversations.written([("submit", {})]))

    def generate(prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        sampled = []
        for prompt in prompts:
            turn = conversations.tokenizer.decode(prompt).count("<|im_start|>assistant") - 1
            ids = conversations.encode(replies[turn])
            sampled.append((ids, [-1.0] * len(ids)))
        return sampled

    with RolloutPool(factory, "tools", envs=1) as pool:
        (rollout,) = pool.run_batch(["count"], generate, hf_chat(conversations.tokenizer))
    assert [turn.action for turn in rollout.episode.turns] == ["ls /box", "submit"]
    assert rollout.reward == 1.0
    (row,) = chat_rows({}, rollout.episode)
    for message in row["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    (segment,) = rollout.segments
    sent = conversations.tokenizer.decode([*segment.prompt_ids, *segment.token_ids])
    assert conversations.render(row["messages"][:5], tools=row["tools"]).startswith(sent)


@pytest.mark.parametrize("name", TEMPLATES)
def test_tokens_are_those_that_the_template_writes(name: str) -> None:
    conversations = Conversations(TEMPLATES[name])
    for _ in range(6):
        conversations.play(10)
    assert all(conversations.kinds.values())


def chat_of(name: str) -> Any:
    chat: Any = hf_chat(tokenizer_of(TEMPLATES[name]))
    return chat.with_tools(OFFERED)


def xml(code: str) -> str:
    return (
        f"<tool_call>\n<function=execute>\n<parameter=code>\n{code}\n</parameter>\n</function>\n"
        "</tool_call>"
    )


READ: list[tuple[str, str, str, list[tuple[str, Any]]]] = [
    ("XML", f"I look. {xml('ls')}", "I look.", [("execute", {"code": "ls"})]),
    ("XML", xml("  a\n\n b"), "", [("execute", {"code": "  a\n\n b"})]),
    ("XML", xml("</tool_call>"), "", [("execute", {"code": "</tool_call>"})]),
    ("XML", f"<think>\n{xml('rm')}\n</think>{xml('ls')}", f"<think>\n{xml('rm')}\n</think>",
     [("execute", {"code": "ls"})]),
    ("XML", "<tool_call><function=execute><parameter=code>ls</parameter></function></tool_call>",
     "", [("execute", {"code": "ls"})]),
    ("XML", xml("ls\n</parameter>\n<parameter=timeout>\n5"), "",
     [("execute", {"code": "ls", "timeout": "5"})]),
    ("XML", f"<tool_call>\nls\n</tool_call>{xml('ls')}", "",
     [("", None), ("execute", {"code": "ls"})]),
    ("XML", '<tool_call>{"name": "execute", "arguments": {"code": "ls"}}</tool_call>', "",
     [("", None)]),
    ("XML", "I will not call execute.", "I will not call execute.", []),
    ("quoted", "<|tool_call>call:submit{}<tool_call|>", "", [("submit", {})]),
    ("quoted", "<|tool_call>call:execute{code:5}<tool_call|>", "", [("", None)]),
    ("object", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     'to=functions.execute <|constrain|>json<|message|>{ "code":"a{\\u0062\\n"}',
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary",
     [("execute", {"code": "a{b\n"})]),
    ("object", ' to=functions.execute<|channel|>json<|message|>{"code": "to=functions.submit{}', "",
     [("", None)]),
    ("list", "<|tool_call_start|>[execute(code='print('a', end='b')')]<|tool_call_end|>", "",
     [("execute", {"code": "print('a', end='b')"})]),
    ("list", "<|tool_call_start|>[execute(code='f('a'), g('b')'), submit(answer='c')]", "",
     [("execute", {"code": "f('a'), g('b')"}), ("submit", {"answer": "c"})]),
    ("escaped", r"<|tool_call_start|>[execute(code='\'), submit()')]<|tool_call_end|>", "",
     [("execute", {"code": "'), submit()"})]),
    ("escaped", "<|tool_call_start|>[execute(code='it's')]<|tool_call_end|>", "", [("", None)]),
    ("bare list", r"[execute(code='a[\'b\')]'), submit()]", "",
     [("execute", {"code": "a['b')]"}), ("submit", {})]),
    ("bare list", "I look [1].", "I look [1].", []),
]  # fmt: skip


def test_calls_are_read_in_the_form_of_the_template() -> None:
    chats = {name: chat_of(name) for name in TEMPLATES}
    for name, text, rest, expected in READ:
        others, calls = chats[name].split(text)
        read = [(call.name, json.loads(call.arguments) if call.name else None) for call in calls]
        assert (others, read) == (rest, expected), text


@pytest.mark.parametrize("name", TEMPLATES)
def test_broken_calls_are_read_quickly_and_run_no_other_text(name: str) -> None:
    chat, chance = chat_of(name), random.Random(name)
    written = Conversations(TEMPLATES[name]).written([("execute", {"code": "ls 'a'\n# b"})] * 2)
    pieces = [written, written[: len(written) // 2], "</tool_call>", "<|tool_call_end|>", "'", "\n"]
    for _ in range(300):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 4)))
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(["", '"', "}", "\\", "["]) + text[at + 1 :]
        for call in chat.split(text)[1]:
            if call.name == "execute" and name not in (
                "object",
                "escaped",
                "bare list",
                "list of objects",
            ):
                assert all(value in text for value in json.loads(call.arguments).values())
    start = time.monotonic()
    for text in (
        written * 2000,
        written[: len(written) * 3 // 4] * 2000,
        f"{written[:-9]} " * 2000,
    ):
        chat.split(text)
    assert time.monotonic() - start < 10


def test_a_template_that_leaves_out_calls_or_writes_them_without_a_mark_is_refused() -> None:
    for call, why in [
        ("", r"does not render tool calls after tools: it writes .*<\|im_end\|>"),
        ("{{ call.name }}({{ call.arguments.code }})", r"'execute\(ls\)', which cannot be read"),
        ("<tool_call>{{ call.arguments.code | upper }}</tool_call>", "does not render tool calls"),
        ("<tool_call>{{ call.arguments.code }}</tool_call>", "'<tool_call>ls</tool_call>', which"),
    ]:
        chat: Any = hf_chat(tokenizer_of(template(call)))
        with pytest.raises(UsageError, match=why):
            chat.with_tools(OFFERED)
