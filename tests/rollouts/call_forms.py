"""Conversations with tool calls in the form of a chat template, for tests.

Conversations(template).play(10)   ten random replies, and what `hf_chat` makes of each

The reference is the template's own rendering of the whole conversation: of it, the part after each
reply.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from policies import make_tokenizer

from intercode.agents.tools import ANSWER, EXECUTE
from intercode.train import hf_chat
from intercode.types import Message

Calls = list[tuple[str, dict[str, str]]]
CONTROL = re.compile(r"<\|[^|<>\s]{1,40}\|>|<\|[a-z_]+>|<[a-z_]+\|>|</?tool_call>|</?think>")
END = re.compile(
    r"<\|im_end\|>|<\|eot(?:_id)?\|>|<turn\|>|<\|tool_response>|<\|observation\|>|<\|user\|>"
    r"|<\|call\|>|<\|end\|>"
)
PROSE = "I look at the files first."
OPENING: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Count the files."},
]
ANSWERS = {name: {"type": "string", "description": text} for name, text in ANSWER.items()}
OFFERED: list[Any] = [
    EXECUTE,
    {
        "type": "function",
        "function": {
            "name": "submit",
            "description": "Submit the work and finish.",
            "parameters": {"type": "object", "properties": ANSWERS, "required": []},
        },
    },
]
"""The tools that the agent offers."""
CALLS = [
    [("execute", {"code": "ls -l"})],
    [("execute", {"code": "12"}), ("execute", {"code": "echo 'a' \"b\"\nwc -l"})],
    [],
    [("submit", {"answer": "true"})],
]
"""The calls of successive replies."""


def tokenizer_of(template: str) -> Any:
    """A tokenizer with the control tokens of a template."""
    from transformers import AddedToken

    tokenizer = make_tokenizer(template)
    texts = sorted({*CONTROL.findall(template)} - {"<|im_start|>", "<|im_end|>"})
    added = [AddedToken(text, special=True, normalized=False) for text in texts]
    tokenizer.add_tokens(added, special_tokens=True)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    return tokenizer


def calling(calls: Sequence[tuple[str, Any]], number: int = 0) -> Message:
    written = []
    for at, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        written.append({"id": f"call{number:03}{at:02}", "type": "function", "function": function})
    return {"role": "assistant", "content": "", "tool_calls": written}


class Conversations:
    """Plays conversations of random replies, and compares each prompt."""

    def __init__(self, template: str, seed: int = 0) -> None:
        self.tokenizer = tokenizer_of(template)
        chat: Any = hf_chat(self.tokenizer, keep_thoughts=True)
        self.chat = chat.with_tools(OFFERED)
        self.chance = random.Random(seed)
        self.control = {*self.tokenizer.added_tokens_decoder}
        self.texts = sorted({*CONTROL.findall(template)})
        self.prompt = self.render(OPENING, opening=True)
        self.start = re.sub(r"(?:\s|</?think>)*\Z", "", self.prompt)
        self.kinds = dict.fromkeys(["call", "two", "none", "unknown", "torn", "prose"], 0)
        if self.written([("execute", {"code": "zq"})] * 2).count("zq") < 2:
            del self.kinds["two"]

    def render(
        self, messages: Sequence[Message], *, opening: bool = False, tools: Sequence[Any] = OFFERED
    ) -> str:
        text: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=opening, tools=tools
        )
        return text

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def written(self, calls: Calls, prose: str = "") -> str:
        """The text of a reply, as the template writes it, without its end."""

        def after_prompt(mark: str = "") -> str:
            message: Message = {"role": "assistant", "content": mark or prose}
            answer: Message = {"role": "user", "content": "zr"}
            if calls:
                marked = []
                for name, arguments in calls:
                    marked.append((name, {key: mark or arguments[key] for key in arguments}))
                message = calling(marked)
                answer = {"role": "tool", "content": "zr", "tool_call_id": "call00000"}
            text = self.render([*OPENING, message, answer])
            if text.startswith(self.prompt):
                return text.removeprefix(self.prompt)
            return text.removeprefix(self.start)

        try:
            plain = after_prompt("zq")
        except Exception:  # the template's: it writes one call per reply
            return ""
        end = END.search(plain, max(plain.rfind("zq"), 0))
        assert end
        return after_prompt().removesuffix(plain[end.start() :])

    def play(self, turns: int) -> None:
        messages, record = list(OPENING), list(OPENING)
        ids, text = list(self.chat.encode(OPENING)), self.prompt
        assert self.tokenizer.decode(ids) == text
        for number in range(turns):
            kind = self.chance.choice([*self.kinds])
            self.kinds[kind] += 1
            calls, written, sampled = self.sample(kind)
            reply, read = self.chat.split(self.chat.decode(self.encode(sampled)))
            if kind == "torn":
                assert [call.name for call in read] == [""], sampled
            else:
                assert [(call.name, json.loads(call.arguments)) for call in read] == calls, sampled
            message: Message = {"role": "assistant", "content": PROSE}
            sent: Message = {"role": "assistant", "content": reply}
            answers: list[Message] = [{"role": "user", "content": self.forged()}]
            if calls:
                message, answers = calling(calls, number), []
                sent = calling([(call.name, call.arguments) for call in read], number)
                for call in message["tool_calls"]:
                    answer = {"role": "tool", "content": self.forged(), "tool_call_id": call["id"]}
                    answers.append(answer)
            harmless = [{**answer, "content": "x"} for answer in answers]
            after = self.after(written, [*messages, message, *answers])
            after_harmless = self.after(written, [*messages, message, *harmless])

            end = END.match(after)
            assert end
            prompt = [*ids, *self.encode(sampled)]
            ended = self.encode(end[0]) if self.chance.random() < 0.7 else []
            record += [sent, *answers]
            new = self.chat.append([*prompt, *ended], record, len(messages) + 1)
            text += sampled + after
            assert self.tokenizer.decode(new) == text
            assert new[: len(prompt)] == prompt, "never encoded again"
            expected = [*prompt, *self.encode(after_harmless)]
            assert [id for id in new if id in self.control] == [
                id for id in expected if id in self.control
            ], "the template's alone"
            messages += [message, *answers]
            ids = new

    def sample(self, kind: str) -> tuple[Calls, str, str]:
        """The calls of a reply, its text as the template writes it, and the text sampled."""
        calls: Calls = [("execute", {"code": self.code()})]
        if kind == "prose":
            prose = self.written([], PROSE)
            return [], prose, prose
        if kind == "torn":
            calls = [("unknown", {"code": "ls"})]
            written = self.written(calls)
            return calls, written, written.replace("unknown", "un known").replace('{"co', "{co")
        if kind == "two":
            calls += [self.chance.choice([("execute", {"code": self.code()}), ("submit", {})])]
        elif kind == "none":
            calls = [("submit", {})]
        elif kind == "unknown":
            calls = [("fly", {"code": self.code()})]
        return calls, self.written(calls), self.written(calls)

    def after(self, written: str, messages: Sequence[Message]) -> str:
        """What the template writes after its last reply."""
        text = self.render(messages, opening=True)
        if text == self.render(messages):
            longer = self.render([*messages, {"role": "assistant", "content": "zs"}])
            text = longer.rpartition("zs")[0]
        last = re.split(r"</?think>", written)[-1].lstrip()
        assert last in text
        return text.rpartition(last)[2]

    def code(self) -> str:
        codes = ["ls /box", "printf '%s' \"λ\" > 'a b'\nfalse \\\\", "  x = {1: 'a'}"]
        tokens = [text for text in self.texts if "think" not in text]
        first, second = self.chance.choices(tokens, k=2)
        return f"{self.chance.choice(codes)} # {first} </parameter> {second}"

    def forged(self) -> str:
        first, second = self.chance.choices(self.texts, k=2)
        return f"{first}a{second}{first}<{first}\n[9 left]"
