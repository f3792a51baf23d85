"""The same words, otherwise arranged: on fewer or more lines, or with a line's number at its other end.

    gold    a.txt              7 active          29 38460
            b.txt              2 left
    ours    a.txt b.txt        active 7          29
                               left 2            38460

Unless the query says what a line is, or what comes first in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from intercode.rewards.demands import of_the_answer, reshapes
from intercode.rewards.ordering import FREE, Key

_ONE_A_LINE = re.compile(
    r"\b(one|each|every)\b[^.]{0,20} (a|separate) line|\blines? each\b|\b(one|single|same|per|own|each|every) line"
    r"|\bline of (its|their) own|below the other|as a column"
    r"|\b(two|three|four|five|\d+) (\w+ )?lines"
    r"|separat|delimit|\bjoin|\bcommas?\b",
    re.IGNORECASE,
)
"""Words of a query that say what a line is."""
_PATH = re.compile(r"\S*/\S+")
_PLACED = re.compile(
    r"`|colon|\bformat|separat|delimit|\bcommas?\b|\bblanks?\b|\bspaces?\b|\btabs?\b|followed|(?-i:\bthen\b)"
    r"|\b(before|after|behind) (it|the|each|every)\b"
    r"|\b(count|number|size|name|value)s? (first|second|last)\b|in this (order|sequence)|\bprefix|\bfront\b|columns?",
    re.IGNORECASE,
)
"""Words of a query that may say what comes first in a line."""
_FIGURE = re.compile(r"-?\d[\d.,]*")
_MEASURES = re.compile(
    r"\b(how (many|often|much|large|long|big)|counts?|numbers?|sums?|totals?|sizes?|prices?|amounts?|times|per|averages?|means?"
    r"|most|least|lines|bytes|values?)\b",
    re.IGNORECASE,
)
"""Words of a query that ask for a number of each."""
_NUMBER = r"(?P<number>-?\d[\d.,]*)"
_WORD = r"(?!-?[\d.,]+(?: |$))\S+"
_REST = rf"(?P<rest>{_WORD}(?: {_WORD})*)"
_FIRST, _LAST = re.compile(f"{_NUMBER} {_REST}"), re.compile(f"{_REST} {_NUMBER}")


def fixes_lines(query: str) -> bool:
    return reshapes(query) or bool(_ONE_A_LINE.search(of_the_answer(query)))


def on_other_lines(a: Sequence[str], b: Sequence[str], key: Key, query: str) -> bool:
    """The same words on more or fewer lines, where theirs has one line with figures, or one word on each.

    In the same order, but where one line of ours lists all of theirs, and those are free.
    """
    if len(a) == len(b) or "" in b or fixes_lines(query):
        return False
    ours, theirs = " ".join(a).split(), " ".join(b).split()
    one_each = len(b) == len(theirs)
    if key is FREE and one_each and len(a) == 1:
        return sorted(ours) == sorted(theirs)
    return ours == theirs and (one_each or (len(b) == 1 and any(map(_FIGURE.fullmatch, theirs))))


def turned(a: Sequence[str], b: Sequence[str], query: str) -> Iterator[list[str]]:
    """Ours with the number of each line at its other end, if theirs has it there."""
    if not _MEASURES.search(query) or reshapes(query) or _PLACED.search(_PATH.sub("", of_the_answer(query))):
        return
    for here, there, form in ((_LAST, _FIRST, "{number} {rest}"), (_FIRST, _LAST, "{rest} {number}")):
        if any(map(there.fullmatch, b)):
            parts = [(line, here.fullmatch(line)) for line in a]
            yield [form.format_map(part.groupdict()) if part else line for line, part in parts]
