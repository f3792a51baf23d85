"""Finding the one action in what a model wrote.

    reply ──► without <think>…</think> ──► first mark? ─┬─ Action: execute[…], <bash>…, JSON ──► what is inside (wrapping.py)
                                                        ├─ fenced blocks ──► the first in the environment's language,
                                                        │                    else the first without a language
                                                        └─ none ──► `code`, `submit`, or text that is no English sentence

One reply is one action: of several blocks the first is taken, since a model that goes on writing has not seen what the
first one prints. A last line `submit` after other code is dropped for the same reason. Where no word is submitted (Bash, SQL),
`submit` with words after it is `submit`, unless the task takes an answer. A block in another language
(output, a transcript) is no action. What is left out: guessing which of two commands a sentence without fences means.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from itertools import islice

from intercode.agents.wrapping import unbracketed, unwrap
from intercode.submission import ALONE, ANSWER, is_submission, pattern_for

TAGS = {
    "bash": {"bash", "sh", "shell", "zsh", "console", "shell-session", "shellsession", "terminal", "code"},
    "sql": {"sql", "mysql", "mariadb", "sqlite", "sqlite3", "code"},
    "python": {"python", "py", "python3", "pycon", "code"},
}
TAGS["ctf"] = TAGS["bash"]
PROMPTS = {
    "bash": re.compile(r"(?:[\w.-]+@\S*[$#]|\$) (.*)"),
    "sql": re.compile(r"(?:mysql|sqlite|MariaDB [^>]*)> (.*)"),
    "python": re.compile(r"(?:>>>|\.\.\.)(?: (.*)|$)"),
}
PROMPTS["ctf"] = PROMPTS["bash"]

LOOKED_AT = 50
"""Blocks of one reply: a model that runs wild writes thousands."""

_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_TOKENS = re.compile(r"(?:<\|[\w/]+\|>|</s>)\s*$")
_FENCE = re.compile(r"^\s*(?P<ticks>`{3,}+|~{3,}+)(?P<tag>[^`]*)$")
_ONE_LINE = re.compile(r"^\s*(?P<ticks>`{1,3})(?P<code>[^`\n]+)(?P=ticks)\s*$", re.MULTILINE)
_EMPTY = re.compile(
    r"^\W{0,9}action\W{0,9}(?:execute\s{0,9}\[\s{0,9}\]?)?$|^execute\s?\[\s{0,9}\]|<(\w+)>\s{0,9}</\1>",
    re.MULTILINE | re.IGNORECASE,
)
_SUBMIT = re.compile(r"^[\s\"'`*]*submit[\s\"'`*.!]*$", re.IGNORECASE)
_SUBMIT_WORD = re.compile(r"^\s*submit[ \t][^\n]*+\s*$")
_LAST = {"python": re.compile(r"submit(?:\s+(?!(?:and|if|in|is|not|or)\b)\w+(?:\(.*\))?)?")}
"""A last line that submits a name or, by mistake, a call; elsewhere `submit` alone, since with a word it may be a command."""
_SENTENCE = re.compile(r"^(?:I|I'm|I'll|[A-Z][a-z']*),? +\S")
_CODE_SIGN = re.compile(r"[|<>$;&={}\\]|(?:^| )[-./~]+\w")

Block = tuple[str, str]
"""The language a fence names, in lower case and empty if none; and what stood inside."""


def split_reply(text: str, language: str = "bash", *, takes_answer: bool = False) -> tuple[str | None, str]:
    """The action in `text` (None if there is none), and the words around it. `takes_answer`: `submit ANSWER` is an action."""
    thoughts = "\n".join(_THINK.findall(text))
    lines = _TOKENS.sub("", _THINK.sub("", text.replace("\r\n", "\n"))).strip("\ufeff\u200b \t\n").split("\n")
    if all(line[:1] == ">" for line in lines):  # a quotation
        lines = [line[1:].removeprefix(" ") for line in lines]
    said = "\n".join(lines)
    submission = pattern_for(language, takes_answer=takes_answer)
    code = _find(said, language, submission) or None
    if code is None:
        return None, f"{thoughts}\n{said}".strip()
    around = _EMPTY.sub("", said.replace(code, "", 1)) if code in said else ""
    words = [line for line in around.split("\n") if not _FENCE.match(line)]
    return code, "\n".join([thoughts, *words]).strip()


def _find(said: str, language: str, submission: re.Pattern[str]) -> str | None:
    part, is_code = unwrap(said) or (said, False)
    if is_code and not _FENCE.match(part.strip().split("\n", 1)[0]):
        return _one_action(part, language, submission)
    blocks = list(islice(_blocks(part), LOOKED_AT))
    if not blocks:
        return _bare(part, language, submission)
    tags = TAGS.get(language, {language})
    filled = [block for block in blocks if block[1].strip()]
    ranked = [b for b in filled if b[0] in tags] or [b for b in filled if not b[0]]
    return _one_action(unbracketed(ranked[0][1]), language, submission) if ranked else None


def _one_action(code: str, language: str, submission: re.Pattern[str]) -> str:
    if _SUBMIT.match(code) or (_SUBMIT_WORD.match(code) and not submission.groups):
        return "submit"
    if submission is ANSWER and is_submission(code, ANSWER):
        return code.strip()
    lines = code.strip("\n").rstrip().split("\n")
    prompt = PROMPTS.get(language)
    if prompt and prompt.fullmatch(lines[0].strip()):  # a transcript: the commands alone
        lines = [found[1] or "" for line in lines if (found := prompt.fullmatch(line.strip()))]
    last = ANSWER if submission is ANSWER else _LAST.get(language, ALONE)
    if len(lines) > 1 and last.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).rstrip()


def _bare(said: str, language: str, submission: re.Pattern[str]) -> str | None:
    """A reply without fences: one command in backticks, `submit`, or text that does not read as a sentence."""
    if _SUBMIT.match(said):
        return "submit"
    first = said.split("\n", 1)[0].strip()
    keyword = language == "sql" and first.split(" ", 1)[0].upper() in {"SELECT", "SHOW", "DESCRIBE", "DESC", "WITH"}
    if not first or (_reads_as_prose(first) and not keyword):
        return None
    return _one_action(said, language, submission)


def _reads_as_prose(line: str) -> bool:
    if re.match(r"^(?:[#>*] |\d+\. |(?i:thought)\b.*:)", line) or (line.endswith((":", "?", "!")) and " " in line):
        return True
    if re.match(r"^[A-Z][a-z]+[.!?]?$", line):
        return True
    return bool(_SENTENCE.match(line)) and (line.endswith(".") or not _CODE_SIGN.search(line))


def _blocks(text: str) -> Iterator[Block]:
    """Every fenced block of `text`, in order; one that is never closed reaches to the end."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            yield from _one_line_block(lines[at])
            at += 1
            continue
        end = _closing(lines, at + 1, fence["ticks"])
        body = "\n".join(lines[at + 1 : end])
        if end == len(lines):
            body = body.rstrip().removesuffix(fence["ticks"])
        yield _tag(fence["tag"]), textwrap.dedent(body)
        at = end + 1


def _closing(lines: list[str], start: int, ticks: str) -> int:
    """The line that closes a fence of `ticks`; a fence with a language inside opens a nested one (a here-document)."""
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


def _one_line_block(line: str) -> Iterator[Block]:
    """A line that is nothing but code between backticks: ```` ```bash ls``` ```` or ```` `ls` ````."""
    match = _ONE_LINE.match(line)
    if match is None:
        return
    first, _, rest = match["code"].strip().partition(" ")
    known = any(first.lower() in tags for tags in TAGS.values())
    yield (_tag(first), rest) if known and rest and match["ticks"] == "```" else ("", match["code"].strip())


def _tag(info: str) -> str:
    """The language a fence names: ``bash``, also in ``{.bash}`` or ``bash title="x"``."""
    words = info.strip("{} .").lower().split()
    return words[0].strip("{}.") if words else ""
