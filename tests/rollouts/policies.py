"""Tokenizers and policies for tests of rollouts.

make_tokenizer()    a byte-level BPE, trained here, with a template in ChatML's form
Policy              a `generate` that answers as the tasks' golds do, in odd pieces of tokens; it
                    keeps what it was asked
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

from intercode.train import Chat
from intercode.types import Task

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTROL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>", "<s>",
    "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "[TOOL_CALLS]", "<bos>", "<start_of_turn>",
    "<think>", "</think>", "<tool_call>", "<｜User｜>", "<｜end▁of▁sentence｜>", "◁think▷",
]  # fmt: skip
"""Control tokens of many tokenizers; the last six are not marked as special."""


def make_tokenizer(template: str = CHATML) -> Any:
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<|im_start|>", "<|im_end|>"]
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(
        ["```bash\nfind /box -type f | wc -l\n```\n", "submit the answer, list the files"] * 50,
        trainer,
    )
    found = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>")
    found.chat_template = template
    return found


class Policy:
    """`wrong` is the share of replies with another command; a wrong one prints nothing of the
    gold's."""

    def __init__(
        self, tokenizer: Any, tasks: Sequence[Task], *, wrong: float = 0.0, seed: int = 0
    ) -> None:
        self.tokenizer, self.tasks, self.wrong = tokenizer, tasks, wrong
        self.chance = random.Random(seed)
        self.sampled: dict[tuple[int, ...], list[tuple[list[int], list[float]]]] = {}
        self.batches: list[int] = []
        self.thread = 0

    def __call__(self, prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        self.batches.append(len(prompts))
        self.thread = threading.get_ident()
        return [self.reply(prompt) for prompt in prompts]

    def reply(self, prompt: list[int]) -> tuple[list[int], list[float]]:
        text = self.tokenizer.decode(prompt)
        task = next(task for task in self.tasks if task.query in text)
        turn = text.count("<|im_start|>assistant") - 1
        code = [
            "echo λ; true",
            "false" if self.chance.random() < self.wrong else task.gold,
            "submit",
        ][min(turn, 2)]
        ids = self.encode(f"I try.\n```bash\n{code}\n```")
        if self.chance.random() < 0.8:  # else the reply ends without its end token
            ids += self.encode("<|im_end|>")
        logprobs = [-self.chance.random() for _ in ids]
        self.sampled.setdefault(tuple(prompt), []).append((ids, logprobs))
        return ids, logprobs

    def encode(self, text: str) -> list[int]:
        """The ids of a text in random pieces, which are seldom those of the text as a whole."""
        if text.startswith("<|"):
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        ids, start = list[int](), 0
        while start < len(text):
            end = start + self.chance.randint(1, 6)
            ids += self.tokenizer.encode(text[start:end], add_special_tokens=False)
            start = end
        return ids


class Letters:
    """A chat of letters: a token is a character."""

    def encode(self, messages: Sequence[Any]) -> list[int]:
        return [
            ord(each)
            for message in messages
            for each in f"{message['role']}: {message['content']}\n"
        ] + [62]

    def append(self, ids: list[int], messages: Sequence[Any], known: int) -> list[int]:
        return ids + self.encode(messages[known:])

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


LETTERS: Chat = Letters()


def replying(*texts: str) -> Any:
    """A `generate` for `LETTERS` that gives these replies in turn, and the last one from then
    on."""

    def generate(prompts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        found = []
        for prompt in prompts:
            text = texts[min(LETTERS.decode(prompt).count("\n>"), len(texts)) - 1]
            found.append(([ord(each) for each in text], [-1.0] * len(text)))
        return found

    return generate
