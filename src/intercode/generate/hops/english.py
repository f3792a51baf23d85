"""The question of a term: phrases in phrases, or two sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from intercode.generate.draws import Draw
from intercode.generate.hops.terms import Term, World

LONG = 4
"""The largest number of hops in one sentence."""
FIRST = ("Take {}.", "Consider {}.")
MONTHS = "January February March April May June July August September October November December"
_DATE = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")


def question(draw: Draw, world: World, term: Term, hidden: Sequence[Term] = ()) -> str:
    """Return a question. With more than `LONG` hops, or two arguments, some of the inner phrases
    have a sentence before it: a person would not say all in one. The values of `hidden` hops are
    left out."""
    for node in hidden:
        term = term.with_hop(node, replace(node.hop, says=(node.hop.hidden,)))
    cut = list[Term]()
    if len(term.args) > 1:
        cut = [*term.args]
    elif len(term.nodes) > LONG:
        cut = [_cut(term)]
    if not cut:
        return _phrase(draw, term, {})
    phrases = [_phrase(draw, arg, {}, plain=True) for arg in cut]
    if _clear(cut):
        names = [f"that {world.domain.types[arg.hop.gives].noun}" for arg in cut]
        first = draw.choice(FIRST).format(", and ".join(phrases))
    else:
        names = ["A", "B"][: len(cut)]
        pairs = zip(names, phrases, strict=True)
        first = f"Let {', and let '.join(f'{name} be {phrase}' for name, phrase in pairs)}."
    return f"{first} {_phrase(draw, term, dict(zip(cut, names, strict=True)))}"


def _cut(term: Term) -> Term:
    """Return the inner term that gets a sentence of its own: one near the middle to which "that
    machine" can only refer, and best the only machine in the question."""
    nodes = term.nodes[:-2]
    middle = len(nodes) // 2
    types = [node.hop.gives for node in term.nodes]

    def badness(node: Term) -> tuple[bool, bool, int]:
        again = types.count(node.hop.gives) > 1
        return not _clear([node]), again, abs(len(node.nodes) - 1 - middle)

    return min(nodes, key=badness)


def _clear(cut: Sequence[Term]) -> bool:
    """Return whether nothing else of the types of these terms is spoken of inside them."""
    types = [node.hop.gives for term in cut for node in term.nodes]
    return all(types.count(term.hop.gives) == 1 for term in cut)


def _phrase(draw: Draw, term: Term, known: Mapping[Term, str], *, plain: bool = False) -> str:
    """Return the phrase of a term; a plain one does not begin with "whoever"."""
    if term in known:
        return known[term]
    inner = [_phrase(draw, arg, known) for arg in term.args]
    says = list(term.hop.says)
    if plain or any("whoever" in phrase for phrase in inner):  # "whoever owns" once is enough
        says = [text for text in says if "whoever" not in text]
    text = say(term, draw.choice(says))
    for place, phrase in enumerate(inner):
        text = text.replace(f"<{place}>", phrase)
    return text


def say(term: Term, text: str) -> str:
    """Return a text about a term with the value that was drawn for it."""
    if not term.hop.where:
        return text
    return text.replace("<v>", in_words(term.hop.value))


def in_words(value: Any) -> str:
    """Return a date as people write it, or the value."""
    date = _DATE.fullmatch(str(value))
    if not date:
        return str(value)
    year, month, day = date.groups(default="0")
    words = f"{MONTHS.split()[int(month) - 1]} {year}"
    return words if day == "0" else f"{int(day)} {words}"
