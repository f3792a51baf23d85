"""What a model puts around its action when it does not, or not only, use fences.

    Thought: …  Action: execute[CODE]         <bash>CODE</bash>          {"name": "execute", "arguments": {"code": CODE}}
    Action: submit                            <tool_call>{…}</tool_call>

Whichever mark stands first in a reply counts, a fence included. What an imagined `Observation:` says is cut off.
Left out: entities such as `&lt;` stay as they are, since code may mean them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_TAGS = "bash|sh|shell|sql|python|code|command|cmd|execute|execute_bash|action|run|tool_call|function_call"
_MARK = re.compile(
    r"^[ \t]*+(?:(?P<fence>`{3}|~{3})"
    r"|(?P<execute>execute\s*\[)"
    rf"|<(?P<tag>{_TAGS})>"
    r"|[#*_\d. \t]*+(?P<action>(?:action|command)(?:[ \t]+input)?(?:[ \t]*\d+)?[*_ \t]*:[*_ \t]*))",
    re.MULTILINE | re.IGNORECASE,
)
_IMAGINED = re.compile(r"^\W{0,9}(?:observation|thought)(?:\s?\d+)?\W{0,9}:.*", re.MULTILINE | re.IGNORECASE | re.DOTALL)
_EXECUTE = re.compile(r"\s*execute\s*\[", re.IGNORECASE)
_INPUT = re.compile(r"^\w+[ \t]*\n\W*action input\W*:\s*", re.IGNORECASE)
_SUBMIT = re.compile(r"\W{0,9}submit\s?\[(.*)\]\W{0,9}", re.IGNORECASE)
_CODE_KEYS = ("code", "command", "cmd", "query", "sql", "script", "action_input")


def unwrap(said: str) -> tuple[str, bool] | None:
    """The part of a reply that holds its action, and whether that is plainly code; None if a fence or nothing marks it."""
    mark = _MARK.search(said)
    if mark is None or mark["fence"]:
        return None if (called := code_of_call(said)) is None else (called, True)
    rest = said[mark.end() :]
    if mark["tag"]:
        inner = re.split(rf"</\s*{mark['tag']}\s*>", rest, maxsplit=1, flags=re.IGNORECASE)[0].strip("\n")
        return inner if (called := code_of_call(inner)) is None else called, True
    if mark["execute"]:
        return _bracketed(rest), True
    rest = _INPUT.sub("", _IMAGINED.sub("", rest).strip())
    if _EXECUTE.match(rest):
        return unbracketed(rest), True
    if submitted := _SUBMIT.fullmatch(rest.split("\n", 1)[0]):
        return f"submit {submitted[1]}".strip(), True
    if rest.startswith(("```", "~~~", "<")):
        return rest, False
    paragraph = rest if re.match(r"submit[ \t]*<<", rest) else re.split(r"\n\s*\n", rest, maxsplit=1)[0]
    return paragraph.strip("`"), False


def unbracketed(text: str) -> str:
    """What is inside `execute[…]` if the text begins so; else the text."""
    opening = _EXECUTE.match(text)
    return _bracketed(text[opening.end() :]) if opening else text


def _bracketed(rest: str) -> str:
    """Up to the `]` that ends a line and leaves brackets even; else up to the last that ends a line; else all."""
    rest = _IMAGINED.sub("", rest)
    ends = [found.start() for found in re.finditer(r"\](?=[`*.]{0,9}[ \t]{0,9}$)", rest, re.MULTILINE)]
    even = (end for end in ends[:50] if rest[:end].count("[") == rest[:end].count("]"))
    return rest[: next(even, ends[-1] if ends else len(rest))].strip("\n")


def code_of_call(text: str) -> str | None:
    """The code of a tool call that was written as text, in JSON, empty if it has none; None for any other text."""
    if (call := _object(text)) is None:
        return None
    name = str(call.get("name") or call.get("tool") or call.get("action") or "")
    arguments = next((call[key] for key in ("arguments", "parameters", "input") if key in call), call)
    if (inner := _object(arguments)) is not None:  # as the OpenAI protocol has them
        arguments = inner
    if name == "submit":
        answer = arguments.get("answer") if isinstance(arguments, dict) else None
        return f"submit {answer or ''}".strip()
    return code_of(arguments) or ""


def _object(text: object) -> dict[str, Any] | None:
    """A JSON object that is written as text; None for anything else."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        found: dict[str, Any] = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return found


def code_of(arguments: str | Mapping[str, Any]) -> str | None:
    """The code among a call's arguments, whichever of the usual names it goes by."""
    if isinstance(arguments, str):
        return arguments or None
    if not isinstance(arguments, dict):
        return None
    return next((arguments[key] for key in _CODE_KEYS if isinstance(arguments.get(key), str)), None)
