"""Turn conversations into token ids, by appending: ids that were sampled are never encoded again
from their text.

    encode(question 1)                 <user> list files <assistant>
    sampled                                                         ls <end>
    append(those ids, question 2, 2)   <user> list files <assistant>ls <end> <user> a b <assistant>
                                       ──────────── unchanged ──────────────

What an observation prints never becomes a control token: a text such as `<|im_end|>` is cut in two,
and its halves are encoded apart.

With tools, the template renders them, and the calls are read from the sampled text: the reply stays
as it was sampled, and the results are what the template appends.

    encode(question 1)   <user> (tools) list files <assistant>
    sampled                                                   <tool_call>{…}</tool_call> <end>
    append(…)                                                      … <tool> a b <assistant>

Left out: forms of calls other than `CALL_FORMS` and those that `learn_form` reads.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, runtime_checkable

from intercode.agents.code import CALL_FORMS, read_calls
from intercode.errors import UsageError
from intercode.models.forms import with_objects
from intercode.train.calls import CALL_TAG, Example, Reader, calling, learn_form
from intercode.types import Message, Tool, ToolCall

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
_RESULT: Message = {"role": "tool", "content": "a b", "tool_call_id": "call00200"}
_EXECUTE: Example = ("execute", {"code": _REPLY})
_CALLED = [*_OPENING, calling([_EXECUTE]), _RESULT]
_EXAMPLES: list[Example] = [
    ("execute", {"code": "print('a', \"b\")\n# <c> & \\d"}),
    ("submit", {}),
]
"""Calls that test how a form is read."""
_ADVICE = "give hf_chat another template, or choose an agent that writes code as text"
_THOUGHT_TAGS = re.compile(
    r"(?:\s|[<\[◁][^<>\[\]\s]*(?:think|thought|reason|reflect|analysis)[^<>\[\]\s]*[>\]▷])*\Z",
    re.IGNORECASE,
)
"""Pattern of the white space and the tags of thoughts that end a text: `<think> </think>`, but not
`<|im_start|>assistant`."""


class Chat(Protocol):
    """The tokens of a policy's conversations. Many threads use one chat at once.

    A chat may have an attribute `end_ids`, the ids that end a reply: a reply as long as the limit
    that ends so is not cut off. For agents that call tools, it has a method `with_tools(tools)`,
    which returns a `ToolChat`.
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


