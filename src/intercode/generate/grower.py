"""Places grow until they tell a gold from its mistakes.

    the words of a gold ──► changes near them ──► which mistakes still have the gold's outcome?
                                   ▲                              │
                                   └── changes near the words ◄───┘
                                       that such a mistake touches

A change stays if it leaves the gold sound and fewer mistakes unrefuted. Near
misses are not planted by families, then, but found.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from intercode.generate.draws import Draw, Texts, without

_WORD = re.compile(r"[A-Za-z_]\w*|\d+")
_FILE = re.compile(r"(?<=/)[\w-]+(?:\.\w+)+")
_JOINED = re.compile(r"/?\w+(?:[./-]\w+)+|/\w+")
_QUOTED = re.compile(r"'[^'\n]+'|\"[^\"\n]+\"")
_TOKEN = re.compile(r"[\w./-]*\w|\S")
MOST_AT_ONCE = 12
NEUTRAL = 0.07
"""The part of the changes that stay although they refute nothing: others may build on them."""


class Ground(Protocol):
    """A place, or the inputs of a function's tests, which can grow."""

    def grown(self, draw: Draw, near: Texts, known: Texts) -> Self:
        """Return a copy with one small change near some words, where the words `known` are."""


G = TypeVar("G", bound=Ground)
Judge = Callable[[G, str, Texts], list[str] | None]
"""Takes a ground, a gold and mistakes. Returns the mistakes that have the gold's outcome there, or
None if the gold is not sound there."""


def words_of(solution: str) -> list[str]:
    """Return the words, the numbers, the names of files and the quoted texts of a solution."""
    quoted = [text[1:-1] for text in _QUOTED.findall(solution)]
    names = [*_FILE.findall(solution), *_JOINED.findall(solution)]
    return list(dict.fromkeys([*_WORD.findall(solution), *names, *quoted]))


def touched(gold: str, mistake: str) -> list[str]:
    """Return the words of a gold near those that a mistake changes, and the mistake's own."""
    old, new = _TOKEN.findall(gold), _TOKEN.findall(mistake)
    words = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            words += [*old[max(0, start - 3) : end + 3], *new[new_start:new_end]]
    return words_of(" ".join(words))


def grow(
    draw: Draw,
    ground: G,
    gold: str,
    mistakes: Texts,
    judge: Judge[G],
    *,
    budget: int,
    first: int,
    neutral: float = NEUTRAL,
) -> tuple[G, list[str] | None]:
    """Return the ground after it grew, and the mistakes that it does not refute; None if the gold
    is not sound on it. The first changes, near its words, are made before any mistake is tried.

    A mistake that survives `budget` changes near its words ends the growth. A change costs an
    execution of the gold and of the mistakes that are left; once none is left, the others are
    executed again, since a change may let them pass. One that refutes nothing stays with the
    probability `neutral`."""
    known = words_of(gold)
    changed = ground
    for _ in range(first):
        changed = changed.grown(draw, draw.sample(known, min(3, len(known))), known)
    passing = judge(changed, gold, mistakes) if first else None
    if passing is not None:
        ground = changed
    else:
        passing = judge(ground, gold, mistakes)
    survived = Counter[str]()
    while passing:
        target = draw.choice(passing)
        if survived[target] == budget:
            break
        survived[target] += 1
        near = touched(gold, target) or known
        changed = ground
        for _ in range(draw.randint(1, MOST_AT_ONCE)):
            changed = changed.grown(draw, near, known)
        still = judge(changed, gold, passing)
        if still is None or (len(still) == len(passing) and draw.random() >= neutral):
            continue
        if not still:
            still = judge(changed, gold, without(mistakes, passing)) or []
        ground, passing = changed, still
    return ground, passing
