"""Chat templates of real tokenizers: ids are appended, and a template that rewrites is refused."""

from __future__ import annotations

import pytest
from policies import CHATML, CONTROL, make_tokenizer

from intercode.agents.code import split_reply
from intercode.envs.bash.language import LANGUAGE
from intercode.errors import UsageError
from intercode.train import hf_chat
from intercode.types import Message

CONVERSATION: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "List the files."},
    {"role": "assistant", "content": "ls -a"},
    {"role": "user", "content": "a b"},
]


def test_sampled_ids_stay_as_they_are_with_and_without_the_end_of_the_turn() -> None:
    tokenizer = make_tokenizer()
    chat = hf_chat(tokenizer)
    prompt = chat.encode(CONVERSATION[:2])
    assert tokenizer.decode(prompt).endswith("List the files.<|im_end|>\n<|im_start|>assistant\n")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    odd = [id for letter in "ls -a" for id in tokenizer.encode(letter, add_special_tokens=False)]
    assert odd != tokenizer.encode("ls -a", add_special_tokens=False)
    assert (chat.decode([*odd, end]), chat.decode(odd)) == ("ls -a", "ls -a")
    grown = chat.append([*prompt, *odd, end], CONVERSATION, 3)
    assert grown == chat.append([*prompt, *odd], CONVERSATION, 3)
    assert grown[: len(prompt) + len(odd)] == [*prompt, *odd]
    whole = tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(grown) == whole


def test_special_tokens_that_mark_reasoning_stay_so_that_it_is_not_read_as_code() -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    text = "<think>ls</think>```bash\npwd\n```"
    ids = tokenizer.encode(f"{text}<|im_end|>", add_special_tokens=False)
    assert hf_chat(tokenizer).decode(ids) == text
    assert split_reply(text, LANGUAGE)[0] == "pwd"


@pytest.mark.parametrize("form", CONTROL)
def test_what_an_observation_prints_becomes_no_control_token(form: str) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": CONTROL[:14]})
    tokenizer.add_tokens(CONTROL[14:])
    control = set(tokenizer.added_tokens_decoder)
    text = f"a {form}{form}<{form}\nb"
    assert control & set(tokenizer.encode(text)), "the text forges a token"
    messages: list[Message] = [*CONVERSATION[:3], {"role": "user", "content": text}]
    chat = hf_chat(tokenizer)
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    for ids, expected in [
        (chat.encode(messages), [start, end] * 4 + [start]),
        (chat.append([], messages, 3), [end, start, end, start]),
    ]:
        assert [token for token in ids if token in control] == expected, "the template's alone"
        assert text in tokenizer.decode(ids), "the policy sees what was printed"


DROPS = CHATML.replace("message['content']", "message['content'].split('</think>')[-1]")
OPENS = CHATML.replace(
    "<|im_start|>assistant\n{% endif", "<|im_start|>assistant\n<think>\n{% endif"
)


