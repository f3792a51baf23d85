"""Find the one action in a model's reply.

    reply ──► without <think>…</think> ──► first mark?
      ├─ a wrapper, see below ──► the text inside
      ├─ fenced blocks ──► the first in the environment's language, else the first without one
      └─ none ──► `code`, `submit`, or text that is not an English sentence

Wrappers, of which the first in a reply counts, a fence included:

    Thought: …  Action: execute[CODE]    <bash>CODE</bash>
    Action: submit                       <tool_call>{…}</tool_call>
                                         {"name": "execute", "arguments": {"code": CODE}}

One reply is one action. Of several blocks the first is taken, since the model wrote the others
without seeing what the first one prints. For the same reason a last line `submit` after other code
is dropped, and so is an `Observation:` that the model made up. Where a submission takes no word
(Bash, SQL), `submit` with words after it is `submit`, unless the task takes an answer. A block in
another language (output, a transcript) is not an action. Entities such as `&lt;` stay, since code
may mean them.

Left out: guessing which of two commands a sentence without fences means.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from intercode.language import Language
from intercode.submission import ANSWER, is_submission

MOST_BLOCKS = 50
"""Blocks that are read in one reply. A model that repeats itself may write thousands."""

_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_TOKENS = re.compile(r"(?:<\|[\w/]+\|>|</s>)\s*$")
_FENCE = re.compile(r"^\s*(?P<ticks>`{3,}+|~{3,}+)(?P<tag>[^`]*)$")
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

_NAMES = frozenset(["bash", "sh", "shell", "sql", "python", "code"])
"""Names that models write before code, whatever the environment's language is."""
_WRAPPERS = _NAMES.union(
    ["command", "cmd", "execute", "execute_bash", "action", "run", "tool_call", "function_call"]
)
"""Tags around code, besides the language's name."""
_IMAGINED = re.compile(
    r"^\W{0,9}(?:observation|thought)(?:\s?\d+)?\W{0,9}:.*",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
_EXECUTE = re.compile(r"\s*execute\s*\[", re.IGNORECASE)
_INPUT = re.compile(r"^\w+[ \t]*\n\W*action input\W*:\s*", re.IGNORECASE)
_CODE_KEYS = ("code", "command", "cmd", "query", "sql", "script", "action_input")


def split_reply(
    text: str, language: Language, *, takes_answer: bool = False
) -> tuple[str | None, str]:
    """Return the action in `text` (None if there is none) and the words around it.

    `takes_answer`: `submit ANSWER` is an action.
    """
    thoughts = "\n".join(_THINK.findall(text))
    reply = _TOKENS.sub("", _THINK.sub("", text.replace("\r\n", "\n"))).strip("\ufeff\u200b \t\n")
    submission = language.submission_where(takes_answer=takes_answer)
    part, is_code = unwrap(reply, language) or (reply, False)
    code: str | None = None
    if is_code and not _FENCE.match(part.strip().split("\n", 1)[0]):
        code = _one_action(part, language, submission)
    elif blocks := list(islice(_blocks(part, language), MOST_BLOCKS)):
        filled = [block for block in blocks if block[1].strip()]
        ranked = [block for block in filled if block[0] in language.tags] or [
            block for block in filled if not block[0]
        ]
        code = _one_action(unbracketed(ranked[0][1]), language, submission) if ranked else None
    elif _SUBMIT.match(part) or not _reads_as_prose(part.split("\n", 1)[0].strip(), language):
        code = _one_action(part, language, submission)
    if not code:
        return None, f"{thoughts}\n{reply}".strip()
    around = _EMPTY.sub("", reply.replace(code, "", 1)) if code in reply else ""
    words = [line for line in around.split("\n") if not _FENCE.match(line)]
    return code, "\n".join([thoughts, *words]).strip()


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


def _reads_as_prose(line: str, language: Language) -> bool:
    """Return whether the first line of a reply without fences is prose, not a command: empty, a
    heading, an English sentence."""
    if not line:
        return True
    if line.split(" ", 1)[0].upper() in language.openings:
        return False
    if re.match(r"^(?:[#>*] |\d+\. |(?i:thought)\b.*:)", line) or (
        line.endswith((":", "?", "!")) and " " in line
    ):
        return True
    if re.match(r"^[A-Z][a-z]+[.!?]?$", line):
        return True
    return bool(_SENTENCE.match(line)) and (line.endswith(".") or not _CODE_SIGN.search(line))


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
                first, _, rest = match["code"].strip().partition(" ")
                yield (
                    (_tag(first), rest)
                    if first.lower() in _NAMES | language.tags and rest and match["ticks"] == "```"
                    else ("", match["code"].strip())
                )
            at += 1
            continue
        end = _closing(lines, at + 1, fence["ticks"])
        body = "\n".join(lines[at + 1 : end])
        if end == len(lines):
            body = body.rstrip().removesuffix(fence["ticks"])
        yield _tag(fence["tag"]), textwrap.dedent(body)
        at = end + 1


def _closing(lines: list[str], start: int, ticks: str) -> int:
    """Return the line that closes a fence of `ticks`. A fence with a language inside opens a nested
    one (a here-document)."""
    depth, first = 0, len(lines)
    for i in range(start, len(lines)):
        fence = _FENCE.match(lines[i])
        if fence is None or not fence["ticks"].startswith(ticks):
            continue
        first = min(first, i)
        if not lines[i].strip().strip("`~").strip():
            if depth == 0:
                return i
            depth -= 1
        else:
            depth += 1
    return first


def _tag(info: str) -> str:
    """Return the language that a fence names: ``bash``, even in ``{.bash}``, ``bash title="x"``."""
    return next(iter(re.findall(r"[\w+#-]+", info.lower())), "")


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
        r"(?P<action>(?:action|command)(?:[ \t]+input)?(?:[ \t]*\d+)?[*_ \t]*:[*_ \t]*))",
        re.MULTILINE | re.IGNORECASE,
    )


