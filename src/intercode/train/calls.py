r"""The form in which a chat template writes tool calls, learned from calls that it renders.

    <tool_call>\n<function=  execute  >\n<parameter=  code  >\n   ls    \n</parameter>  </tool_call>
    mark       opening       name     before         key   head  value foot           tag

`learn_form` renders calls whose names, keys and values it recognizes, and takes the text between
them. This reads the XML of Qwen 3.5 and Nemotron 3, the forms of Gemma 4, GLM 4, LFM 2 and Muse,
and gpt-oss, whose arguments are a JSON object. Calls that are JSON with their names have one of the
`CALL_FORMS`.

Left out: values other than text, except in JSON; and a value that contains the end of a call, in a
form without escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from intercode.agents.code import take_calls
from intercode.types import Message, Tool, ToolCall

Example = tuple[str, Mapping[str, str]]
"""The name and the arguments of a call."""
Write = Callable[[Sequence[Example]], str]
"""Renders a reply with calls, to the end of the last call."""
Reader = Callable[[str], tuple[str, tuple[ToolCall, ...]]]
"""Returns the text of a reply without its calls, and the calls; see `take_calls`."""

_TAG = r"\]?<[/|｜]{0,2}[\w:▁]*[_▁]calls?(?:[_▁]\w+)?[|｜]?>\[?"
CALL_TAG = re.compile(_TAG)
"""A tag around calls: ``<tool_call>``, ``]<|tool_call_end|>``, ``</atem:function_calls>``; not
``<|call|>`` or ``<tool_response>``."""
_BEFORE = re.compile(rf"(?:.*(?={_TAG})|\s*)(?P<mark>{_TAG}|.*)(?P<opening>.*)", re.DOTALL)
_LAST_TAG = re.compile(rf"\s*({_TAG}|\])?\s*\Z")
_VALUE = "valueA '\"<&>\\\n valueZ"
_VALUES = re.compile(r"valueA.*?valueZ", re.DOTALL)
_ONE: Example = ("nameZ", {"keyA": _VALUE})
_TWO: Example = ("nameZ", {"keyA": _VALUE, "keyB": _VALUE})
_NEVER = "(?!)"
_OBJECT = r'\{(?:"(?:[^"\\]|\\.)*+"|[^"{}])*\}'
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class _Arguments(NamedTuple):
    """Patterns of the `arguments` of a call, and of the text `between` it and another; and the
    function that returns their values as JSON."""

    pattern: str
    between: str
    values: Callable[[str], str]


def calling(calls: Sequence[Example]) -> Message:
    """Return a reply with these calls."""
    written = []
    for number, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        written.append({"id": f"call0020{number}", "type": "function", "function": function})
    return {"role": "assistant", "content": "", "tool_calls": written}


def learn_form(write: Write, tools: Sequence[Tool]) -> Reader | None:
    """Return the reader of the form in which `write` renders calls of these tools; None if it
    cannot be read."""
    words = list[str]()
    for tool in tools:
        words += [tool["function"]["name"], *tool["function"]["parameters"]["properties"]]
    known = "|".join(map(re.escape, words))
    before, _, after = write([_ONE]).rpartition("nameZ")
    start = _BEFORE.fullmatch(before)
    if not (start and start["mark"] and len(_VALUES.findall(after)) == 1):
        return None
    mark = re.escape(start["mark"])
    if not re.search(r"\w", mark):  # a bracket, which is a mark only as the beginning of a reply
        mark = rf"\A\s*{mark}"
    pattern, between, values = _object(after) or _texts(write, after, known)
    closing = r"\]?\s*\Z"
    if tag := _LAST_TAG.split(after, 1)[1]:
        closing = rf"{re.escape(tag)}|{closing}"
    call = rf"(?>(?P<name>\w+)(?:{pattern})(?=\s*(?:{closing})|{between}(?:{known})\b))"
    opening, unnamed = _loose(start["opening"]), re.sub(r"\?P<\w+>", "", call)
    whole = rf"(?P<whole>{opening}{unnamed}(?:{between}{unnamed})*\s*(?:{closing}))"
    region = rf"{mark}(?P<calls>{whole}|.*?(?={closing}))(?:{closing})?"
    one = re.compile(rf"(?:{opening}|{between}){call}", re.DOTALL)

    def calls(region: re.Match[str]) -> Iterator[ToolCall]:
        for match in one.finditer(region["whole"] or ""):
            yield ToolCall("", match["name"], values(match["arguments"] or ""))

    return partial(take_calls, regions=re.compile(region, re.DOTALL), read=calls)


def _object(after: str) -> _Arguments | None:
    """Return the arguments if they are a JSON object."""
    with suppress(ValueError):
        arguments, _ = json.JSONDecoder().raw_decode(after, max(0, after.find("{")))
        if arguments == _ONE[1]:
            return _Arguments(rf"[^{{}}]{{0,99}}?(?P<arguments>{_OBJECT})", _NEVER, str)
    return None


def _texts(write: Write, after: str, known: str) -> _Arguments:
    """Return the arguments if each is a text with its key."""
    before, foot = _VALUES.split(after)
    before, _, head = before.partition("keyA")
    foot, head, between = _LAST_TAG.split(foot, 1)[0], _loose(head), _NEVER
    if two := _VALUES.split(write([_ONE, _ONE]))[1:-1]:
        between = _loose(two[0].rpartition("nameZ")[0].removeprefix(foot))
    empty = _LAST_TAG.split(write([("nameZ", {})]).rpartition("nameZ")[2], 1)[0]
    separator = _VALUES.split(write([_TWO]))[1].partition("keyB")[0]
    if "<" in separator:  # else a text may look like it: `, end=`
        known = r"\w+"
    separator = _loose(separator)
    pairs, escape = rf"\w+{head}.*?", _NEVER
    if _VALUE not in after:
        escape = r"\\(.)"
        pair = rf"\w+{head}(?:\\.|[^\\{re.escape(foot[:1])}])*+"
        pairs = rf"{pair}(?:{separator}{pair})*"
    pattern = rf"{_loose(before)}(?P<arguments>{pairs}){_loose(foot)}|{_loose(empty)}"
    key = rf"(?:\A|{separator})({known}){head}"

    def values(text: str) -> str:
        _, *parts = re.split(key, text)
        texts = [re.sub(escape, _unescaped, part, flags=re.DOTALL) for part in parts[1::2]]
        return json.dumps(dict(zip(parts[::2], texts, strict=True)))

    return _Arguments(pattern, between, values)


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])


def _loose(text: str) -> str:
    """Return the pattern of a text whose white space may vary inside and be missing at its ends."""
    inner, edge = r"\s*".join(map(re.escape, text.split())), r"\s?"
    return edge * text[:1].isspace() + inner + edge * text[-1:].isspace()
