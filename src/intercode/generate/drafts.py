"""Tasks before they are kept: parameters are drawn, texts filled in, mistakes named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from intercode.generate.draws import Draw, Parameters, Split, Texts
from intercode.generate.families import FORMS, Family, Place, Question, fill
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
    mistakes: Texts
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
    words, code, wrong = dict(parameters), dict(parameters), Parameters()
    for name, texts in drawn.items():
        words[name], code[name], *mistake = [fill(text, parameters) for text in texts]
        for text in mistake:
            wrong[f"wrong_{name}"] = text
    code |= wrong
    sentences = (draw.choice(question.query), draw.choice(FORMS[question.form]))
    omissions = draw.sample(family.omissions(question), asks)
    clear, guess, guesses = dict(words), dict(code), list[str]()
    facets, replies = list[Record](), list[str]()
    for omission in omissions:
        name = omission.choice
        words[name] = fill(omission.hidden, parameters)
        reply = fill(omission.reply, clear)
        replies.append(reply[:1].upper() + reply[1:])
        facets.append({"name": name, "asks": list(omission.asks), "reply": replies[-1]})
        values = question.choices[name]
        guess[name] = fill(values[0][1], parameters)
        for value in values:
            if value != drawn[name]:
                other = {**code, name: fill(value[1], parameters)}
                guesses.append(fill(question.gold, other))
    query, gold = fill(" ".join(filter(None, sentences)), words), fill(question.gold, code)
    shown = question.difficulty == 3 and draw.random() < RULES_SHOWN
    record = _record(family, question, draw.split, distance)
    record |= {"query": query, "gold": gold, "kind": "/".join((question.kind, *changed))}
    if shown:
        record["query"] += f"\n\n{place.rules.strip()}"
        record["rule_shown"] = True
    _add_place(record, place)
    if "<path>" in question.gold:
        record["path"] = parameters["path"]
    if facets:
        record |= {"facets": facets, "unclarified": fill(question.gold, guess)}
    refused = [*guesses, *mistakes(family, question, gold, code)]
    keys = frozenset({" ".join((query, *replies)).lower(), f"{place.name} {gold}"})
    return Draft(wanted.label, record, question, code, refused, keys)


def composed(family: Family, place: Place, question: Question, split: Split) -> Draft:
    """Return a task that was composed for its place."""
    distance = NEW_KIND if question.held_out else KNOWN
    record = _record(family, question, split, distance)
    _add_place(record, place)
    parameters = {**place.facts, "inputs": ()}
    if family.env == "python":
        parameters["inputs"] = place.data["inputs"]
    keys = frozenset({question.gold})
    return Draft(Wanted(None).label, record, question, parameters, question.wrong, keys)


def _record(family: Family, question: Question, split: Split, distance: int) -> Record:
    record: Record = {
        "query": question.query[0],
        "gold": question.gold,
        "split": split,
        "difficulty": question.difficulty,
        "family": family.name,
        "kind": question.kind,
    }
    if split == "test":
        record["distance"] = distance
        if distance >= NEW_KIND:
            record["held_out"] = True
    return record


def _add_place(record: Record, place: Place) -> None:
    record["place"] = place.name
    if "db" in place.facts:
        record["db"] = place.facts["db"]


def reserved(question: Question) -> list[str]:
    """Return the choices of which the last value occurs in the test split alone: those with three
    or more."""
    return [name for name, values in question.choices.items() if len(values) > 2]


def _choose(draw: Draw, question: Question, distance: int) -> tuple[dict[str, Texts], list[str]]:
    """Return a value for each choice, and the names of those that have a value which training does
    not have."""
    names = reserved(question)
    new = []
    if distance in (ONE_CHANGED, TWO_CHANGED):
        new = draw.sample(names, distance)
    chosen = {}
    for name, values in question.choices.items():
        if name in new:
            chosen[name] = values[-1]
        elif name in names:
            chosen[name] = draw.choice(values[:-1])
        else:
            chosen[name] = draw.choice(values)
    return chosen, sorted(new)


def mistakes(
    family: Family, question: Question, gold: str, parameters: Parameters
) -> Iterator[str]:
    """Yield the solutions that the reward has to refuse."""
    for solution in question.wrong:
        yield fill(solution, parameters)
    seen = set[str]()
    for text in (question.gold, *question.equivalents):
        seen.add(" ".join(NORMAL[family.env](fill(text, parameters)).split()))
    for mutant in MUTANTS[family.env](gold, family.name):
        form = " ".join(mutant.split())
        if form not in seen:
            seen.add(form)
            yield mutant
