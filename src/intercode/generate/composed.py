"""Composed Python tasks: the query says step by step what one function does.

    a walk of steps ──► each with parameters drawn for what the ones before leave ──► query, gold
         lists of records are drawn until the hidden tests refute all mistakes ──► tests

A mistake is another choice or parameter of one step, a solution that the step names as wrong, one
or two steps left out, all steps left out without which the function still runs, or two neighboring
steps in the other order. A draft is kept only if hidden tests refute all of them. No step has an
empty list or dict to work on. `composed.toml` contains the steps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, pairwise
from typing import Any

from intercode.generate.draws import Draw, Parameters, Texts, read_toml
from intercode.generate.families import Family, Place, Question, fill
from intercode.generate.ground import Inputs
from intercode.generate.judges import SHOWN, python_judge, results, write_tests
from intercode.generate.ladder import KNOWN, NEW_KIND

SAMPLE, HIDDEN = 30, 8
"""The numbers of records in the sample, and of hidden calls, if so many are enough."""
MOST_DRAWN = 60
"""The number of lists that are drawn to refute mistakes."""
LONGEST_PROSE = 4
"""The number of steps that a query states without a list."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MONTHS = "January February March April May June July August September October November December"
COLUMNS = ("day", "who", "kind", "amount")
VARIABLE = re.compile(r"^(rows|values|names|lines) = ", re.MULTILINE)
_DATA = read_toml("composed")
Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """A step of a function, see `composed.toml`."""

    name: str
    takes: Texts
    gives: str
    says: Texts
    code: str
    wrong: Texts = ()
    choices: Mapping[str, Sequence[Texts]] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    swaps: Texts = ()
    held_out: bool = False

    @property
    def is_optional(self) -> bool:
        """Tell whether the function still runs without this step."""
        return any(_VARIABLES.get(kind, kind) == self.variable for kind in self.takes)

    @property
    def variable(self) -> str:
        return _VARIABLES.get(self.gives, self.gives)


_VARIABLES = {"sorted": "rows", "ranked": "names"}
STEPS = [Step(name, **entry) for name, entry in _DATA["steps"].items()]


@dataclass(frozen=True)
class Stated:
    """A step of one task. Its code assigns a variable; in it, $in stands for the one before."""

    step: Step
    text: str
    code: str
    mistakes: Texts


# -- places ----------------------------------------------------------------------------------------


def _place(draw: Draw, name: str) -> Place:
    """Return a place with a sample of records of one world."""
    world = draw.choice(list(_DATA["worlds"].values()))
    facts = {column: draw.choice(world[column].split()) for column in ("item", *COLUMNS)}
    facts |= {"items": f"{facts['item']}s", "site": draw.home("srv", name)}
    facts["sample"] = f"{facts['site']}/{facts['items']}.json"
    year, month = draw.number(2010, 2030), draw.randint(1, 9)
    days = set()
    for _ in range(16):
        days.add(f"{year}-{month + draw.randrange(4):02}-{draw.randint(1, 28):02}")
    pools = {
        "day": sorted(days),
        "who": (draw.nouns if "names" in world else draw.people)(7),
        "kind": draw.sample(world["kinds"].split(), 5),
        "amount": [draw.randint(5, 240) for _ in range(20)],
    }
    place = Place(name, facts=facts, data=pools)
    lines = ",\n".join(map(json.dumps, _records(draw, place, SAMPLE)))
    place.write(facts["sample"], f"[\n{lines}\n]\n")
    return place


def _records(draw: Draw, place: Place, count: int) -> Records:
    """Return records of a place. Some repeat another, or all but its amount."""
    events = list[list[Any]]()
    while len(events) < count:
        event = [draw.choice(place.data[column]) for column in COLUMNS]
        if events and draw.random() < 0.25:
            same = draw.choice((3, 4))
            event[:same] = draw.choice(events)[:same]
        events.append(event)
    names = [place.facts[column] for column in COLUMNS]
    return [dict(zip(names, event, strict=True)) for event in events]


# -- walks -----------------------------------------------------------------------------------------


def is_held_out(walk: Sequence[Step]) -> bool:
    """Tell whether a walk is for the test split only: for one of its steps, or of its pairs of
    neighbors, of which a fifth are."""
    for step, after in pairwise(walk):
        if hashlib.sha256(f"{step.name}+{after.name}".encode()).digest()[0] % 5 == 0:
            return True
    return any(step.held_out for step in walk)


