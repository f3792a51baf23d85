"""Rules about a single turn: does it count, is it an error, a repetition, an exploration?
docs/report.md explains them.

    turn ─┬─ no action, no observation         a question to the model without an action: not
          │                                    counted
          ├─ no action, an observation         a reply without code: an error
          ├─ the action `submit …`             a submission: neither an error nor of a kind
          ├─ the action `ask …`                a question to the user: likewise
          ├─ a submission made for the agent   not counted
          └─ any other action                  executed: an error or fine, new or repeated,
                                               exploring or editing

The kinds come from the action's text, by the rules of its language (`Language.kind`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

from intercode.agents.base import SUBMIT
from intercode.language import Kind, Language
from intercode.types import INCOMPLETE, Episode, Turn

_CUT_OFF = {reason for reason, what in INCOMPLETE.items() if "cut off" in what}
KINDS: Sequence[str] = get_args(Kind)


def task_order(task: str) -> tuple[int, str]:
    """Return a key that sorts the ids of tasks: numbers by value, then names."""
    if task.isdecimal():
        return int(task), ""
    return sys.maxsize, task


def counted_turns(episode: Episode) -> list[Turn]:
    """Return the turns with an action, or with a reply that lacks code; questions without an action
    do not count, nor does a submission made for the agent."""
    return [turn for turn in episode.turns if turn.acted and not turn.forced]


def is_submission(turn: Turn) -> bool:
    """Return whether the action is `submit …` and the environment took it as a submission: an
    executed one has an exit code."""
    return turn.action is not None and turn.action.split()[:1] == [SUBMIT] and not turn.exit_code


def code_turns(episode: Episode) -> list[Turn]:
    """Return the turns that ask for code: all that count, except submissions and questions to the
    user."""
    turns = counted_turns(episode)
    return [turn for turn in turns if not is_submission(turn) and turn.asked is None]


def is_error(turn: Turn) -> bool:
    """Return whether the reply had no code, ran out of time, or ended with a status other than 0
    (SQL, Python: an error)."""
    return turn.action is None or turn.timed_out or turn.exit_code not in (None, 0)


def is_cut_off(turn: Turn) -> bool:
    """Return whether the server cut the reply off, so that nothing in it was executed."""
    return turn.finish_reason in _CUT_OFF


def is_refused(turn: Turn) -> bool:
    """Return whether the reply was a refusal or a filter stopped it, so that nothing was
    executed."""
    return turn.finish_reason in ("refusal", "content_filter")


def limits_hit(turn: Turn) -> set[str]:
    """Return the names of the limits that the action hit; for runs that did not record them, only
    time is known."""
    limits = set(turn.limits)
    if turn.timed_out:
        limits.add("time")
    return limits


def find_repeats(turns: Sequence[Turn]) -> list[bool]:
    """Return, for each turn, whether an earlier turn has the same action, ignoring whitespace."""
    earlier, repeats = set(), []
    for turn in turns:
        words = None if turn.action is None else tuple(turn.action.split())
        repeats.append(words is not None and words in earlier)
        earlier.add(words)
    return repeats


def find_recoveries(turns: Sequence[Turn]) -> list[bool]:
    """Return, for each turn right after an error, whether it is fine."""
    return [not is_error(after) for before, after in pairwise(turns) if is_error(before)]


def count_exploring_first(turns: Sequence[Turn], language: Language) -> int | None:
    """Return the number of exploring actions before the first of another kind; None if there is no
    such action."""
    count = 0
    for turn in turns:
        kind = None if turn.action is None else language.kind(turn.action)
        if kind == "exploring":
            count += 1
        elif kind is not None:
            return count
    return None


def solving_turn(episode: Episode) -> int | None:
    """Return the number of the turn, from 1, that solved the episode: the first with the best
    score. None if unsolved."""
    if not episode.success:
        return None
    turns = counted_turns(episode)
    for number, turn in enumerate(turns, 1):
        if turn.score == episode.reward:
            return number
    return len(turns)
