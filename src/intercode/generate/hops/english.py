"""The question of a term: phrases in phrases, or two sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from intercode.generate.draws import Draw
from intercode.generate.hops.terms import Term, World

LONG = 4
"""The largest number of hops in one sentence."""
FIRST = ("Take {}.", "Consider {}.")
MONTHS = "January February March April May June July August September October November December"


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
        cut = [_cut(world, term)]
    phrases = [_phrase(draw, arg, {}, plain=True) for arg in cut]
    nouns = [world.domain.types[arg.hop.gives].noun for arg in cut]
    if not cut:
        return _phrase(draw, term, {})
    if len({*nouns}) < len(nouns) or not _clear(world, cut):
        names = dict(zip(cut, "AB", strict=False))
        let = ", and let ".join(
            f"{name} be {phrase}" for name, phrase in zip("AB", phrases, strict=False)
        )
        return f"Let {let}. {_phrase(draw, term, names)}"
    known = {arg: f"that {noun}" for arg, noun in zip(cut, nouns, strict=True)}
    first = draw.choice(FIRST).format(", and ".join(phrases))
    return f"{first} {_phrase(draw, term, known)}"


def _cut(world: World, term: Term) -> Term:
    """Return the inner term that gets a sentence of its own: one near the middle to which "that
    machine" can only refer, and best the only machine in the question."""
    nodes = term.nodes[:-2]
    middle = len(nodes) // 2
    types = [node.hop.gives for node in term.nodes]

    def badness(node: Term) -> tuple[bool, bool, int]:
        again = types.count(node.hop.gives) > 1
        return not _clear(world, [node]), again, abs(len(node.nodes) - 1 - middle)

    return min(nodes, key=badness)


def _clear(world: World, cut: Sequence[Term]) -> bool:
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
    text = draw.choice(says).replace("<v>", in_words(term.hop.value))
    for place, phrase in enumerate(inner):
        text = text.replace(f"<{place}>", phrase)
    return text


def in_words(value: Any) -> str:
    """Return a date as people write it, or the value."""
    text = str(value)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        day = date.fromisoformat(text)
        return f"{day.day} {MONTHS.split()[day.month - 1]} {day.year}"
    if re.fullmatch(r"\d{4}-\d\d", text):
        return f"{MONTHS.split()[int(text[5:]) - 1]} {text[:4]}"
    return text
