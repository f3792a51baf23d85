"""Which parts of a query say how the answer is to look.

    /depot/a.tsv has columns parted by tabs.      tells of its files: says nothing of the answer
    Write the ids to /depot/b, one a line,        wants a change: says nothing of what is printed
    and print their number alone.                 says it

What cannot be told apart counts as said of the answer, which only makes `exact` stricter.
"""

from __future__ import annotations

import re
from functools import lru_cache

_BESIDE_A_PATH = re.compile(r"(?<!\S)(\S[^\s/]*+/\S*\w) \([^()]*\)")
_SENTENCE = re.compile(
    r"(?<=[.?!;]) +|(?<=[a-z\d)]): +|(?:,? and|,? then|, and then) (?=(?:print|show|tell|report|say|list|how|which)\b)"
)
_TELLS = re.compile(
    r"(in )?\S*/|(parted|separated) by|[\w'/ -]{1,40} (is|are|has|have|holds?|contains?|begins?|ends?|gives?|stands?)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\?|\b(print|show|list|output|display|say|tell|give|report|answer|find|count|how|which|what|who|when|where|want|like"
    r"|name (?=the|all|each|every)|stays?|keeps?|kept|preserved|remains?|must|should|only|just|alone"
    r"|nothing|no|own|wanted|needed)\b",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(write|create|make|set|change|move|copy|delete|remove|rename|replace|append|add|save|put|store|touch|leave|keep|link|pack|extract)\b",
    re.IGNORECASE,
)
_PRINTS = re.compile(
    r"\?|\b(print|show|list|output|display|say|tell|give|report|answer|count|how|which|what|who)\b", re.IGNORECASE
)
_RESHAPES = re.compile(
    r"\b(convert|replac|translat|turn|transpos|exchang|swap|split|join|merg|reformat|substitut|instead|into)\w*\b",
    re.IGNORECASE,
)


def reshapes(query: str) -> bool:
    """Whether it is about the form of a text, so that signs and lines are the answer itself."""
    return bool(_RESHAPES.search(query))


@lru_cache(maxsize=256)
def demanded(query: str) -> str:
    """The query without what it tells of its files."""
    return " ".join(_demands(query)) or query


@lru_cache(maxsize=256)
def of_the_answer(query: str) -> str:
    """The query without what it tells of its files, and without the changes that it wants."""
    changes = [each for each in _demands(query) if "/" in each and _CHANGES.search(each) and not _PRINTS.search(each)]
    return " ".join(each for each in _demands(query) if each not in changes) or query


def _demands(query: str) -> list[str]:
    sentences = _SENTENCE.split(_BESIDE_A_PATH.sub(r"\1", query))
    return [each for each in sentences if _ASKS.search(each) or not _TELLS.match(each)]