def draw_walk(draw: Draw, length: int) -> list[Step]:
    """Return different steps, each of which takes what the one before gives. Half of the walks of
    the test split are held out, none of the train split."""
    held_out = draw.split == "test" and draw.random() < 0.5
    while True:
        walk, takes = list[Step](), "rows"
        while len(walk) < length:
            fits = []
            for step in STEPS:
                allowed = held_out or not is_held_out([*walk[-1:], step])
                if allowed and takes in step.takes and step not in walk:
                    fits.append(step)
            if not fits:
                break
            walk.append(draw.choice(fits))
            takes = walk[-1].gives
        if len(walk) == length and is_held_out(walk) == held_out:
            return walk


# -- steps -----------------------------------------------------------------------------------------


def _parameters(draw: Draw, place: Place, states: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Return the parameters of a step that works on the states: words, code, and a mistake."""
    value, other, third = draw.sample(place.data["kind"], 3)
    people, days = draw.sample(place.data["who"], 3), place.data["day"]
    early, late = draw.choice(days[2:7]), draw.choice(days[-7:-2])
    few, many = draw.randint(2, 3), draw.randint(5, 7)
    month = draw.choice(days)[:7]
    numbers = list[int]()
    for state in states:
        if isinstance(state, dict):
            numbers += state.values()
    if not numbers:
        numbers = place.data["amount"]
    numbers, cut = sorted(numbers), len(numbers) // 2
    limit = draw.limit(numbers[cut // 3 : cut + 1])
    high = draw.limit(numbers[cut : len(numbers) - cut // 3])
    month_words = f"{MONTHS.split()[int(month[5:]) - 1]} {month[:4]}"
    return {
        "value": (value, value, third),
        "other": (other, other, third),
        "limit": (limit, limit),
        "high": (high, high),
        "few": (NUMBERS[few], few, few + 1),
        "many": (NUMBERS[many], many, many - 1),
        "plus": (many, many, few),
        "early": (early, early),
        "late": (late, late),
        "month": (month_words, month, late[:7]),
        "people": (_listed(people, "and"), repr(tuple(people)), repr(tuple(people[:2]))),
        "anyone": (_listed(people, "or"), ""),
        "example": (people[0], ""),
    }


def _listed(names: Texts, joint: str) -> str:
    return f"{', '.join(names[:-1])} {joint} {names[-1]}"


@dataclass
class _Writer:
    """States the steps of one task. `words` and `code` are what <NAME> stands for."""

    draw: Draw
    words: Parameters
    code: Parameters

    def state(self, step: Step, parameters: Mapping[str, tuple[Any, ...]]) -> Stated:
        """Return a step with one value of each parameter and choice."""
        words, code = dict(self.words), dict(self.code)
        for name, (word, value, *_) in parameters.items():
            words[name], code[name] = word, value
        chosen, others = dict[str, str](), list[dict[str, str]]()
        for name, options in {**_DATA["choices"], **step.choices}.items():
            if f"<{name}>" in step.code:
                option = self.draw.choice(options)
                words[name], chosen[name] = fill(option[0], words), option[1]
                others += [{name: other} for _, other in options if other != option[1]]
        changes = [(chosen | other, code) for other in others]
        for name, (_, value, *mistakes) in parameters.items():
            for mistake in mistakes:
                changes.append((chosen, code | {name: mistake}))
        mistakes = [_filled(step.code, *change) for change in changes]
        mistakes += [_filled(text, chosen, code) for text in step.wrong]
        gold = _filled(step.code, chosen, code)
        for name, text in step.sets.items():
            self.words[name], self.code[name] = fill(text, words), _filled(text, chosen, code)
        text = fill(self.draw.choice(step.says), words)
        mistakes = [mistake for mistake in dict.fromkeys(mistakes) if mistake != gold]
        return Stated(step, text[:1].upper() + text[1:], gold, mistakes)


def _filled(text: str, chosen: Mapping[str, str], code: Parameters) -> str:
    return fill(text, code | {name: fill(option, code) for name, option in chosen.items()})


def source(function: str, argument: str, codes: Texts) -> str:
    """Return a function that does some steps."""
    variable, lines = argument, list[str]()
    for code in codes:
        lines += code.strip().replace("$in", variable).split("\n")
        variable = VARIABLE.findall(code)[-1]
    body = "".join(f"    {line}\n" for line in [*lines, f"return {variable}"])
    imports = [f"import {name}\n" for name in ("collections", "itertools") if f"{name}." in body]
    if imports:
        imports.append("\n\n")
    return f"{''.join(imports)}def {function}({argument}):\n{body}"


def mistaken(stated: Sequence[Stated]) -> Iterator[tuple[str, Texts]]:
    """Yield the mistakes of a chain of steps: what is wrong, and the codes."""
    codes = [one.code for one in stated]
    places = range(len(stated))
    for place, one in enumerate(stated):
        for mistake in one.mistakes:
            yield f"{one.step.name} done otherwise", [*codes[:place], mistake, *codes[place + 1 :]]
    optional = [place for place in places if stated[place].step.is_optional]
    for left_out in (*combinations(places, 1), *combinations(places, 2), tuple(optional)):
        if left_out:
            names = " and ".join(stated[place].step.name for place in left_out)
            rest = [codes[place] for place in places if place not in left_out]
            yield f"{names} left out", rest
    for place, (one, after) in enumerate(pairwise(stated)):
        if after.step.name not in one.step.swaps and one.step.name not in after.step.swaps:
            swapped = [after.code, one.code]
            name = f"{one.step.name} and {after.step.name} swapped"
            yield name, [*codes[:place], *swapped, *codes[place + 2 :]]


# -- tasks -----------------------------------------------------------------------------------------


def compose(draw: Draw, place: Place, length: int, walk: Sequence[Step] = ()) -> Question | str:
    """Return a task of so many steps about a place, or the reason why this walk has none."""
    walk = walk or draw_walk(draw, length)
    facts = place.facts
    words = {name: str(value).replace("_", " ") for name, value in facts.items()}
    keys = [facts[column] for column in COLUMNS]
    words |= {"keys": _listed(keys, "and"), "sample": facts["sample"]}
    words["did"] = facts["day"].removesuffix("_on")
    writer = _Writer(draw, words, dict(facts))
    least = 8 + 2 * len(walk)

    def new_input() -> tuple[Records]:
        return (_records(draw, place, draw.randint(least, least + 6)),)

    inputs = [new_input() for _ in range(SHOWN + HIDDEN)]
    stated, prefixes, states = list[Stated](), list[str](), [records for (records,) in inputs]
    for step in walk:
        stated.append(writer.state(step, _parameters(draw, place, states)))
        prefixes.append(source("prefix", facts["items"], [one.code for one in stated]))
        inputs = [one for one in inputs if results(prefixes[-1], [one]) not in (None, [[]], [{}])]
        if len(inputs) < SHOWN + HIDDEN // 2:
            return f"{step.name}: nothing is left"
        states = results(prefixes[-1], inputs) or []
    function = _function(draw, walk[-1], writer.code)
    gold = source(function, facts["items"], [one.code for one in stated])
    mistakes = {}
    for name, codes in mistaken(stated):
        mistakes[source(function, facts["items"], codes)] = name
    passing = python_judge(Inputs(tuple(inputs[SHOWN:])), gold, [*mistakes]) or []
    for _ in range(MOST_DRAWN):
        new = new_input()
        if any(results(prefix, [new]) in (None, [[]], [{}]) for prefix in prefixes):
            continue
        still = python_judge(Inputs((new,)), gold, passing) or []
        if len(still) < len(passing) or len(inputs) < SHOWN + HIDDEN:
            inputs.append(new)
            passing = still
        if not passing and len(inputs) >= SHOWN + HIDDEN:
            break
    if passing:
        return f"this passes too: {mistakes[passing[0]]}"
    tests = write_tests(gold, inputs)
    if isinstance(tests, str):
        return tests
    return Question(
        kind="+".join(step.name for step in walk),
        difficulty=len(walk),
        gold=gold,
        query=[_query(draw, stated, {**writer.words, "function": function})],
        wrong=[*mistakes],
        held_out=is_held_out(walk),
        rung=NEW_KIND if is_held_out(walk) else KNOWN,
        extra={"tests": tests[:SHOWN], "hidden": tests[SHOWN:]},
    )


def _function(draw: Draw, last: Step, code: Parameters) -> str:
    subject = code["items"]
    if last.variable in ("values", "names"):
        subject = f"{code['one']}s"
    return f"{draw.choice(_DATA['functions'][last.variable].split())}_{subject}"


def _query(draw: Draw, stated: Sequence[Stated], words: Parameters) -> str:
    header = fill(draw.choice(_DATA["headers"]), words)
    end = fill(_DATA["returns"][stated[-1].step.gives], words)
    texts = [one.text for one in stated]
    if len(texts) <= LONGEST_PROSE:
        for place in range(1, len(texts)):
            if draw.random() < 0.4:
                texts[place] = f"Then {texts[place][0].lower()}{texts[place][1:]}"
        return " ".join([header, *texts, end])
    lines = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
    return "\n".join([f"{header} {draw.choice(_DATA['lists'])}\n", *lines, f"\n{end}"])


FAMILIES = (
    Family(
        "python-composed",
        "python",
        "functions of several stated steps on lists of records: filter, change, group, rank",
        place=_place,
        ask=lambda draw, place, steps, asks: compose(draw, place, steps),
        length="steps",
    ),
)
