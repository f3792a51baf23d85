"""Chat templates of real tokenizers: ids are appended, and a template that rewrites is refused."""

from __future__ import annotations

import pytest
from policies import CHATML, make_tokenizer

from intercode.agents.code import split_reply
from intercode.envs.bash.language import LANGUAGE
from intercode.errors import UsageError
from intercode.rollouts import hf_chat
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


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (
            CHATML.replace("message['content']", "message['content'].split('</think>')[-1]"),
            "does not keep prefixes.*think",
        ),
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
