"""Tell English queries from others, since the reward `exact` reads English words."""

from __future__ import annotations

import re
from functools import lru_cache

_TEXT = """
    about above after again all alone along already also although always among and another any
    are around as because been before being below beside between both but by called can cannot
    case change changed changes character characters column columns comma commas contain
    containing contains content contents copy could count counting create created current data
    day days delete deleted different directories directory disk does done down dump duplicate
    each either else empty end ending ends entire entries entry every everything except exist
    existing exists extension extract few field fields file filename filenames files find first
    folder folders following for found from full get give given gives group had has have having
    her his home how however if inside instead into is it item items its itself just keep kept
    key keys largest last least left length less level like line lines link links list listed
    listing lists log longest make many matching may missing modified month more most move moved
    much must name named names newer newest not nothing number numbered numbers of older oldest
    once one only open or order other others out output over owner path paths per place print
    printed process program put read remove removed rename replace resulting root row rows same
    save saved search second seconds separate separated set should show shown single size sizes
    smallest so some sort sorted space spaces start starting starts still string such sum take
    text than that the their them then there these they this those three time times to together
    top total tree twice two type under unique until up upper use used user users using value
    values very was week what when where whether which while who whole will with within without
    word words would write written year years yesterday you your
"""
WORDS = frozenset(_TEXT.split())
"""Common words of English queries, without those that are common in other languages (`a`, `an`,
`in`, `on`, `me`, `no`)."""
_NOT_PROSE = re.compile(
    r"""`[^`]*`|"[^"]*"|(?<!\w)'[^'\n]*'(?!\w)|\S*[/\\_=<>|$*{}~\d]\S*|\S*\w\.\w\S*"""
)
"""Code, quotes and paths: `/srv/d`, `ls -l`, "a b", notes.txt."""
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f]{2}")
"""A word that is not in Latin letters: more than a sign such as λ."""
_SHARE = 4
_FEW = 4


@lru_cache(maxsize=256)
def is_english(query: str) -> bool:
    """Return whether at least a quarter of the query's words are common in English, and all are in
    Latin letters; a query of fewer than four words is English if it is ASCII."""
    prose = _NOT_PROSE.sub(" ", query)
    words = _WORD.findall(prose.lower())
    if len(words) < _FEW:
        return query.isascii()
    common = sum(word in WORDS for word in words)
    return _SHARE * common >= len(words) and not _OTHER_SCRIPT.search(prose)
