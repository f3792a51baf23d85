"""Find the one action in a model's reply.

    reply ──► without <think>…</think> ──► first mark?
      ├─ a wrapper, see below ──► the text inside
      ├─ fenced blocks ──► the first in the environment's language, else the first without one
      └─ none ──► a call written as text, `code`, `submit`, or text that is not an English sentence

Wrappers, of which the first in a reply counts, a fence included:

    Thought: …  Action: execute[CODE]    <bash>CODE</bash>
    Action: submit                       <tool_call>{…}</tool_call>

A block ends at the first closing fence of CommonMark at which the language calls it whole, so that
a fence in a here-document or a docstring is text. Reasoning has no action: it stands between tags,
or before a closing tag whose opening tag the server put into the prompt.

One reply is one action. Of several blocks the first is taken, since the model wrote the others
without seeing what the first one prints. For the same reason a last line `submit` after other code
is dropped, and so is an `Observation:` that the model made up. Where a submission takes no word
(Bash, SQL), `submit` with words after it is `submit`, unless the task takes an answer. A block in
another language (output, a transcript) is not an action. Entities such as `&lt;` stay, since code
may mean them.

Left out: guessing which of two commands a sentence without fences means.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from intercode.language import Language
from intercode.submission import ANSWER, is_submission
from intercode.types import ToolCall

MOST_BLOCKS = 50
"""Blocks that are read in one reply. A model that repeats itself may write thousands."""

_REASONING = (
    r"[\w:]{0,20}(?:think(?:ing)?|thoughts?|thinking_process|reasoning|reflections?|analysis"
    r"|scratchpad|monologue)"
)
_THINK = re.compile(
    rf"""(?<![^\s.!?:>\]])                           # not in quotes, such as grep '<think>'
    (?: <(?P<tag>{_REASONING})(?:\s[^<>\n]*)?> .*? </(?P=tag)>
      | (?<![^\n]) [ \t]* <{_REASONING}> .* \Z        # without an end, only where a line begins
      | \[THINK\] .*? (?: \[/THINK\] | \Z )
      | ◁think▷ .*? (?: ◁/think▷ | \Z )
      | <unused94> .*? (?: <unused95> | \Z )
      | <\|(?:begin|start)_(?:of_)?(?:thought|thinking)\|>
        .*? (?: <\|end_(?:of_)?(?:thought|thinking)\|> | \Z )
      | <\|channel>thought\b .*? (?: <channel\|> | \Z )
      | <\|channel\|>analysis<\|message\|> .*? (?: <\|end\|>(?:<\|start\|>assistant)? | \Z ) )""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_CLOSING = (
    rf"(?:</{_REASONING}>|\[/THINK\]|◁/think▷|<unused95>|<\|end_(?:of_)?(?:thought|thinking)\|>)"
)
_THOUGHT_END = re.compile(rf"^[ \t]*{_CLOSING}|{_CLOSING}[ \t]*$", re.IGNORECASE | re.MULTILINE)
_FENCES = re.compile(r"^\s*(?:`{3}|~{3})", re.MULTILINE)
_FINAL = re.compile(r"<\|channel\|>(?:final|commentary(?! to=))\b[^<]*<\|message\|>", re.IGNORECASE)
_ANSWER = re.compile(
    r"\A\s*(?:<(?P<tag>answer|response)>|<\|START_RESPONSE\|>)(?P<text>.*?)"
    r"(?:</(?P=tag)>|<\|END_RESPONSE\|>)?\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
"""An answer between tags, which some models write after their reasoning."""
_TOKEN = r"(?:<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|<(?:end_of_turn|eos|pad)>)"
_TOKENS = re.compile(
    rf"""\A\s*(?:<\|im_start\|>assistant|<start_of_turn>model)\n   # the opening, repeated
    | {_TOKEN}\s*(?:<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<｜User｜>).*\Z
    | (?:\s{{0,9}}{_TOKEN}){{1,99}}\s*\Z""",
    re.DOTALL | re.VERBOSE,
)
"""Tokens of a chat template around a reply, with the turns that the model made up after it."""
_UNREAD = re.compile(
    r"\s*(?:<[^<>\n]{0,30}(?:tool|function)_calls?\b[^<>\n]{0,20}>|\[TOOL_CALLS\]"
    r"|[\[{\s]+\"(?:name|tool|function|tool_calls|function_call)\":)",
    re.IGNORECASE,
)
"""The beginning of a call that is not in one of the forms that `written_calls` reads."""
_FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}+|~{3,}+)(?P<tag>[^`]*)$")
_ONE_LINE = re.compile(r"^\s*(?P<ticks>`{1,3})(?P<code>[^`\n]+)(?P=ticks)\s*$", re.MULTILINE)
_EMPTY = re.compile(
    r"^\W{0,9}action\W{0,9}(?:execute\s{0,9}\[\s{0,9}\]?)?$|^execute\s?\[\s{0,9}\]"
    r"|<(\w+)>\s{0,9}</\1>",
    re.MULTILINE | re.IGNORECASE,
)
_SUBMIT = re.compile(r"^[\s\"'`*]*submit[\s\"'`*.!]*$", re.IGNORECASE)
_SUBMIT_WORD = re.compile(r"^\s*submit[ \t][^\n]*+\s*$")
_SUBMIT_BRACKETS = re.compile(r"\W{0,9}submit\s?\[(.*)\]\W{0,9}", re.IGNORECASE)
_SENTENCE = re.compile(r"^(?:I|I'm|I'll|[A-Z][a-z']*),? +\S")
_CODE_SIGN = re.compile(r"[|<>$;&={}\\]|(?:^| )[-./~]+\w")

_PROSE_WORD = re.compile(
    r"(?:the|an?|is|are|was|were|be|to|of|and|that|this|it|i|you|we|me|my|your|let|will|should|would"
    r"|can|cannot|have|has|not|do|with|here|there|now|so|please|sorry|answer)[,;]?",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"""^[ \t]*(?:[Aa]ction[ \t]*:[ \t]*)?[`*]*
    (?P<open>execute[ \t]*\[)?  ask(?:[ \t]+|:[ \t]*|(?P<bracket>[ \t]?\[))
    (?P<question>["'(]?\w[^\n]*)""",
    re.MULTILINE | re.VERBOSE,
)
"""A line that asks: ``ask Which day?``, ``Action: ask[Which day?]``, not ``ask = 3``."""
_PRINTS = ("echo", "printf", "print")

_NAMES = frozenset(["bash", "sh", "shell", "sql", "python", "code"])
"""Names that models write before code, whatever the environment's language is."""
_WRAPPERS = _NAMES.union(
    ["command", "cmd", "execute", "execute_bash", "action", "run", "tool_call", "function_call"]
)
"""Tags around code, besides the language's name."""
_IMAGINED = re.compile(
    r"^\W{0,9}(?:observation|thought|sql[ _]?result)(?:\s?\d+)?\W{0,9}:.*",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
_EXECUTE = re.compile(r"\s*execute\s*\[", re.IGNORECASE)
_INPUT = re.compile(r"^\w+[ \t]*\n\W*action input\W*:\s*", re.IGNORECASE)
_NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "input", "args", "tool_input", "action_input")
_CODE_KEYS = ("code", "command", "cmd", "query", "sql", "script")


def split_reply(
    text: str, language: Language, *, takes_answer: bool = False, takes_questions: bool = False
) -> tuple[str | None, str]:
    """Return the action in `text` (None if there is none) and the words around it.

    `takes_answer`: `submit ANSWER` is an action. `takes_questions`: `ask QUESTION` is an action,
    also in a line of its own before any other action.
    """
    thoughts, reply = split_reasoning(text.replace("\r\n", "\n"))
    reply = _TOKENS.sub("", reply).strip("\ufeff\u200b \t\n")
    if takes_questions and (asked := _ASKED.search(reply)):
        around = f"{reply[: asked.start()]}\n{reply[asked.end() :]}"
        if all(_reads_as_prose(line.strip()) for line in around.split("\n")):
            question = asked["question"].strip()
            if asked["open"] or asked["bracket"]:
                question = question.removesuffix("]")
            return asking({"question": question.strip("`* ")}), f"{thoughts}\n{around}".strip()
    submission = language.submission_where(takes_answer=takes_answer)
    part, is_code = unwrap(reply, language) or (reply, False)
    code = ""
    if is_code and not _FENCE.match(part.strip().split("\n", 1)[0]):
        code = part
    elif blocks := list(islice(_blocks(part, language), MOST_BLOCKS)):
        filled = [block for block in blocks if block[1].strip()]
        ranked = [block for block in filled if block[0] in language.tags] or [
            block for block in filled if not block[0]
        ]
        if ranked:
            code = unbracketed(ranked[0][1])
        elif calls := written_calls(part):
            code = _action_of(calls[0])
    elif (not language.is_code(part) or _only_calls(part)) and (calls := written_calls(part)):
        code = _action_of(calls[0])
    elif not _UNREAD.match(part) and (
        language.is_code(part)
        or _SUBMIT.match(part)
        or not _reads_as_prose(part.split("\n", 1)[0].strip())
    ):
        code = _IMAGINED.sub("", part)
    code = _one_action(code, language, submission)
    if not code:
        return None, f"{thoughts}\n{reply}".strip()
    around = _EMPTY.sub("", reply.replace(code, "", 1)) if code in reply else ""
    words = [line for line in around.split("\n") if not _FENCE.match(line)]
    return code, "\n".join([thoughts, *words]).strip()


def split_reasoning(text: str) -> tuple[str, str]:
    """Return the reasoning in a text, and the text without it.

    An opening tag counts only before the first fence, and a closing tag without an opening one only
    outside of fences, since code may contain such tags.
    """
    thoughts = list[str]()
    while match := _THINK.search(text):
        if _FENCES.search(text, 0, match.start()) or len(thoughts) > MOST_BLOCKS:
            break
        thoughts.append(match[0])
        text = text[: match.start()] + text[match.end() :]
    for match in reversed(list(islice(_THOUGHT_END.finditer(text), MOST_BLOCKS))):
        if len(_FENCES.findall(text, 0, match.start())) % 2 == 0:
            thoughts.append(text[: match.end()])
            text = text[match.end() :]
            break
    text = _FINAL.sub("", text)
    answer = _ANSWER.match(text)
    return "\n".join(thoughts), answer["text"] if answer else text


def _one_action(code: str, language: Language, submission: re.Pattern[str]) -> str:
    if _SUBMIT.match(code) or (_SUBMIT_WORD.match(code) and not submission.groups):
        return "submit"
    if submission is ANSWER and is_submission(code, ANSWER):
        return code.strip()
    lines = code.strip("\n").rstrip().split("\n")
    prompt = language.transcript
    if prompt and prompt.fullmatch(lines[0].strip()):  # a transcript: take only the commands
        matches = (prompt.fullmatch(line.strip()) for line in lines)
        lines = [match[1] or "" for match in matches if match]
    last = ANSWER if submission is ANSWER else language.last_line
    if len(lines) > 1 and last.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).rstrip()


def _reads_as_prose(line: str) -> bool:
    """Return whether the first line of a reply without fences is prose, not a command: empty, a
    heading, an English sentence."""
    if re.match(r"(?:$|[#>*] |\d+\. |(?i:thought)\b.*:|[A-Z][a-z]+[.!?]?$)", line):
        return True
    if line.endswith((":", "?", "!")) and " " in line:
        return True
    if _CODE_SIGN.search(line) and not line.endswith("."):
        return False
    words = line.split()
    is_prose = len(words) > 3 and len(set(filter(_PROSE_WORD.fullmatch, words))) > 1
    return bool(_SENTENCE.match(line)) or (is_prose and words[0] not in _PRINTS)


# -- fences ----------------------------------------------------------------------------------------


def _blocks(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """Yield each fenced block: its language in lower case, empty if none, and its content. An open
    block reaches to the end."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            # A line that is only code between backticks: ```bash ls``` or `ls`.
            if match := _ONE_LINE.match(lines[at]):
                code = match["code"].strip()
                first, _, rest = code.partition(" ")
                if first.lower() in _NAMES | language.tags and rest and match["ticks"] == "```":
                    yield _tag(first), rest
                else:
                    yield "", code
            at += 1
            continue
        end = _closing(lines, at, fence, language)
        body = "\n".join(lines[at + 1 : end])
        if end == len(lines):
            body = body.rstrip().removesuffix(fence["ticks"])
        yield _tag(fence["tag"]), textwrap.dedent(body)
        at = end + 1


def _closing(lines: list[str], opening: int, fence: re.Match[str], language: Language) -> int:
    """Return the line that closes a fence: the first at which the block is whole, else the first.

    As in CommonMark, a closing fence is as long as the opening one, has no language, and is
    indented by at most three characters more.
    """
    closing = [
        at
        for at in range(opening + 1, len(lines))
        if (end := _FENCE.match(lines[at]))
        and end["ticks"].startswith(fence["ticks"])
        and not end["tag"].strip()
        and len(end["indent"]) <= len(fence["indent"]) + 3
    ][:MOST_BLOCKS]
    if _tag(fence["tag"]) in language.tags:
        for at in closing:
            if language.whole(textwrap.dedent("\n".join(lines[opening + 1 : at]))):
                return at
    return next(iter(closing), len(lines))


def _tag(info: str) -> str:
    """Return the language that a fence names: ``bash``, even in ``{.bash}``, ``bash title="x"``."""
    name = next(iter(re.findall(r"[\w+#-]+", info.lower())), "")
    return re.sub(r"^lang(?:uage)?-", "", name)


_WHOLE = re.compile(
    r"\s*(?P<ticks>`{3,}+|~{3,}+)[^`\n]*\n(?P<code>.*?)\n?[ \t]*(?P=ticks)\s*", re.DOTALL
)


def unfenced(code: str) -> str:
    """Return the code inside the one fence that is around all of `code`, if there is one."""
    match = _WHOLE.fullmatch(code)
    return match["code"] if match else code


# -- wrappers --------------------------------------------------------------------------------------


@cache
def _mark(language: Language) -> re.Pattern[str]:
    """Return the pattern of the marks before an action, except fences around a single line."""
    tags = "|".join(map(re.escape, sorted({*_WRAPPERS, language.name, language.fence})))
    return re.compile(
        r"^[ \t]*+(?:(?P<fence>`{3}|~{3})"
        r"|(?P<execute>execute\s*\[)"
        rf"|<(?P<tag>{tags})>"
        r"|[#*_\d. \t]*+"
        rf"(?P<action>(?:action|command|sql[ _]?query|(?P<label>{re.escape(language.name)}))"
        r"(?:[ \t]+input)?(?:[ \t]*\d+)?[*_ \t]*:[*_ \t]*))",
        re.MULTILINE | re.IGNORECASE,
    )


def unwrap(reply: str, language: Language) -> tuple[str, bool] | None:
    """Return the part of a reply that contains its action, and whether that is certainly code; None
    if a fence or nothing marks it."""
    marks = islice(_mark(language).finditer(reply), MOST_BLOCKS)
    sound = (mark for mark in marks if not mark["label"] or language.is_code(reply[mark.end() :]))
    mark = next(sound, None)  # "SQL: SELECT 1", but not "SQL: a statement without joins"
    if mark is None or mark["fence"]:
        called = code_of_call(reply)
        return None if called is None else (called, True)
    rest = reply[mark.end() :]
    if mark["tag"]:
        closing = re.finditer(rf"</\s*{mark['tag']}\s*>", rest, re.IGNORECASE)
        ends = [end.start() for end in islice(closing, MOST_BLOCKS)] or [len(rest)]
        for end in ends:  # an argument may contain the closing tag
            if (called := code_of_call(rest[:end])) is not None:
                return called, True
        inner = rest[: ends[0]].strip("\n")
        tag = mark["tag"].lower()
        whole = f"<{tag}>{inner}" if tag == "execute" else inner
        if inner.lstrip().startswith(("<", "{", "[", "execute")):
            if calls := written_calls(whole):
                return _action_of(calls[0]), True
            if tag.endswith("_call") and _BROKEN.match(inner.lstrip()):
                return "", True
        return inner, True
    if mark["execute"]:
        return _bracketed(rest), True
    rest = _INPUT.sub("", _IMAGINED.sub("", rest).strip())
    if _EXECUTE.match(rest):
        return unbracketed(rest), True
    if submitted := _SUBMIT_BRACKETS.fullmatch(rest.split("\n", 1)[0]):
        return f"submit {submitted[1]}".strip(), True
    if rest.startswith(("```", "~~~", "<")):
        return rest, False
    if not re.match(r"submit[ \t]*<<", rest):
        rest = re.split(r"\n\s*\n", rest, maxsplit=1)[0]
    return rest.strip("`"), False


def unbracketed(text: str) -> str:
    """Return the code inside `execute[…]` if the text begins so; else the text."""
    opening = _EXECUTE.match(text)
    return _bracketed(text[opening.end() :]) if opening else text


def _bracketed(rest: str) -> str:
    """Return the text up to the `]` that ends a line and balances the brackets, else to the last at
    a line end, else all."""
    rest = _IMAGINED.sub("", rest)
    ends = [
        bracket.start()
        for bracket in re.finditer(r"\](?=[`*.]{0,9}[ \t]{0,9}$)", rest, re.MULTILINE)
    ]
    for end in ends[:50]:
        if rest[:end].count("[") == rest[:end].count("]"):
            return rest[:end].strip("\n")
    return rest[: [len(rest), *ends][-1]].strip("\n")


_SPACE = r"(?:[\w|｜]{1,20}[:|｜])?"
"""A namespace before the name of a tag: ``minimax:``, ``｜DSML｜``."""
_XML_CALL = re.compile(
    rf"""(?: <{_SPACE}(?:function|invoke|tool)(?:=|\s+name=)["']?(?P<name>\w+)["']?\s*>
           | <(?P<tag>execute|submit)>(?=\s*<)
           | <name>\s*(?P<inner>execute|submit)\s*</name>
           | (?P<bare>execute|submit)\s*(?=<arg_key>) )
    (?P<body>.*?) (?: </{_SPACE}(?:function|invoke|tool|tool_call|execute|submit)> | \Z )""",
    re.DOTALL | re.VERBOSE,
)
"""``<function=execute><parameter=code>ls</parameter></function>``, ``<invoke name="execute">…``,
``<function=execute>{"code": "ls"}</function>``, ``<execute><code>ls</code></execute>``, and
``execute<arg_key>code</arg_key><arg_value>ls</arg_value>``."""
_XML_VALUE = re.compile(
    rf"""<{_SPACE}parameter(?:=|\s+name=)["']?(\w+)["']?[^>\n]*>\n?(.*?)\n?</{_SPACE}parameter>
    | <arg_key>(\w+)</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>
    | <(code|command|answer)>\n?(.*?)\n?</(?:code|command|answer)>""",
    re.DOTALL | re.VERBOSE,
)
_NAMED = re.compile(
    r"""(?:^|\W)(execute|submit)\b(?::\d+)?
    (?:[\s"',:]|<[^<>{}]*>|\[[A-Z_]+\](?:\w+(?=\[))?|`{3}(?:json)?|json|arguments|parameters)*\Z""",
    re.VERBOSE,
)
"""The end of a text that names a tool before its arguments: ``<|python_tag|>execute``,
``execute[ARGS]`` or ``execute<｜tool▁sep｜>``, and then perhaps a fence."""
_CALL_ID = re.compile(r"[A-Za-z0-9]{9}")
"""The ids that every chat template accepts: Mistral's have nine characters."""
_PYTHONIC = re.compile(
    r"""(?: ^(?: [ \t`|] | \[[A-Z_]{0,20}\]? | <[^<>\n]{1,40}> | tool_code | python | print\(
             | (?:functions|default_api|tools?|api)\. ){0,20}+
          | (?<=\)),[ \t\n]{0,20}+(?:\w{1,20}\.)? )
    (?P<call> (?:execute|submit|ask)\( )""",
    re.MULTILINE | re.VERBOSE,
)
"""The beginning of a call where a line begins, but for brackets, tokens and a namespace, or after
another call: ``[execute(code="ls")]``, but not ``I will not execute("ls")`` or ``db.execute(``."""
_AFTER_CALL = re.compile(r"[\s)\]`;.]*(?:<[^<>\n]{1,40}>)?\s*(?:,|$)", re.MULTILINE)


_BROKEN = re.compile(r"""\{\s*["']\w+["']\s*:""")
"""The beginning of a JSON object, or of one of Python, that cannot be parsed."""


def written_calls(text: str) -> list[ToolCall]:
    """Return the calls of `execute`, `submit` and `ask` that a model wrote as text, in any common
    form: JSON, tags, or a call of Python; at most `MOST_BLOCKS`.

    A server without a parser of tool calls returns them so.
    """
    calls = list[ToolCall]()
    for match in islice(_XML_CALL.finditer(text), MOST_BLOCKS):
        name = match["name"] or match["tag"] or match["inner"] or match["bare"]
        arguments = _object(match["body"]) or _tagged_values(match["body"])
        calls.append(ToolCall("", name, json.dumps(arguments)))
    calls = calls or list(islice(_json_calls(text), MOST_BLOCKS)) or list(_python_calls(text))
    return [call for call in calls if call.name in ("execute", "submit", "ask")]


CALL_FORMS = {
    "Hermes": re.compile(
        r"""<tool_call>(?P<calls>(?:"(?:[^"\\]|\\.)*+"|.)*?)(?:</tool_call>|\Z)""", re.DOTALL
    ),
    "Mistral": re.compile(r"\[TOOL_CALLS\](?P<calls>.*)\Z", re.DOTALL),
    "Llama 3": re.compile(r"\A\s*(?:<\|python_tag\|>)?\s*(?P<calls>\[?\s*\{.*)\Z", re.DOTALL),
}
"""The forms in which chat templates write calls, each a JSON object:
``<tool_call>{"name": "execute", "arguments": {"code": "ls"}}</tool_call>`` (Qwen, too),
``[TOOL_CALLS] [{"name": …, "arguments": {…}}]``, and ``{"name": …, "parameters": {…}}`` or a list
of these as the whole reply, but not JSON inside a reply."""


def read_calls(text: str, form: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text of a reply without its calls, and the calls in a form of `CALL_FORMS`; see
    `take_calls`."""
    return take_calls(text, CALL_FORMS[form], lambda region: _json_calls(region["calls"]))


def take_calls(
    text: str, regions: re.Pattern[str], read: Callable[[re.Match[str]], Iterable[ToolCall]]
) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text of a reply without its `regions` of calls, and the calls in them.

    A region that cannot be read is a call without a name, whose arguments are the text `calls` of
    the region.
    """
    calls = list[ToolCall]()
    for region in islice(regions.finditer(split_reasoning(text)[1]), MOST_BLOCKS):
        unparsed = ToolCall("", "", region["calls"].strip())
        calls += list(islice(read(region), MOST_BLOCKS)) or [unparsed]
        before, _, after = text.rpartition(region[0])
        text = before + after
    return (text.strip() if calls else text), tuple(calls)


def _tagged_values(body: str) -> dict[str, str]:
    """Return the arguments of a call that are between tags."""
    values = {}
    for groups in _XML_VALUE.findall(body):
        name, *value = filter(None, groups)
        values[name] = "".join(value)
    return values


def _json_calls(text: str) -> Iterator[ToolCall]:
    decoder, at, tries = json.JSONDecoder(strict=False), text.find("{"), 0
    broken = len(text)
    while at >= 0 and tries < MOST_BLOCKS:
        tries += 1
        try:
            call, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            if _BROKEN.match(text, at):
                broken = min(broken, at)
            at = text.find("{", at + 1)
            continue
        named = _NAMED.search(text, max(0, at - 80), at)
        name, arguments = _parts_of(call)
        in_text = any(text.count(quote, broken, at) % 2 for quote in "\"'")
        if at > broken and (name or in_text):  # it may be part of the broken call's code
            at = text.find("{", end)
            continue
        name = name or (named[1] if named else "")
        if not name:
            at = text.find("{", at + 1)  # a call may stand inside an object
            continue
        id = str(call.get("id", ""))
        if not _CALL_ID.fullmatch(id):
            id = ""
        yield ToolCall(id, name, json.dumps(arguments))
        at = text.find("{", end)


def _python_calls(text: str) -> Iterator[ToolCall]:
    for match in islice(_PYTHONIC.finditer(text), MOST_BLOCKS):
        ends = islice(re.finditer(r"\)", text[match.end() :]), 20)
        for end in ends:
            try:
                source = text[match.start("call") : match.end() + end.end()]
                call = ast.parse(source, mode="eval").body
                if not isinstance(call, ast.Call):
                    continue
                if not _AFTER_CALL.match(text, match.end() + end.end()):
                    break
                values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
                if call.args:
                    key = "question" if match["call"] == "ask(" else "code"
                    values[key] = ast.literal_eval(call.args[0])
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            yield ToolCall("", match["call"].rstrip("("), json.dumps(values, default=str))
            break


def _only_calls(text: str) -> bool:
    """Return whether a text is Python that does nothing but call `execute`, `submit` and `ask`."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in body:
        match node:
            case ast.Expr(ast.Call(ast.Name("execute" | "submit" | "ask"))):
                continue
        return False
    return True


def code_of_call(text: str) -> str | None:
    """Return the code of a tool call that was written as JSON text, empty if it contains none; None
    for any other text."""
    if (call := _object(text)) is None:
        return None
    name, arguments = _parts_of(call)
    action = _action_of(ToolCall("", name, json.dumps(arguments)))
    return action or next(map(_action_of, written_calls(text)), "")


def _parts_of(call: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of the tool and the arguments in the JSON object of a call."""
    if isinstance(function := call.get("function"), dict):
        call = function
    name = _text_under(_NAME_KEYS, call)
    arguments = next((call[key] for key in _ARGUMENT_KEYS if key in call), call)
    if isinstance(arguments, str):  # JSON, as in the OpenAI protocol, or the code itself
        inner = _object(arguments)
        arguments = {"code": arguments} if inner is None else inner
    return name.rpartition(".")[2], arguments if isinstance(arguments, dict) else {}


def _action_of(call: ToolCall) -> str:
    """Return the action of a written call, for an environment of any language."""
    arguments = json.loads(call.arguments)
    if call.name == "submit":
        return f"submit {arguments.get('answer') or ''}".strip()
    if call.name == "ask":
        return asking(arguments)
    return unfenced(code_of(arguments))


def asking(arguments: Mapping[str, Any]) -> str:
    """Return the action `ask QUESTION` of a call's arguments, in one line; "" without a
    question."""
    question = " ".join(str(arguments.get("question") or "").split())
    return f"ask {question}" if question else ""


def _object(text: object) -> dict[str, Any] | None:
    """Parse a JSON object that is written as text; return None for anything else."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        parsed: dict[str, Any] = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return parsed


def code_of(arguments: Mapping[str, Any]) -> str:
    """Return the code among a call's arguments, under any usual name; "" if there is none."""
    return _text_under(_CODE_KEYS, arguments)


def _text_under(keys: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text under the first of the keys that has one, or ""."""
    for key in keys:
        if isinstance(text := values.get(key), str):
            return text
    return ""
