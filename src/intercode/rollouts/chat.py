"""Turn conversations into token ids, by appending: ids that were sampled are never encoded again
from their text.

    encode(question 1)                 <user> list files <assistant>
    sampled                                                         ls <end>
    append(those ids, question 2, 2)   <user> list files <assistant>ls <end> <user> a b <assistant>
                                       ──────────── unchanged ──────────────

What an observation prints never becomes a control token: a text such as `<|im_end|>` is cut in two,
and its halves are encoded apart.

Left out: tool calls, which a model server encodes.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from intercode.errors import UsageError
from intercode.types import Message

_REPLY, _CUT = secrets.token_hex(16), secrets.token_hex(16)
"""Marks in a rendered conversation, which no observation can contain: the place of a reply, and the
inside of a text that looks like a control token."""
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


def hf_chat(tokenizer: Any, template: str | None = None, *, keep_thoughts: bool = False) -> Chat:
    """Return the chat of a tokenizer of `transformers`; `template` replaces the chat template of
    the tokenizer.

    In messages of all roles but the assistant's, the text of a control token becomes ordinary ids.

    With `keep_thoughts`, earlier thoughts stay in the conversation as they were sampled, though the
    template would drop them, and the template may open a thought in the prompt.

    Raises `UsageError` if the template does not keep prefixes: it renders an earlier part of a
    conversation differently when messages follow, so the policy would not be trained on what it saw
    when it sampled.
    """
    chat = _TemplateChat(tokenizer, template)
    chat.require_prefixes(keep_thoughts)
    chat.end_ids = frozenset(
        {tokenizer.eos_token_id, *chat.append([], [*_OPENING, _ANSWER, _NEXT], 3)[:1]}
    )
    return chat


class _TemplateChat:
    def __init__(self, tokenizer: Any, template: str | None) -> None:
        self._tokenizer, self._template, self._lock = tokenizer, template, threading.Lock()
        self._special = frozenset(tokenizer.all_special_ids)
        self._control = _control_tokens(tokenizer)
        self.end_ids: frozenset[int] = frozenset()

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return self._ids(self._render(messages))

    def append(self, ids: list[int], messages: Sequence[Message], known: int) -> list[int]:
        marked = [
            *messages[: known - 1],
            {"role": "assistant", "content": _REPLY},
            *messages[known:],
        ]
        new = self._ids(self._render(marked).rpartition(_REPLY)[2])
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

    def require_prefixes(self, keep_thoughts: bool) -> None:
        """Raise `UsageError` unless `append` continues what the template renders."""
        for reply in _REPLIES:
            before = self._render(_OPENING, opening=not keep_thoughts)
            expected = before if keep_thoughts else before + reply
            after = self._render([*_OPENING, {**_ANSWER, "content": reply}, _NEXT])
            if not after.startswith(expected):
                pairs = enumerate(zip(expected, after, strict=False))
                common = next((at for at, (a, b) in pairs if a != b), len(after))
                raise UsageError(
                    "the chat template does not keep prefixes: after the next message, "
                    f"it renders {expected[max(0, common - 20) : common + 20]!r} as "
                    f"{after[max(0, common - 20) : common + 20]!r}; "
                    "give hf_chat a template that only appends, "
                    "or keep_thoughts=True if only thoughts change"
                )
        if _REPLY not in self._render([*_OPENING, {**_ANSWER, "content": _REPLY}, _NEXT]):
            raise UsageError(
                "the chat template leaves out earlier replies; "
                "give hf_chat a template that renders them"
            )

    def _render(self, messages: Sequence[Message], *, opening: bool = True) -> str:
        """Return the text of a conversation, with a `_CUT` in each forged control token; `opening`:
        and the opening of a reply."""
        options = {"chat_template": self._template} if self._template else {}
        safe = [
            {**message, "content": self._control.sub(rf"\g<0>{_CUT}", content)}
            if message["role"] != "assistant" and isinstance(content := message.get("content"), str)
            else message
            for message in messages
        ]
        try:
            text: str = self._tokenizer.apply_chat_template(
                safe, tokenize=False, add_generation_prompt=opening, **options
            )
        except Exception as error:  # from the template, which is the user's
            raise UsageError(
                f"the chat template cannot render a conversation ({error}); "
                "give hf_chat another template"
            ) from error
        return text

    def _ids(self, text: str) -> list[int]:
        with self._lock:
            return [
                token
                for part in text.split(_CUT)
                for token in self._tokenizer.encode(part, add_special_tokens=False)
            ]


def _control_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern of the first character of each control token.

    These are all tokens that were added to the vocabulary, but blanks and single characters:
    tokenizers do not mark all of them as special, for example `<think>` and `<｜User｜>`.
    """
    added = [token.content for token in tokenizer.added_tokens_decoder.values()]
    tokens = [text for text in added if len(text.strip()) > 1]
    if not tokens:
        return re.compile("(?!)")
    firsts = "".join(sorted({re.escape(text[0]) for text in tokens}))
    rests = "|".join(sorted({re.escape(text[1:]) for text in tokens}))
    return re.compile(f"[{firsts}](?={rests})")
