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
_THOUGHT_TAGS = re.compile(
    r"(?:\s|[<\[◁][^<>\[\]\s]*(?:think|thought|reason|reflect|analysis)[^<>\[\]\s]*[>\]▷])*\Z",
    re.IGNORECASE,
)
"""Pattern of the white space and the tags of thoughts that end a text: `<think> </think>`, but not
`<|im_start|>assistant`."""


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

    A template may write white space before a reply (Mistral, Vicuna): the policy samples it with
    the reply.

    Raises `UsageError` if the template does not open replies, or does not keep prefixes: it renders
    an earlier part of a conversation differently when messages follow, so the policy would not be
    trained on what it saw when it sampled.
    """
    chat = _TemplateChat(tokenizer, template)
    chat.require_prefixes(keep_thoughts)
    chat.end_ids = frozenset(
        {tokenizer.eos_token_id, *chat.rest([*_OPENING, _ANSWER, _NEXT], 3)[1][:1]}
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
        new, end = self.rest(messages, known)
        # the policy may have sampled the end of its turn itself
        return ids + (end[1:] if end and ids[-1:] == end[:1] else new)

    def rest(self, messages: Sequence[Message], known: int) -> tuple[list[int], list[int]]:
        """Return the ids after the reply `messages[known - 1]`; and the same from the end of the
        turn on, without the white space that a template may write before it (Llama 2)."""
        reply: Message = {"role": "assistant", "content": _REPLY}
        marked = [*messages[: known - 1], reply, *messages[known:]]
        text = self._render(marked).rpartition(_REPLY)[2]
        new, end = self._ids(text), self._ids(text.lstrip())
        return new, end if self._special.intersection(end[:1]) else new

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
        prompt = self._render(_OPENING)
        history = self._render([*_OPENING, {**_ANSWER, "content": _REPLY}, _NEXT])
        written, reply, _ = history.partition(_REPLY)
        question = _bare(self._render(_OPENING, opening=False))
        header = _bare(written).removeprefix(question)
        if reply and header and _bare(prompt) == question and written.startswith(question):
            raise UsageError(
                f"the chat template does not open replies: it writes {header.strip()!r} before "
                "earlier replies, but not at the end of a prompt (add_generation_prompt); "
                "give hf_chat a template that does"
            )
        if change := self._change(prompt, written, keep_thoughts):
            helps = reply and not keep_thoughts and not self._change(prompt, written, True)
            advice = ", or keep_thoughts=True, so that replies stay as sampled" if helps else ""
            raise UsageError(
                "the chat template does not keep prefixes: after the next message, "
                f"it renders {change[0]!r} as {change[1]!r}; "
                f"give hf_chat a template that only appends{advice}"
            )
        if not reply:
            raise UsageError(
                "the chat template leaves out earlier replies; "
                "give hf_chat a template that renders them"
            )

    def _change(self, prompt: str, written: str, keep_thoughts: bool) -> tuple[str, str] | None:
        """Return where a prompt with its reply is rendered differently when a message follows, as
        two pieces of text; None if nowhere. Then `written` stands before the reply."""
        blank = written.removeprefix(prompt)
        start = _bare(prompt) if keep_thoughts else prompt + ("" if blank.strip() else blank)
        for reply in _REPLIES:
            expected = start if keep_thoughts else start + reply
            after = self._render([*_OPENING, {**_ANSWER, "content": reply}, _NEXT])
            if not after.startswith(expected):
                pairs = enumerate(zip(expected, after, strict=False))
                common = next((at for at, (a, b) in pairs if a != b), len(after))
                around = slice(max(0, common - 20), common + 20)
                return expected[around], after[around]
        return None

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


def _bare(text: str) -> str:
    """Return a text without the white space and the tags of thoughts that end it."""
    return _THOUGHT_TAGS.sub("", text, count=1)


def _control_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern of the first character of each control token.

    These are all tokens that were added to the vocabulary, except spaces and single characters:
    tokenizers do not mark all of them as special, for example `<think>` and `<｜User｜>`.
    """
    added = [token.content for token in tokenizer.added_tokens_decoder.values()]
    tokens = [text for text in added if len(text.strip()) > 1]
    if not tokens:
        return re.compile("(?!)")
    firsts = "".join(sorted({re.escape(text[0]) for text in tokens}))
    rests = "|".join(sorted({re.escape(text[1:]) for text in tokens}))
    return re.compile(f"[{firsts}](?={rests})")
