"""Tasks before they are kept: parameters are drawn, texts filled in, mistakes named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from intercode.generate.draws import Draw, Parameters, Split, Texts
from intercode.generate.families import FORMS, Family, Place, Question, fill
from intercode.generate.ladder import KNOWN, NEW_KIND, reserved, rungs
from intercode.generate.mutants import MUTANTS, NORMAL

RULES_SHOWN = 1 / 3
"""The part of the tasks of difficulty 3 whose query shows the rule."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A kind of task that is wanted: a question, and a rung of the ladder. No question: one that is
    composed for its place."""

    question: Question | None
    rung: str = KNOWN

    @property
    def kind(self) -> str:
        return self.question.kind if self.question else "composed"

    @property
    def label(self) -> str:
        return f"{self.kind} {self.rung}"


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
        return str(self.record["gold"])


def draft(draw: Draw, family: Family, place: Place, wanted: Wanted, asks: int) -> Draft:
    """Return a task about a place. `asks` clauses are left out of its query; its `unclarified` is
    the gold with the first value of each."""
    question = wanted.question
    assert question
    parameters = {**place.facts, **family.draw(draw, place)}
    drawn, changed = _choose(draw, question, wanted.rung)
    words, code = dict(parameters), dict(parameters)
    for name, texts in drawn.items():
        words[name], code[name] = fill(texts[0], parameters), fill(texts[1], parameters)
        for mistake in texts[2:]:
            code[f"wrong_{name}"] = fill(mistake, parameters)
    clear, guess, guesses = dict(words), dict(code), list[str]()
    facets = list[Record]()
    for omission in draw.sample(family.omissions(question), asks):
        name = omission.choice
        words[name] = fill(omission.hidden, parameters)
        reply = fill(omission.reply, clear)
        reply = reply[:1].upper() + reply[1:]
        facets.append({"name": name, "asks": list(omission.asks), "reply": reply})
        values = question.choices[name]
        guess[name] = fill(values[0][1], parameters)
        for value in values:
            if value != drawn[name]:
                other = {**code, name: fill(value[1], parameters)}
                guesses.append(fill(question.gold, other))
    phrasing = f"{draw.choice(question.query)} {draw.choice(FORMS[question.form])}"
    query = fill(phrasing.strip(), words)
    gold = fill(question.gold, code)
    record = _record(family, place, question, draw.split, wanted.rung)
    record |= {"query": query, "gold": gold, "kind": "/".join((question.kind, *changed))}
    if question.difficulty == 3 and draw.random() < RULES_SHOWN:
        record["query"] += f"\n\nThe rules say:\n{place.rules.strip()}"
        record["rule_shown"] = True
    if "<path>" in question.gold:
        record["path"] = parameters["path"]
    if facets:
        record |= {"facets": facets, "unclarified": fill(question.gold, guess)}
    refused = [*guesses, *mistakes(family, question, gold, code)]
    keys = frozenset({f"{query} {facets}".lower(), f"{place.name} {gold}"})
    return Draft(wanted.label, record, question, code, refused, keys)


def composed(family: Family, place: Place, question: Question, split: Split) -> Draft:
    """Return a task that was composed for its place."""
    record = _record(family, place, question, split, question.rung)
    record |= question.extra
    keys = frozenset({question.gold})
    return Draft(Wanted(None).label, record, question, place.facts, question.wrong, keys)


def _record(family: Family, place: Place, question: Question, split: Split, rung: str) -> Record:
    record: Record = {
        "query": question.query[0],
        "gold": question.gold,
        "split": split,
        "difficulty": question.difficulty,
        "family": family.name,
        "kind": question.kind,
        "place": place.name,
    }
    if split == "test":
        record |= {"distance": int(rung[0]), "rung": rung}
        if rung >= NEW_KIND:
            record["held_out"] = True
    if "db" in place.facts:
        record["db"] = place.facts["db"]
    if family.length:
        record[family.length] = question.difficulty
    return record


def _choose(draw: Draw, question: Question, rung: str) -> tuple[dict[str, Texts], Texts]:
    """Return a value for each choice, and the names of those that have a reserved one."""
    new = draw.choice(rungs(question).get(rung, [()]))
    chosen = {}
    for name, values in question.choices.items():
        if name in new:
            values = values[-1:]
        elif name in reserved(question):
            values = values[:-1]
        chosen[name] = draw.choice(values)
    return chosen, new


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
