"""Turn conversations into token ids, by appending: ids that were sampled are never encoded again
from their text.

    encode(question 1)                 <user> list files <assistant>
    sampled                                                         ls <end>
    append(those ids, question 2, 2)   <user> list files <assistant>ls <end> <user> a b <assistant>
                                       ──────────── unchanged ──────────────

Left out: tool calls, which a model server encodes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from intercode.errors import UsageError
from intercode.types import Message

_MARK = "REPLYxREPLY"
_OPENING: list[Message] = [
    {"role": "system", "content": "Solve the task."},
    {"role": "user", "content": "List the files."},
]
_ANSWER: Message = {"role": "assistant", "content": "ls"}
_NEXT: Message = {"role": "user", "content": "a b"}
_REPLIES = ("ls", "<think>\nI should look.\n</think>\n\n```bash\nls\n```")
"""Replies that test a template: plain, and with a thought that some templates remove later."""


class Chat(Protocol):
    """The tokens of a policy's conversations. Many threads use one chat at once.

    A chat may have an attribute `end_ids`, the ids that end a reply: a reply as long as the limit
    that ends so is not cut off.
    """

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a question, with the opening of the reply."""
        ...

    def append(self, ids: list[int], messages: Sequence[Message], known: int) -> list[int]:
        """Return `ids`, which end with the reply that is `messages[known - 1]`, then the messages
        after it and the opening."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a reply."""
        ...


def hf_chat(tokenizer: Any, template: str | None = None) -> Chat:
    """Return the chat of a tokenizer of `transformers`; `template` replaces the chat template of
    the tokenizer.

    Raises `UsageError` if the template does not keep prefixes: it renders an earlier part of a
    conversation differently when messages follow, so the policy would not be trained on what it saw
    when it sampled.
    """
    chat = _TemplateChat(tokenizer, template)
    chat.require_prefixes()
    chat.end_ids = frozenset(
        {tokenizer.eos_token_id, *chat.append([], [*_OPENING, _ANSWER, _NEXT], 3)[:1]}
    )
    return chat


class _TemplateChat:
    def __init__(self, tokenizer: Any, template: str | None) -> None:
        self._tokenizer, self._template, self._lock = tokenizer, template, threading.Lock()
        self._special = frozenset(tokenizer.all_special_ids)
        self.end_ids: frozenset[int] = frozenset()

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return self._ids(self._render(messages))

    def append(self, ids: list[int], messages: Sequence[Message], known: int) -> list[int]:
        marked = [
            *messages[: known - 1],
            {"role": "assistant", "content": _MARK},
            *messages[known:],
        ]
        new = self._ids(self._render(marked).rpartition(_MARK)[2])
        # the policy may have sampled the end of its turn itself
        return ids + (new[1:] if new and ids[-1:] == new[:1] else new)

    def decode(self, token_ids: Sequence[int]) -> str:
        ids = list(token_ids)
        while ids and ids[-1] in self._special:
            ids.pop()
        with self._lock:  # special tokens in the middle stay: they may mark reasoning
            text: str = self._tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        return text

    def require_prefixes(self) -> None:
        for reply in _REPLIES:
            before = self._render(_OPENING)
            answered = [*_OPENING, {**_ANSWER, "content": reply}, _NEXT]
            after = self._render(answered)
            if not after.startswith(before + reply):
                common = next(
                    at
                    for at in range(len(after) + 1)
                    if not (before + reply).startswith(after[: at + 1]) or at == len(after)
                )
                raise UsageError(
                    "the chat template does not keep prefixes: after the next message, "
                    f"it renders {(before + reply)[max(0, common - 20) : common + 20]!r} as "
                    f"{after[max(0, common - 20) : common + 20]!r}; "
                    "give hf_chat a template that only appends"
                )
            if _MARK not in self._render([*_OPENING, {**_ANSWER, "content": _MARK}, _NEXT]):
                raise UsageError(
                    "the chat template leaves out earlier replies; "
                    "give hf_chat a template that renders them"
                )

    def _render(self, messages: Sequence[Message]) -> str:
        options = {"chat_template": self._template} if self._template else {}
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, **options
            )
        except Exception as error:  # from the template, which is the user's
            raise UsageError(
                f"the chat template cannot render a conversation ({error}); "
                "give hf_chat another template"
            ) from error
        return text

    def _ids(self, text: str) -> list[int]:
        with self._lock:
            return list(self._tokenizer.encode(text, add_special_tokens=False))
