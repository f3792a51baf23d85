"""The ladder of the test split: what training leaves out, and how far a test task is from it.

    0        a kind of training
    1a, 2a   the same with one choice, or two, that training makes in other kinds only
    1b, 2b   the same, and a word of a choice occurs nowhere in training
    3        a kind that is held out
    4        a kind of another family

The number is the task's distance. The choices that each kind leaves out depend on the questions of
its family alone, not on a seed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from intercode.generate.draws import Texts
from intercode.generate.families import Family

KNOWN, NEW_KIND, NEW_FAMILY = "0", "3", "4"
SHARES = {KNOWN: 0.3, "1a": 0.15, "1b": 0.1, "2a": 0.1, "2b": 0.05, NEW_KIND: 0.2, NEW_FAMILY: 0.1}
"""The parts of the test split, by rung."""
_WORD = re.compile(r"[A-Za-z_]+|\d+|[^\w\s]")
_PARAMETER = re.compile(r"<[a-z]\w*>")


@dataclass(frozen=True)
class Reserved:
    """A value of a choice that occurs in the test split alone."""

    value: Texts
    is_new: bool
    """Whether a word of it, or of its code, occurs nowhere in training."""


@cache
def reserved(family: Family) -> dict[str, dict[str, Reserved]]:
    """Return by kind the value of each choice, of three or more, that occurs in the test split
    alone.

    The values take turns from kind to kind, as in a Latin square: what one kind leaves out, others
    have. About a third are values with a word that no other text of the family has, if there are
    such values; no other word is lost.
    """
    known = [question for question in family.questions if not question.held_out]
    uses = Counter[str]()
    for question in known:
        uses.update(_words(question.gold, *question.query))
        for values in question.choices.values():
            for value in values:
                uses.update(_words(*value[:2]))
    left, taken = Counter(uses), Counter[str]()
    by_kind: dict[str, dict[str, Reserved]] = {}
    number = brought = 0
    for question in known:
        by_kind[question.kind] = {}
        for name, values in question.choices.items():
            shared, new = list[Texts](), list[Texts]()
            for value in values[: len(values) if len(values) > 2 else 0]:
                words = _words(*value[:2])
                if all(left[word] > 1 or uses[word] == 1 for word in words):
                    is_new = any(uses[word] == 1 for word in words)
                    (new if is_new else shared).append(value)
            if not shared and not new:
                continue
            number += 1
            is_new = not shared or (bool(new) and 3 * brought < number)
            value = new[-1] if is_new else min(shared, key=lambda value: taken[value[0]])
            brought += is_new
            taken[value[0]] += 1
            left.subtract(_words(*value[:2]))
            by_kind[question.kind][name] = Reserved(value, is_new)
    return by_kind


def rungs(reserved: Mapping[str, Reserved]) -> dict[str, list[tuple[str, ...]]]:
    """Return the rungs below a new kind that a question has, each with the choices that a task may
    have a reserved value of."""
    able = defaultdict[str, list[tuple[str, ...]]](list, {KNOWN: [()]})
    for count in (1, 2):
        for names in combinations(reserved, count):
            is_new = any(reserved[name].is_new for name in names)
            able[f"{count}{'b' if is_new else 'a'}"].append(names)
    return able


def _words(*texts: str) -> set[str]:
    """Return the words and signs of some texts, without their parameters."""
    return {word for text in texts for word in _WORD.findall(_PARAMETER.sub(" ", text))}