@runtime_checkable
class ToolChat(Chat, Protocol):
    """A chat that renders tools in its prompts."""

    def split(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        """Return the text of a reply without its calls, and the calls."""
        ...


def hf_chat(tokenizer: Any, template: str | None = None, *, keep_thoughts: bool = False) -> Chat:
    """Return the chat of a tokenizer of `transformers`; `template` replaces the chat template of
    the tokenizer.

    In messages of all roles but the assistant's, the text of a control token becomes ordinary ids.

    With `keep_thoughts`, earlier thoughts stay in the conversation as they were sampled, though the
    template would drop them, and the template may open a thought in the prompt.

    A template may write white space before a reply (Mistral, Vicuna): the policy samples it with
    the reply.

    The system message is put before the text of the first user message if the template refuses it
    (Gemma) or moves it to later messages (Mistral), which is found by trying.

    For an agent that calls tools, the chat renders them with the template, once, in the first
    prompt. The form of calls is the one in which the template writes them; if it writes one call
    per reply (Llama 3, gpt-oss), only the first call of a reply is read. Text beside a call stays
    where it was sampled. White space that the template adds to a result when messages follow
    (Hermes) is left out.

    Raises `UsageError` if the template does not open replies, or does not keep prefixes: it renders
    an earlier part of a conversation differently when messages follow, so the policy would not be
    trained on what it saw when it sampled. If the template does not render tools, the first prompt
    with tools raises `UsageError`.
    """
    chat = _TemplateChat(tokenizer, template, keep_thoughts)
    try:
        chat.require_prefixes()
    except UsageError as refusal:
        chat.folds = True
        try:
            chat.require_prefixes()
        except UsageError:  # the first reason is about the messages as they are
            raise refusal from refusal.__cause__
    chat.find_ends()
    return chat


class _TemplateChat:
    """A chat of a template. If it `folds`, the system message becomes part of the first user
    message."""

    def __init__(self, tokenizer: Any, template: str | None, keep_thoughts: bool) -> None:
        self._tokenizer, self._template, self._lock = tokenizer, template, threading.Lock()
        self.keep_thoughts, self.folds = keep_thoughts, False
        self.tools: Sequence[Tool] = ()
        self._special = frozenset(tokenizer.all_special_ids)
        self._control = control_tokens(tokenizer)
        self._with_tools: dict[str, _TemplateToolChat] = {}
        self.end_ids: frozenset[int] = frozenset()

    def find_ends(self) -> None:
        """Set `end_ids`: the end of a text, and what the template writes first after a reply. Those
        that are control tokens are no part of a reply's text."""
        ends = self.rest([*_OPENING, _ANSWER, _NEXT], 3)[1][:1]
        self.end_ids = frozenset({self._tokenizer.eos_token_id, *ends})
        added = self._tokenizer.added_tokens_decoder
        self._special |= self.end_ids.intersection(added)

    def with_tools(self, tools: Sequence[Tool]) -> ToolChat:
        """Return the chat with these tools. Raises `UsageError` if the template does not render
        them, or writes calls in a form that is not known."""
        key = json.dumps(list(tools))
        if key not in self._with_tools:
            self._with_tools[key] = _TemplateToolChat(self, tools)
        return self._with_tools[key]

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return self.ids(self.render(messages, tools=self.tools))

    def append(self, ids: list[int], messages: Sequence[Message], known: int) -> list[int]:
        new, end = self.rest(messages, known)
        if end and ids[-1:] == end[:1]:  # the policy has sampled the end of its turn itself
            new = end[1:]
        return ids + new

    def rest(self, messages: Sequence[Message], known: int) -> tuple[list[int], list[int]]:
        """Return the ids after the reply `messages[known - 1]`; and the same from the end of the
        turn on, without the white space that a template may write before it (Llama 2)."""
        text = self.text_after({"role": "assistant", "content": _REPLY}, messages, known)
        new, end = self.ids(text), self.ids(text.lstrip())
        if not self._special.intersection(end[:1]):
            end = new
        return new, end

    def text_after(self, reply: Message, messages: Sequence[Message], known: int) -> str:
        """Return what the template writes after `_REPLY` in `reply`, which replaces
        `messages[known - 1]`."""
        earlier = []
        for message in messages[: known - 1]:
            if message["role"] == "assistant":  # as sampled, it may be an error (gpt-oss)
                message = {**message, "content": _ANSWER["content"]}
            earlier.append(message)
        return self.render([*earlier, reply, *messages[known:]]).rpartition(_REPLY)[2]

    def decode(self, token_ids: Sequence[int]) -> str:
        ids = list(token_ids)
        while ids and ids[-1] in self._special:
            ids.pop()
        with self._lock:  # special tokens in the middle stay: they may mark reasoning
            return str(
                self._tokenizer.decode(
                    ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
                )
            )

    def require_prefixes(self) -> None:
        """Raise `UsageError` unless `append` continues what the template renders."""
        prompt = self.render(_OPENING)
        history = self.render([*_OPENING, {**_ANSWER, "content": _REPLY}, _NEXT])
        written, reply, _ = history.partition(_REPLY)
        question = _bare(self.render(_OPENING, opening=False))
        header = _bare(written).removeprefix(question)
        if reply and header and _bare(prompt) == question and written.startswith(question):
            raise UsageError(
                f"the chat template does not open replies: it writes {header.strip()!r} before "
                "earlier replies, but not at the end of a prompt (add_generation_prompt); "
                "give hf_chat a template that does"
            )
        if change := self._change(prompt, written, self.keep_thoughts):
            expected, after = change
            advice = ""
            if reply and not self.keep_thoughts and not self._change(prompt, written, True):
                advice = ", or keep_thoughts=True, so that replies stay as sampled"
            raise UsageError(
                "the chat template does not keep prefixes: after the next message, "
                f"it renders {expected!r} as {after!r}; "
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
        start, blank = prompt, written.removeprefix(prompt)
        if not blank.strip():
            start += blank
        for reply in _REPLIES:
            expected = _bare(prompt) if keep_thoughts else start + reply
            after = self.render([*_OPENING, {**_ANSWER, "content": reply}, _NEXT])
            if not after.startswith(expected):
                at = 0
                while after[at : at + 1] == expected[at]:
                    at += 1
                around = slice(max(0, at - 20), at + 20)
                return expected[around], after[around]
        return None

    def render(
        self, messages: Sequence[Message], *, opening: bool = True, tools: Sequence[Tool] = ()
    ) -> str:
        """Return the text of a conversation, with a `_CUT` in each forged control token; `opening`:
        and the opening of a reply."""
        options: dict[str, Any] = {}
        if self._template:
            options["chat_template"] = self._template
        if tools:
            options["tools"] = list(tools)
        if self.folds and [message["role"] for message in messages[:2]] == ["system", "user"]:
            system, user, *following = messages
            text = f"{system['content']}\n\n{user['content']}"
            messages = [{**user, "content": text}, *following]
        safe = []
        for message in messages:
            content = message.get("content")
            if message["role"] == "assistant" or not isinstance(content, str):
                message = with_objects(message)
            else:
                message = {**message, "content": self._control.sub(rf"\g<0>{_CUT}", content)}
            safe.append(message)
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                safe, tokenize=False, add_generation_prompt=opening, **options
            )
        except Exception as error:  # from the template, which is the user's
            raise UsageError(
                f"the chat template cannot render a conversation ({error}); "
                "give hf_chat another template"
            ) from error
        return rendered

    def ids(self, text: str) -> list[int]:
        ids = []
        with self._lock:
            for part in text.split(_CUT):
                ids += self._tokenizer.encode(part, add_special_tokens=False)
        return ids


class _TemplateToolChat(_TemplateChat):
    """A chat of a template that renders `tools`. After results, `_header` opens the next reply if
    the template opens it only once the reply is there."""

    def __init__(self, chat: _TemplateChat, tools: Sequence[Tool]) -> None:
        vars(self).update(vars(chat))
        self.tools, self._header = tools, ""
        self._most: int | None = None
        prompt = self.render(_OPENING, tools=tools)
        if prompt == self.render(_OPENING):
            raise UsageError(f"the chat template does not render tools; {_ADVICE}")
        self._start = _bare(prompt) if self.keep_thoughts else prompt
        self._call_end = self._find_call_end()
        self.end_ids |= {*self.ids(self._call_end)[:1]}
        self._special |= self.end_ids.intersection(self._tokenizer.added_tokens_decoder)
        self._require_results()
        self._read = self._find_reader()

    def rest(self, messages: Sequence[Message], known: int) -> tuple[list[int], list[int]]:
        if not messages[known - 1].get("tool_calls"):
            return super().rest(messages, known)
        new = self.ids(self._text_after_call(messages, known))
        return new, new

    def split(self, text: str) -> tuple[str, tuple[ToolCall, ...]]:
        text, calls = self._read(text)
        return text, calls[: self._most]

    def _text_after_call(self, messages: Sequence[Message], known: int) -> str:
        """Return what the template writes from the end of the reply `messages[known - 1]`, which
        has calls, on. Results may repeat the names and the ids of the calls."""
        calls = []
        for call in messages[known - 1]["tool_calls"]:
            name = call["function"]["name"]
            if not name.isidentifier():
                name = "unknown"
            function = {"name": name, "arguments": json.dumps(_EXECUTE[1])}
            calls.append({**call, "function": function})
        text = self.text_after({**_ANSWER, "content": "", "tool_calls": calls}, messages, known)
        return text[text.index(self._call_end) :] + self._header

    def _written(self, calls: Sequence[Example]) -> str:
        """Return what the template writes as a reply with these calls, to the end of the last."""
        reply = calling(calls[: self._most])
        results = [{**_RESULT, "tool_call_id": call["id"]} for call in reply["tool_calls"]]
        text = self.render([*_OPENING, reply, *results], tools=self.tools)
        return text.removeprefix(self._start).partition(self._call_end)[0]

    def _find_call_end(self) -> str:
        """Return the control token with which the template ends a reply that calls a tool."""
        text = self.render(_CALLED, tools=self.tools)
        _, reply, after = text.rpartition(_REPLY)
        tags = [tag.end() for tag in CALL_TAG.finditer(after)]
        end = self._control.search(after, max(tags, default=0))
        if not (text.startswith(self._start) and reply and end):
            written = text.removeprefix(self._start).replace(_REPLY, "ls")
            raise UsageError(
                "the chat template does not render tool calls after tools: it writes a call and "
                f"its result as {written!r:.200}; {_ADVICE}"
            )
        return str(self._tokenizer.decode(self.ids(after[end.start() :])[:1]))

    def _require_results(self) -> None:
        """Raise `UsageError` unless `append` continues what the template renders after a call; set
        the `_header`."""
        text = self.render(_CALLED, tools=self.tools)
        longer = self.render([*_CALLED, *_CALLED[2:]], tools=self.tools)
        if text == self.render(_CALLED, opening=False, tools=self.tools):
            written = self._written([_EXECUTE]).strip()
            self._header = longer.removeprefix(text).partition(written)[0]
        text += self._header
        start = _bare(text) if self.keep_thoughts else text
        appended = text.endswith(self._text_after_call(_CALLED, 3))
        if not (appended and _squeezed(longer).startswith(_squeezed(start))):
            raise UsageError(
                "the chat template does not keep prefixes: it renders the result of a tool "
                f"differently when messages follow; {_ADVICE}"
            )

    def _find_reader(self) -> Reader:
        """Return the function that reads calls in the form of the template; set `_most`, to 1 if
        the template writes one call per reply."""
        two = 0
        with suppress(UsageError):
            two = self._written([_EXECUTE, _EXECUTE]).count(_REPLY)
        if two < 2:
            self._most = 1
        readers: list[Reader] = [partial(read_calls, form=form) for form in CALL_FORMS]
        if form := learn_form(self._written, self.tools):
            readers.append(form)
        for reader in readers:
            calls = reader(self._written(_EXAMPLES))[1]
            read = [(call.name, call.arguments) for call in calls]
            if read == [(name, json.dumps(values)) for name, values in _EXAMPLES][: self._most]:
                return reader
        example = self._written([("execute", {"code": "ls"})]).strip()
        raise UsageError(
            f"the chat template writes tool calls as {example!r:.200}, which cannot be read; "
            f"{_ADVICE}"
        )


def _squeezed(text: str) -> str:
    """Return a text without white space."""
    return "".join(text.split())


def _bare(text: str) -> str:
    """Return a text without the white space and the tags of thoughts that end it."""
    return _THOUGHT_TAGS.sub("", text, count=1)


def control_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern of the first character of each control token.

    These are all tokens that were added to the vocabulary, except spaces and single characters:
    tokenizers do not mark all of them as special, for example `<think>` and `<｜User｜>`.
    """
    firsts, rests = set[str](), set[str]()
    for token in tokenizer.added_tokens_decoder.values():
        if len(token.content.strip()) > 1:
            firsts.add(re.escape(token.content[0]))
            rests.add(re.escape(token.content[1:]))
    if not firsts:
        return re.compile("(?!)")
    return re.compile(f"[{''.join(sorted(firsts))}](?={'|'.join(sorted(rests))})")
