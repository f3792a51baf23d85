"""Rules about a single turn: does it count, is it an error, a repetition, an exploration?
docs/report.md has them in words.

    turn ─┬─ no action, no observation         a question to the model without an action: not
          │                                    counted
          ├─ no action, an observation         a reply without code: an error
          ├─ the action `submit …`             a submission: neither an error nor of a kind
          └─ any other action                  executed: an error or fine, new or repeated,
                                               exploring or editing

The kinds come from the action's text; what a script does that the action calls by name is not seen.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence

from intercode.agents.base import SUBMIT
from intercode.envs.python.suite import SYNTAX_ERRORS, parse
from intercode.types import Episode, Turn

KINDS = ("exploring", "querying", "editing")

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_REDIRECT = re.compile(r"(?<![-=<>])>{1,2}\|?\s*(?![\s>(]|&\d|&-|/dev/(?:null|stdout|stderr)\b)\S")
_COMMANDS = (
    "rm|rmdir|mv|cp|mkdir|touch|ln|chmod|chown|chgrp|tee|truncate|dd|rename|install|patch|split"
    "|unlink|shred|mkfifo|wget|gzip|gunzip|bzip2|bunzip2|xz|unxz|zip|unzip|rsync|apt-get|apt|pip"
    "|useradd|userdel|kill|crontab"
)
_WRITER = re.compile(
    r"(?:^|[;&|(`\n]|-exec(?:dir)?\s|\bxargs\b[^|;&\n]*\s|\b(?:sudo|then|do|else|time|nohup)\s)"
    rf"\s*(?:/\S*/)?(?:{_COMMANDS})(?=\s|$)|\b(?:sed|perl)\b[^|;&\n]*\s-\w*i"
    r"|\bfind\b[^|;&\n]*\s-delete\b|\bcurl\b[^|;&\n]*\s-\w*[oO]|\btar\s+-?-?\w*[xcru]"
    r"|\bgit\s+(?:add|am|apply|checkout|clone|commit|init|merge|mv|rebase|reset|restore|rm|stash)\b"
)
_LEADING = re.compile(r"\A(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_SQL_EDITS = re.compile(
    r"(?:INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|TRUNCATE|RENAME|LOAD|MERGE)\b"
    r"|WITH\b.*\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\b",
    re.IGNORECASE | re.DOTALL,
)
_SQL_LOOKS = re.compile(
    r"(?:SHOW|DESC|DESCRIBE|EXPLAIN|PRAGMA|USE|HELP)\b"
    r"|.*\b(?:information_schema|sqlite_(?:master|schema))\b",
    re.IGNORECASE | re.DOTALL,
)
_DEFINES = re.compile(r"^\s*(?:async\s+def|def|class)\b", re.MULTILINE)
_CHANGES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Delete,
)


def task_order(task: str) -> tuple[int, str]:
    """Return a key that sorts the ids of tasks: numbers by value, then names."""
    return (int(task), "") if task.isdecimal() else (sys.maxsize, task)


def counted_turns(episode: Episode) -> list[Turn]:
    """Return the turns with an action, or with a reply that lacks code; questions without an action
    do not count."""
    return [turn for turn in episode.turns if turn.acted]


def is_submission(turn: Turn) -> bool:
    """Return whether the action is `submit …` and the environment took it as a submission: an
    executed one has an exit code."""
    return turn.action is not None and turn.action.split()[:1] == [SUBMIT] and not turn.exit_code


def code_turns(episode: Episode) -> list[Turn]:
    """Return the turns that ask for code: all that count, except submissions."""
    return [turn for turn in counted_turns(episode) if not is_submission(turn)]


def is_error(turn: Turn) -> bool:
    """Return whether the reply had no code, ran out of time, or ended with a status other than 0
    (SQL, Python: an error)."""
    return turn.action is None or turn.timed_out or turn.exit_code not in (None, 0)


def limits_hit(turn: Turn) -> set[str]:
    """Return the names of the limits that the action hit; of runs that did not record them, only
    time is known."""
    return {*turn.limits, *(["time"] if turn.timed_out else [])}


def find_repeats(turns: Sequence[Turn]) -> list[bool]:
    """Return for each turn whether an earlier turn has the same action, blanks aside."""
    actions = [None if turn.action is None else " ".join(turn.action.split()) for turn in turns]
    first = {action: at for at, action in reversed(list(enumerate(actions)))}
    return [action is not None and first[action] < at for at, action in enumerate(actions)]


def solving_turn(episode: Episode) -> int | None:
    """Return the number of the turn, from 1, that solved the episode: the first with the best
    score. None if unsolved."""
    if not episode.success:
        return None
    turns = counted_turns(episode)
    return next(
        (at for at, turn in enumerate(turns, 1) if turn.score == episode.reward), len(turns)
    )


def action_kind(action: str, env: str) -> str | None:
    """Return one of `KINDS`, or None if the environment has none."""
    match env:
        case "bash" | "ctf":
            bare = _QUOTED.sub('""', action)
            return "editing" if _WRITER.search(bare) or _REDIRECT.search(bare) else "exploring"
        case "sql":
            statement = _LEADING.sub("", action, count=1)
            if _SQL_EDITS.match(statement):
                return "editing"
            return "exploring" if _SQL_LOOKS.match(statement) else "querying"
        case "python":
            try:
                changes = any(isinstance(node, _CHANGES) for node in parse(action).body)
            except SYNTAX_ERRORS:
                changes = bool(_DEFINES.search(action))
            return "editing" if changes else "exploring"
    return None
