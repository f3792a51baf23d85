"""Tasks before they are kept: parameters are drawn, texts filled in, mistakes named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from intercode.generate.draws import Draw, Parameters
from intercode.generate.families import (
    FORMS,
    Family,
    Omission,
    Place,
    Question,
    fill,
)
from intercode.generate.mutants import MUTANTS, NORMAL

RULES_SHOWN = 1 / 3
"""The part of the tasks of difficulty 3 whose query shows the rule."""
KNOWN, ONE_CHANGED, TWO_CHANGED, NEW_KIND, NEW_FAMILY = range(5)
"""The distances of a task from those of training: the same kind with other names; with one choice,
or two, that training does not have; another kind; a kind of another family."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A kind of task that is wanted: a question, and the number of choices that training does not
    have. No question: one that is composed for its place."""

    question: Question | None
    distance: int = KNOWN

    @property
    def kind(self) -> str:
        return self.question.kind if self.question else "composed"

    @property
    def label(self) -> str:
        return f"{self.kind} {self.distance}"


@dataclass(frozen=True)
class Draft:
    """A task that may be kept. Two tasks with a common key are the same."""

    wanted: str
    record: Record
    question: Question
    parameters: Parameters
    mistakes: Sequence[str]
    keys: frozenset[str]

    @property
    def gold(self) -> str:
        gold: str = self.record["gold"]
        return gold


def draft(draw: Draw, family: Family, place: Place, wanted: Wanted, asks: int) -> Draft:
    """Return a task about a place. `asks` clauses are left out of its query; its `unclarified` is
    the gold with the first value of each."""
    question, distance = wanted.question, wanted.distance
    assert question
    parameters = {**place.facts, **family.draw(draw, place)}
    drawn, changed = _choose(draw, question, distance)
    chosen = {name: [fill(text, parameters) for text in texts] for name, texts in drawn.items()}
    code = {**parameters, **{name: code for name, (_, code, *_) in chosen.items()}}
    code |= {f"wrong_{name}": wrong for name, (_, _, *rest) in chosen.items() for wrong in rest}
    words = (draw.choice(question.query), draw.choice(FORMS[question.form]))
    omissions = draw.sample(family.omissions(question), asks) if asks else []
    told = {**parameters, **{name: words for name, (words, *_) in chosen.items()}}
    hidden = {omission.choice: fill(omission.hidden, parameters) for omission in omissions}
    query = fill(" ".join(filter(None, words)), {**told, **hidden})
    facets = [_facet(omission, told) for omission in omissions]
    gold = fill(question.gold, code)
    others = [
        fill(question.gold, {**code, name: fill(value[1], parameters)})
        for name in hidden
        for value in question.choices[name]
        if value != drawn[name]
    ]
    guess = {name: fill(question.choices[name][0][1], parameters) for name in hidden}
    replies = [facet["reply"] for facet in facets]
    shown = question.difficulty == 3 and draw.random() < RULES_SHOWN
    record = {
        "query": f"{query}\n\n{place.rules.strip()}" if shown else query,
        "gold": gold,
        "split": draw.split,
        "difficulty": question.difficulty,
        "family": family.name,
        "kind": "/".join((question.kind, *changed)),
        **_distance(draw, distance),
        **({"rule_shown": True} if shown else {}),
        "place": place.name,
        **({"db": parameters["db"]} if "db" in parameters else {}),
        **({"path": parameters["path"]} if "<path>" in question.gold else {}),
        **({"facets": facets} if facets else {}),
        **({"unclarified": fill(question.gold, {**code, **guess})} if hidden else {}),
    }
    return Draft(
        wanted.label,
        record,
        question,
        code,
        [*others, *mistakes(family, question, gold, code)],
        frozenset({" ".join((query, *replies)).lower(), f"{place.name} {gold}"}),
    )


def composed(family: Family, place: Place, question: Question, split: str) -> Draft:
    """Return a task that was composed for its place."""
    record = {
        "query": question.query[0],
        "gold": question.gold,
        "split": split,
        "difficulty": question.difficulty,
        "family": family.name,
        "kind": question.kind,
        **({"distance": NEW_KIND if question.held_out else KNOWN} if split == "test" else {}),
        **({"held_out": True} if question.held_out else {}),
        "place": place.name,
        **({"db": place.facts["db"]} if "db" in place.facts else {}),
    }
    keys = frozenset({question.gold})
    inputs = place.data["inputs"] if family.env == "python" else ()
    parameters = {**place.facts, "inputs": inputs}
    return Draft(Wanted(None).label, record, question, parameters, question.wrong, keys)


def _distance(draw: Draw, distance: int) -> Record:
    if draw.split == "train":
        return {}
    return {"distance": distance, **({"held_out": True} if distance >= NEW_KIND else {})}


def reserved(question: Question) -> list[str]:
    """Return the choices of which the last value occurs in the test split alone: those with three
    or more."""
    return [name for name, values in question.choices.items() if len(values) > 2]


def _choose(
    draw: Draw, question: Question, distance: int
) -> tuple[dict[str, Sequence[str]], list[str]]:
    """Return a value for each choice, and the names of those that have a value which training does
    not have."""
    names = reserved(question)
    new = draw.sample(names, distance) if distance in (ONE_CHANGED, TWO_CHANGED) else []
    chosen = dict[str, Sequence[str]]()
    for name, values in question.choices.items():
        usual = values[:-1] if name in names else values
        chosen[name] = values[-1] if name in new else draw.choice(usual)
    return chosen, sorted(new)


def mistakes(
    family: Family, question: Question, gold: str, parameters: Parameters
) -> Iterator[str]:
    """Yield the solutions that the reward has to refuse."""
    normal = NORMAL[family.env]
    yield from (fill(solution, parameters) for solution in question.wrong)
    texts = (question.gold, *question.equivalents)
    same = (normal(fill(text, parameters)) for text in texts)
    seen = {" ".join(text.split()) for text in same}
    for mutant in MUTANTS[family.env](gold):
        if (form := " ".join(mutant.split())) not in seen:
            seen.add(form)
            yield mutant


def _facet(omission: Omission, parameters: Parameters) -> Record:
    reply = fill(omission.reply, parameters)
    reply = reply[:1].upper() + reply[1:]
    return {"name": omission.choice, "asks": list(omission.asks), "reply": reply}
