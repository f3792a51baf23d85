"""What a whole action must be to submit: the patterns that environments, strategies and the runner share.

A pattern's group, if it has one, is the word that is submitted. An environment of one's own may have its own pattern.
"""

from __future__ import annotations

import re

LONGEST = 1 << 24
"""Characters of an action."""
ALONE = re.compile(r"submit")
WORD = re.compile(r"submit(?:\s++(.*))?")
NAME = re.compile(r"""submit(?:[ \t]+(?!(?:and|if|in|is|not|or)\b)([\w"'`].*))?""")
"""In Python, where `submit = 5` is code."""

_OF = {"bash": ALONE, "sql": ALONE, "python": NAME}


def pattern_for(language: str) -> re.Pattern[str]:
    return _OF.get(language, WORD)


def submitted_word(submission: re.Pattern[str], action: str) -> str:
    """The word of a submitting action; empty where none is named."""
    found = submission.fullmatch(action.strip())
    return (found[1] or "") if found and submission.groups else ""


def is_submission(action: str | None, pattern: re.Pattern[str]) -> bool:
    """Blanks around it do not matter."""
    return action is not None and pattern.fullmatch(action.strip()) is not None