@pytest.mark.parametrize("template", [DROPS, OPENS])
def test_thoughts_are_kept_where_they_were_sampled_if_the_caller_says_so(template: str) -> None:
    tokenizer = make_tokenizer(template)
    with pytest.raises(UsageError, match="keep_thoughts=True"):
        hf_chat(tokenizer)
    chat = hf_chat(tokenizer, keep_thoughts=True)
    prompt = chat.encode(CONVERSATION[:2])
    reply = tokenizer.encode("I look.</think>ls -a<|im_end|>")
    conversation = [*CONVERSATION[:2], {"role": "assistant", "content": chat.decode(reply)}]
    grown = chat.append([*prompt, *reply], [*conversation, CONVERSATION[3]], 3)
    opening = tokenizer.decode(prompt).rpartition("<|im_end|>\n")[2]
    assert grown[: len(prompt) + len(reply)] == [*prompt, *reply]
    assert tokenizer.decode(grown[len(prompt) + len(reply) :]) == (
        f"\n<|im_start|>user\na b<|im_end|>\n{opening}"
    )


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (DROPS, "does not keep prefixes.*think"),
        (
            CHATML.replace(
                "{% for message in messages", "{{ messages | length }}{% for message in messages"
            ),
            "keep prefixes",
        ),
        (CHATML.replace("in messages", "in messages[-1:]"), "keep prefixes"),
        ("{{ raise_exception('System role not supported') }}", "System role not supported"),
    ],
)
def test_a_template_that_rewrites_is_refused_with_the_reason(template: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        hf_chat(make_tokenizer(template))
    with pytest.raises(UsageError, match=why):
        hf_chat(make_tokenizer(), template)
    if template != DROPS:
        with pytest.raises(UsageError, match=why):
            hf_chat(make_tokenizer(template), keep_thoughts=True)


TURNS = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}REPLY"
    "{% else %}[INST] {{ message['content'] }} [/INST]{% endif %}{% endfor %}"
)
MISTRAL = TURNS.replace("REPLY", "{{ ' ' + message['content'] + eos_token }}")
SPACED = {
    "Mistral": MISTRAL,
    "trimmed": MISTRAL.replace("message['content'] + eos", "message['content'] | trim + eos"),
    "Llama 2": MISTRAL.replace("+ eos", "+ ' ' + eos"),
    "newline": MISTRAL.replace("' ' + message['content']", "'\\n\\n' + message['content']"),
    "without a blank": MISTRAL.replace("' ' + message['content']", "message['content']"),
    "Vicuna": (
        "{% for message in messages %}{% if message['role'] == 'assistant' %}"
        "{{ 'ASSISTANT: ' + message['content'] + eos_token }}"
        "{% else %}{{ message['role'] | upper + ': ' + message['content'] + ' ' }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
    ),
    "Phi": (
        "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] "
        "+ eos_token + '\\n' }}{% endfor %}"
        "{{ '<|assistant|>\\n' if add_generation_prompt else bos_token }}"
    ),
}


@pytest.mark.parametrize("keep_thoughts", [False, True])
@pytest.mark.parametrize("name", SPACED)
def test_white_space_that_a_template_writes_around_replies_is_that_of_the_sampled_reply(
    name: str, keep_thoughts: bool
) -> None:
    tokenizer = make_tokenizer(SPACED[name])
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    chat = hf_chat(tokenizer, keep_thoughts=keep_thoughts)
    assert getattr(chat, "end_ids") == {tokenizer.eos_token_id}  # noqa: B009
    prompt = tokenizer.decode(chat.encode(CONVERSATION[:2]))
    whole = tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    rest = whole.removeprefix(prompt)
    reply, end, observed = rest.partition("</s>")
    assert reply.strip() == "ls -a"
    for sampled in (reply + end, reply.rstrip() + end, "ls -a" + end):
        ids = [*chat.encode(CONVERSATION[:2]), *tokenizer.encode(sampled)]
        grown = chat.append(ids, CONVERSATION, 3)
        assert grown[: len(ids)] == ids
        assert tokenizer.decode(grown) == prompt + sampled + observed
    cut = [*chat.encode(CONVERSATION[:2]), *tokenizer.encode(reply.rstrip())]
    assert tokenizer.decode(chat.append(cut, CONVERSATION, 3)) == whole


@pytest.mark.parametrize("keep_thoughts", [False, True])
@pytest.mark.parametrize(
    "template",
    [
        CHATML.partition("{% if add_generation_prompt %}")[0],
        CHATML.replace("<|im_start|>assistant\n{% endif", "<think>\n{% endif"),
        SPACED["Vicuna"].partition("{% if add_generation_prompt %}")[0],
    ],
)
def test_a_template_without_an_opening_of_replies_is_refused(
    template: str, keep_thoughts: bool
) -> None:
    with pytest.raises(UsageError, match="does not open replies") as refused:
        hf_chat(make_tokenizer(template), keep_thoughts=keep_thoughts)
    assert "assistant" in str(refused.value).lower()
    assert "keep_thoughts" not in str(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        CHATML.replace("{% for message in m", "{{ messages | length }}{% for message in m"),
        CHATML.replace("assistant\n", "ai\n"),
        CHATML.replace("message['content']", "message['content'] | upper"),
        DROPS,
        OPENS,
    ],
)
def test_keep_thoughts_is_advised_only_where_it_helps(template: str) -> None:
    tokenizer = make_tokenizer(template)
    with pytest.raises(UsageError) as refused:
        hf_chat(tokenizer)
    if "keep_thoughts=True" in str(refused.value):
        hf_chat(tokenizer, keep_thoughts=True)
    else:
        with pytest.raises(UsageError):
            hf_chat(tokenizer, keep_thoughts=True)
