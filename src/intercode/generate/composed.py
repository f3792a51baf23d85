"""Composed Python tasks: the query says step by step what one function does.

    steps are drawn ──► each with parameters for what the ones before leave ──► query, gold, tests
        ▲                                  │
        └── hidden tests accept a mistake ─┘

A mistake is another choice or parameter of one step, a solution that the step names as wrong, one
or two steps left out, all steps left out without which the function still runs, or two neighbors in
the other order. In no test has a step an empty list or dict to work on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from intercode.generate.draws import Draw, Parameters, Texts, middle, read_toml, without
from intercode.generate.families import Family, Place, Question, fill
from intercode.generate.judges import SHOWN, function, write_tests
from intercode.generate.ladder import KNOWN, NEW_KIND

SAMPLE, DRAWN, FEWEST = 30, 18, 12
"""The numbers of records in the sample, of lists that are drawn for tests, and of those that have
to be of use."""
TURNS = 0.2
"""The part of the steps for which one is preferred that gives another type."""
LAST = "lines"
"""The type that no step takes."""
LONGEST_PROSE = 4
"""The number of steps that a query states without a list."""
COLUMNS = ("who", "kind", "amount")
VARIABLE = re.compile(r"^(rows|values|names|lines) = ", re.MULTILINE)
DATA = read_toml("composed")
MISTAKEN = {"value": "third", "other": "third", "few": "more", "many": "less", "person": "stranger"}
"""The parameter that a mistake has in place of another."""


@dataclass(frozen=True)
class Step:
    """A kind of step, see `composed.toml`."""

    name: str
    says: Texts
    code: str
    takes: Texts = ("rows",)
    gives: str = ""
    """The type of the result; if empty, the type of what the step takes."""
    wrong: Texts = ()
    choices: Mapping[str, Sequence[Texts]] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    swaps: Texts = ()
    held_out: bool = False

    def is_optional(self) -> bool:
        """Tell whether a function still runs without this step."""
        return self.gives.partition(" ")[0] in " ".join(self.takes)


STEPS = [Step(name, **entry) for name, entry in DATA["steps"].items()]


@dataclass(frozen=True)
class Stated:
    """A step of one task. Its code assigns a variable; in it, $in stands for the one before."""

    step: Step
    text: str
    code: str
    mistakes: Texts


# -- places ----------------------------------------------------------------------------------------


def draw_place(draw: Draw, name: str) -> Place:
    """Return a place with a sample of records of one world."""
    world = draw.choice(list(DATA["worlds"].values()))
    facts = {column: draw.choice(world[column].split()) for column in ("item", "did", *COLUMNS)}
    items, site = f"{facts['item']}s", draw.home("srv", name)
    facts |= {"site": site, "items": items, "sample": f"{site}/{items}.json", "the": "the "}
    year, days = draw.number(2010, 2030), list[str]()
    for _ in range(12):
        days.append(f"{year}-{draw.randint(1, 5):02}-{draw.randint(1, 28):02}")
    data = {"days": sorted(days), "who": draw.people(7), "amount": draw.sample(range(5, 240), 20)}
    data["kind"] = draw.sample(world["kinds"].split(), 5)
    place = Place(name, facts=facts, data=data)
    lines = ",\n".join(map(json.dumps, draw_records(draw, place, SAMPLE)))
    place.write(facts["sample"], f"[\n{lines}\n]\n")
    return place


def draw_records(draw: Draw, place: Place, count: int) -> list[Parameters]:
    records = list[Parameters]()
    for _ in range(count):
        record = {f"{place.facts['did']}_on": draw.choice(place.data["days"])}
        for name in COLUMNS:
            record[place.facts[name]] = draw.choice(place.data[name])
        records.append(record)
    return records


# -- steps -----------------------------------------------------------------------------------------


def is_held_out(walk: Sequence[Step]) -> bool:
    """Tell whether a walk is for the test split only: for one of its steps, or of its pairs of
    neighbors, of which a fifth are."""
    for step, after in pairwise(walk):
        if hashlib.sha256(f"{step.name}+{after.name}".encode()).digest()[0] % 5 == 0:
            return True
    return any(step.held_out for step in walk)


def parameters(draw: Draw, place: Place, results: Sequence[Any]) -> Parameters:
    """Return the parameters of a step that takes one of the results."""
    numbers = list[int]()
    for result in results:
        if isinstance(result, dict):
            numbers += result.values()
    value, other, third = draw.sample(place.data["kind"], 3)
    person, partner, stranger = draw.sample(place.data["who"], 3)
    few, many = draw.randint(2, 3), draw.randint(5, 7)
    return {
        "value": value,
        "other": other,
        "third": third,
        "person": person,
        "partner": partner,
        "stranger": stranger,
        "few": few,
        "more": few + 1,
        "many": many,
        "less": many - 1,
        "date": draw.choice(place.data["days"][2:-2]),
        "limit": draw.limit(middle(numbers or place.data["amount"], 4)),
    }


def state(draw: Draw, step: Step, values: Parameters) -> tuple[Stated, Parameters]:
    """Return a step with some values and one of each of its choices, and the values that it sets
    for later steps."""
    words, codes = dict(values), dict(values)
    alternatives = [{name: values[twin]} for name, twin in MISTAKEN.items()]
    for name, options in {**DATA["choices"], **step.choices}.items():
        if f"<{name}>" in step.code:
            words[name], codes[name] = draw.choice(options)
            alternatives += [{name: code} for _, code in options]
    gold = filled(step.code, codes)
    wrong = [filled(step.code, codes | other) for other in alternatives]
    wrong += [filled(text, codes) for text in step.wrong]
    text = filled(draw.choice(step.says), words)
    later = {name: filled(says, words) for name, says in step.sets.items()}
    mistakes = without(dict.fromkeys(wrong), [gold])
    return Stated(step, text[0].upper() + text[1:], gold, mistakes), {"the": "these ", **later}


def filled(text: str, parameters: Parameters) -> str:
    """Fill in parameters, and those that stand in them."""
    return fill(fill(text, parameters), parameters)


# -- functions -------------------------------------------------------------------------------------


def source(name: str, arguments: str, codes: Texts) -> str:
    """Return a function that does some steps, of which an empty one does nothing, with its first
    argument."""
    variable, lines = arguments.partition(",")[0], list[str]()
    for code in filter(None, codes):
        lines += code.strip().replace("$in", variable).split("\n")
        variable = VARIABLE.findall(code)[-1]
    body = "".join(f"    {line}\n" for line in [*lines, f"return {variable}"])
    return f"def {name}({arguments}):\n{body}"


class Runs:
    """Runs the steps of functions on the lists of a task, each beginning once."""

    def __init__(self, argument: str, lists: Sequence[Any]) -> None:
        self._argument, self._lists = argument, lists
        self._results: dict[Texts, Sequence[Any]] = {(): lists}

    def results(self, codes: Texts) -> Sequence[Any]:
        """Return the result for each list, None if the steps fail."""
        codes = tuple(codes)
        if codes not in self._results:
            step = function(source("step", f"before, {self._argument}", codes[-1:]))
            results = []
            for before, records in zip(self.results(codes[:-1]), self._lists, strict=True):
                try:
                    results.append(step(before, records))
                except Exception:
                    results.append(None)
            self._results[codes] = results
        return self._results[codes]


def mistakes(chain: Sequence[Stated]) -> Iterator[tuple[str, Texts]]:
    """Yield the mistakes of a function: what is wrong, and the codes."""
    for name, change in changes(chain):
        yield name, [change.get(place, stated.code) for place, stated in enumerate(chain)]


def changes(chain: Sequence[Stated]) -> Iterator[tuple[str, Mapping[int, str]]]:
    """Yield what is wrong in each mistake, and the codes that it has in other places."""
    places, optional = range(len(chain)), list[int]()
    for place, stated in enumerate(chain):
        for mistake in stated.mistakes:
            yield f"another {stated.step.name}", {place: mistake}
        if stated.step.is_optional():
            optional.append(place)
    for missing in (*combinations(places, 1), *combinations(places, 2), optional or [0]):
        yield f"no {chain[missing[-1]].step.name}", dict.fromkeys(missing, "")
    for place, (stated, after) in enumerate(pairwise(chain)):
        first, second = stated.step, after.step
        if second.name not in first.swaps and first.name not in second.swaps:
            swap = {place: after.code, place + 1: stated.code}
            yield f"{second.name} before {first.name}", swap


def usable(runs: Runs, codes: Texts) -> list[int]:
    """Return the numbers of the lists for which no step has an empty result."""
    steps = [runs.results(codes[: length + 1]) for length in range(len(codes))]
    return [number for number, results in enumerate(zip(*steps, strict=True)) if all(results)]


def fault(runs: Runs, chain: Sequence[Stated]) -> str:
    """Return why some steps cannot become a task, "" if they can."""
    codes = [stated.code for stated in chain]
    numbers, right = usable(runs, codes), runs.results(codes)
    if len(numbers) < FEWEST:
        return f"nothing is left after {chain[-1].step.name}"
    for name, wrong in mistakes(chain):
        results = runs.results(wrong)
        if all(results[number] == right[number] for number in numbers[SHOWN:]):
            return f"this passes too: {name}"
    return ""


# -- tasks -----------------------------------------------------------------------------------------


def compose(draw: Draw, place: Place, length: int) -> Question | str:
    """Return a task of so many steps about a place, or the reason why a draft did not become one.
    Half of the tasks of the test split are held out."""
    sizes = draw.choices(range(8 + length, 12 + 2 * length), k=DRAWN)
    runs = Runs(place.facts["items"], [draw_records(draw, place, size) for size in sizes])
    held_out = draw.split == "test" and draw.random() < 0.5
    chain, takes, values = list[Stated](), "rows", place.facts
    for later_steps in reversed(range(length)):
        candidates, reason = draw.shuffled(STEPS), "no step fits"
        if draw.random() < TURNS:
            candidates.sort(key=Step.is_optional)
        results = runs.results([stated.code for stated in chain])
        for step in candidates:
            walk = [*(stated.step for stated in chain), step]
            gives, is_new = step.gives or takes, is_held_out(walk)
            if takes not in step.takes or step in walk[:-1] or (later_steps and gives == LAST):
                continue
            if is_new != held_out and (is_new or not later_steps):
                continue
            stated, later = state(draw, step, {**values, **parameters(draw, place, results)})
            reason = fault(runs, [*chain, stated])
            if not reason:
                chain, takes, values = [*chain, stated], gives, {**values, **later}
                break
        if reason:
            return reason
    return question(draw, chain, runs, values)


def question(draw: Draw, chain: Sequence[Stated], runs: Runs, values: Parameters) -> Question | str:
    walk, codes = [stated.step for stated in chain], [stated.code for stated in chain]
    items = values["items"]
    name = f"{draw.choice(DATA['verbs'])}_{items}"
    gold = source(name, items, codes)
    lists = runs.results(())
    tests = write_tests(gold, [(lists[number],) for number in usable(runs, codes)])
    if isinstance(tests, str):
        return tests
    words = {**values, "function": name, "variable": VARIABLE.findall(codes[-1])[-1]}
    return Question(
        kind="+".join(step.name for step in walk),
        difficulty=len(walk),
        gold=gold,
        query=[query(draw, [stated.text for stated in chain], words)],
        wrong=[source(name, items, wrong) for _, wrong in mistakes(chain)],
        held_out=is_held_out(walk),
        rung=NEW_KIND if is_held_out(walk) else KNOWN,
        extra={"tests": tests[:SHOWN], "hidden": tests[SHOWN:]},
    )


def query(draw: Draw, texts: list[str], words: Parameters) -> str:
    header = fill(draw.choice(DATA["headers"]), words)
    end = fill(DATA["returns"][words["variable"]], words)
    if len(texts) > LONGEST_PROSE:
        lines = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
        return "\n".join([f"{header} These are its steps:\n", *lines, f"\n{end}"])
    for place in range(1, len(texts)):
        if draw.random() < 0.6 and not texts[place - 1].startswith("Then "):
            texts[place] = f"Then {texts[place][0].lower()}{texts[place][1:]}"
    return " ".join([header, *texts, end])


FAMILIES = (
    Family(
        "python-composed",
        "python",
        "functions of several steps on lists of records: filter, change, group, rank",
        place=draw_place,
        ask=lambda draw, place, steps, asks: compose(draw, place, steps),
        length="steps",
    ),
)
