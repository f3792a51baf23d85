"""Whether an answer says what the gold says, with more around it: a sentence, a title, a column beside each value.

    gold    /depot/a.iso                   42                                   2024-05 3
    ours    -rw-r--r-- … /depot/a.iso      There are 42 files below /depot.     month number
                                                                                2024-05 3
Of each line those words are taken that are of a kind with the gold's (a path, a name, a word, a number by its signs) and
that the query does not have. They must be the gold's, line by line: two guesses on one line are no answer. One more line at
the top is a title if it ends with a colon or has the query's words only, and no digit. A word that takes back or limits what
is said, and is not in the query, is no such addition (`about 42`).

Left out: additions that are of a kind with the answer (a name beside a code); whether they are true.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from intercode.rewards.ordering import named

_ALONE = re.compile(r"\b(only|just|alone|exactly|nothing (but|else|more)|without)\b", re.IGNORECASE)
_LIMITS = named(
    "not no nor never or either neither less more fewer than about nearly almost over under least most except but maybe "
    "perhaps between wrong false"
)
_LINKS = named("a an and are as at be by for from has have in is it its of on that the there these they this to was were")


def without_extras(ours: Sequence[str], theirs: Sequence[str], query: str) -> list[str] | None:
    """Our lines with nothing but what may be the answer; None if the query wants that alone, or they cannot be so read."""
    if _ALONE.search(query) or not any(theirs):
        return None
    known = _LINKS | {_bare(word).lower() for word in query.split()}
    lines = ours[1:] if len(ours) == len(theirs) + 1 and _is_title(ours[0], theirs, known) else ours
    if len(lines) != len(theirs):
        return None
    wanted = {word for line in theirs for word in line.split()}
    kinds = {_kind(word) for word in wanted}
    kept = [_kept(line, wanted, kinds, known) for line in lines]
    return None if None in kept else [line for line in kept if line is not None]


def _is_title(line: str, theirs: Sequence[str], known: frozenset[str]) -> bool:
    if re.search(r"[\d/]", line) or line in theirs:
        return False
    return line.endswith(":") or all(_bare(word).lower() in known for word in line.split())


def _kept(line: str, wanted: Collection[str], kinds: Collection[str], known: frozenset[str]) -> str | None:
    words = [word if word in wanted else _bare(word) for word in line.split()]
    others = [word for word in words if word not in wanted]
    if any(word.lower() in _LIMITS - known for word in others):
        return None
    return " ".join(word for word in words if word in wanted or (_kind(word) in kinds and word.lower() not in known))


def _bare(word: str) -> str:
    """Without the marks of a sentence around it, and a sign of percent."""
    return word.strip("\"'`()").rstrip(".,;:!?\"'`)%")


def _kind(word: str) -> str:
    if "/" in word:
        return "path"
    if word.isalpha():
        return "word"
    return "name" if re.search(r"[^\W\d_]", word) else re.sub(r"\d+", "9", word)
