"""The ladder of the test split: what training leaves out, and how far a test task is from it.

    0        a kind of training
    1a, 2a   the same with one choice, or two, that training makes in other kinds only
    1b, 2b   the same, and a word of a choice occurs nowhere in training
    3        a kind that is held out
    4        a kind of another family

The number is the task's distance. The last of three or more values of a choice is reserved for the
test split. Kinds that share values reserve different ones, as in a Latin square, so that training
has each of them, or at least its words, in other kinds, unless the choice is `novel`.
"""

from __future__ import annotations

from itertools import combinations

from intercode.generate.families import Question

KNOWN, NEW_KIND, NEW_FAMILY = "0", "3", "4"
SHARES = {KNOWN: 0.3, "1a": 0.15, "1b": 0.1, "2a": 0.1, "2b": 0.05, NEW_KIND: 0.2, NEW_FAMILY: 0.1}
"""The parts of the test split, by rung."""


def reserved(question: Question) -> list[str]:
    """Return the choices of which the last value occurs in the test split alone."""
    if question.held_out:
        return []
    return [name for name, values in question.choices.items() if len(values) > 2]


def rungs(question: Question) -> dict[str, list[tuple[str, ...]]]:
    """Return the rungs that a question has in its family, each with the choices of which a task may
    have the reserved value."""
    if question.held_out:
        return {NEW_KIND: [()]}
    able: dict[str, list[tuple[str, ...]]] = {KNOWN: [()]}
    for count in (1, 2):
        for names in combinations(reserved(question), count):
            rung = f"{count}a"
            if question.novel.keys() & {*names}:
                rung = f"{count}b"
            able.setdefault(rung, []).append(names)
    return able