def unwrap(reply: str, language: Language) -> tuple[str, bool] | None:
    """Return the part of a reply that contains its action, and whether that is certainly code; None
    if a fence or nothing marks it."""
    mark = _mark(language).search(reply)
    if mark is None or mark["fence"]:
        return None if (called := code_of_call(reply)) is None else (called, True)
    rest = reply[mark.end() :]
    if mark["tag"]:
        inner = re.split(rf"</\s*{mark['tag']}\s*>", rest, maxsplit=1, flags=re.IGNORECASE)[
            0
        ].strip("\n")
        return inner if (called := code_of_call(inner)) is None else called, True
    if mark["execute"]:
        return _bracketed(rest), True
    rest = _INPUT.sub("", _IMAGINED.sub("", rest).strip())
    if _EXECUTE.match(rest):
        return unbracketed(rest), True
    if submitted := _SUBMIT_BRACKETS.fullmatch(rest.split("\n", 1)[0]):
        return f"submit {submitted[1]}".strip(), True
    if rest.startswith(("```", "~~~", "<")):
        return rest, False
    paragraph = (
        rest if re.match(r"submit[ \t]*<<", rest) else re.split(r"\n\s*\n", rest, maxsplit=1)[0]
    )
    return paragraph.strip("`"), False


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
    balanced = (end for end in ends[:50] if rest[:end].count("[") == rest[:end].count("]"))
    return rest[: next(balanced, ends[-1] if ends else len(rest))].strip("\n")


def code_of_call(text: str) -> str | None:
    """Return the code of a tool call that was written as JSON text, empty if it contains none; None
    for any other text."""
    if (call := _object(text)) is None:
        return None
    name = str(call.get("name") or call.get("tool") or call.get("action") or "")
    arguments = next(
        (call[key] for key in ("arguments", "parameters", "input") if key in call), call
    )
    if isinstance(arguments, str):  # JSON, as in the OpenAI protocol, or the code itself
        inner = _object(arguments)
        arguments = {"code": arguments} if inner is None else inner
    if not isinstance(arguments, dict):
        arguments = {}
    return (
        f"submit {arguments.get('answer') or ''}".strip()
        if name == "submit"
        else code_of(arguments)
    )


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
    return next((arguments[key] for key in _CODE_KEYS if isinstance(arguments.get(key), str)), "")
