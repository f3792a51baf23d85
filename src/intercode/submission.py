"""Patterns of actions that submit, for environments, strategies and the runner.

A pattern must match a whole action. Its group, if there is one, is the submitted word. A user's
environment may have its own pattern. In Bash the word is an answer that replaces the last output,
if the environment takes answers:

    submit 12 files
    submit 'it costs $5'
    submit <<'END'  ⏎  first line  ⏎  second line  ⏎  END
"""

from __future__ import annotations

import re
import shlex

LONGEST = 1 << 24
"""Characters of an action."""
ALONE = re.compile(r"submit")
ANSWER = re.compile(r"submit(?:(?=[ \t<])\s*+(.+))?", re.DOTALL)
"""In Bash, if the environment takes answers."""
WORD = re.compile(r"submit(?:\s++(.*))?")

INSIDE = re.compile(r"(?:\A|\n|&&|\|\||[;(`])[ \t]*submit\b(?!\s*[=(.]\s*\w)", re.IGNORECASE)
"""Finds a `submit` in an action that does more, unless it is a name in code: `submit(5)`."""

TAKES_ANSWER = "takes_answer"
"""The field of a task's `extra` that tells a strategy whether the task takes `submit ANSWER`."""

_HEREDOC = re.compile(r"<<[ \t]*(['\"]?)(\w+)\1[ \t]*\n(.*\n)?\2", re.DOTALL)
_LITERAL = re.compile(r"""(?:[^\n'"\\`$;&|<>()]|\\.|'[^']*'|"(?:[^"\\`$]|\\.)*+")*+""")

_COMMENT = re.compile(r"""('[^']*'|"(?:[^"\\]|\\.)*+"|\\.)|(?:(?<=\s)|\A)#.*""")
"""Matches a quote, which is the group, or a comment. `shlex` takes any `#` for one's beginning."""

NOT_LITERAL = (
    "Nothing in the answer of `submit ANSWER` is executed or expanded. Write one line in single "
    "quotes; write several lines as a here-document that begins with `submit <<'END'`."
)
"""The observation after a submission in which Bash would execute or expand something."""
_LONGEST_LINE = 1 << 16
"""Characters: splitting takes time quadratic in a word's length. A here-document may be longer."""


def submitted_word(submission: re.Pattern[str], action: str) -> str:
    """Return the word of a submitting action, or "" if there is none."""
    match = submission.fullmatch(action.strip())
    if match and submission.groups:
        return match[1] or ""
    return ""


def is_submission(action: str | None, pattern: re.Pattern[str]) -> bool:
    """Return whether the action submits. Whitespace around it does not matter."""
    return action is not None and pattern.fullmatch(action.strip()) is not None


def submitting(answer: object, submission: re.Pattern[str], *, takes_answer: bool) -> str:
    """Return the action that submits a tool call's answer, which is quoted where Bash would read
    it. `submission` is the language's pattern."""
    text = "" if answer is None else str(answer)
    if takes_answer and text:
        return f"submit {shlex.quote(text)}"
    if submission.groups:
        return f"submit {text}".strip()
    return "submit"


def answer_in(word: str) -> str | None:
    """Return the answer that a submitted word gives, as Bash would read it: empty if that is
    nothing or a comment, None if Bash would execute or expand part of it, or if it is too long for
    a line. Line ends may be `\\r\\n`.
    """
    word = word.replace("\r\n", "\n")
    if document := _HEREDOC.fullmatch(word):
        body = document[3] or ""
        if not document[1] and re.search(r"[`$\\]", body):
            return None
        return body
    if len(word) > _LONGEST_LINE or not _LITERAL.fullmatch(word):
        return None
    try:
        words = shlex.split(_COMMENT.sub(r"\1", word))
    except ValueError:  # an open quote, which `_LITERAL` overlooks before CPython 3.11.3
        return None
    if words or "'" in word or '"' in word:
        return " ".join(words) + "\n"
    return ""
