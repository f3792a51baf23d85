"""Composed Python tasks: the query says step by step what one function does.

    a walk of steps ──► each with parameters drawn for what the ones before leave ──► query, gold
         lists of records are drawn until the hidden tests refute all mistakes ──► tests

A mistake is another choice or parameter of one step, a solution that the step names as wrong, one
or two steps left out, all steps left out without which the function still runs, or two neighboring
steps in the other order. A draft is kept only if hidden tests refute all of them. No step has an
empty list or dict to work on. `composed.toml` contains the steps.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from intercode.generate.draws import Draw, Parameters, Texts, read_toml, without
from intercode.generate.families import Family, Place, Question, fill
from intercode.generate.judges import SHOWN, write_tests
from intercode.generate.ladder import KNOWN, NEW_KIND

SAMPLE, DRAWN, HIDDEN = 30, 24, 8
"""The numbers of records in the sample, of lists drawn, and of hidden calls, if so many are
enough."""
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
    says: Texts
    code: str
    gives: str = ""
    """The type of the result, that of what it takes if empty."""
    wrong: Texts = ()
    choices: Mapping[str, Sequence[Texts]] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    swaps: Texts = ()
    held_out: bool = False

    @property
    def is_optional(self) -> bool:
        """Tell whether a function still runs without this step."""
        variable = _variable(self.code)
        return any(_VARIABLES.get(kind, kind) == variable for kind in self.takes)


_VARIABLES = {"sorted": "rows", "ranked": "names", "amounts": "values", "ranks": "values"}
STEPS = [Step(name, **entry) for name, entry in _DATA["steps"].items()]
TAKEN = {kind for step in STEPS for kind in step.takes}


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


# -- held out --------------------------------------------------------------------------------------


def is_held_out(walk: Sequence[Step]) -> bool:
    """Tell whether a walk is for the test split only: for one of its steps, or of its pairs of
    neighbors, of which a fifth are."""
    for step, after in pairwise(walk):
        if hashlib.sha256(f"{step.name}+{after.name}".encode()).digest()[0] % 5 == 0:
            return True
    return any(step.held_out for step in walk)


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


@dataclass(frozen=True)
class Writer:
    """States steps of one task. `words` and `code` are what <NAME> stands for."""

    draw: Draw
    words: Parameters
    code: Parameters

    def state(self, step: Step, parameters: Mapping[str, Sequence[Any]]) -> tuple[Stated, Writer]:
        """Return a step with one value of each parameter and choice, and a writer for the next."""
        words, code = dict(self.words), dict(self.code)
        for name, (word, value, *_) in parameters.items():
            words[name], code[name] = word, value
        chosen, changes = dict[str, str](), list[tuple[dict[str, str], Parameters]]()
        for name, options in {**_DATA["choices"], **step.choices}.items():
            if f"<{name}>" in step.code:
                word, value = self.draw.choice(options)
                words[name], chosen[name] = fill(word, words), value
                changes += [({name: other}, {}) for _, other in options]
        for name, (_, _, *mistakes) in parameters.items():
            changes += [({}, {name: mistake}) for mistake in mistakes]
        gold = _filled(step.code, chosen, code)
        wrong = [_filled(step.code, chosen | option, code | value) for option, value in changes]
        wrong += [_filled(text, chosen, code) for text in step.wrong]
        later_words, later_code = dict(self.words), dict(self.code)
        for name, text in step.sets.items():
            later_words[name] = fill(text, words)
            later_code[name] = _filled(text, chosen, code)
        text = fill(self.draw.choice(step.says), words)
        stated = Stated(step, text, gold, without(dict.fromkeys(wrong), [gold]))
        return stated, Writer(self.draw, later_words, later_code)


def _writer(draw: Draw, place: Place) -> Writer:
    facts = place.facts
    words = {name: str(value).replace("_", " ") for name, value in facts.items()}
    words |= {"sample": facts["sample"], "did": facts["day"].removesuffix("_on")}
    words["keys"] = _listed([facts[column] for column in COLUMNS], "and")
    return Writer(draw, words, facts)


def _filled(text: str, chosen: Mapping[str, str], code: Parameters) -> str:
    return fill(text, code | {name: fill(option, code) for name, option in chosen.items()})


def source(function: str, argument: str, codes: Texts) -> str:
    """Return a function that does some steps."""
    variable, lines = argument, list[str]()
    for code in codes:
        lines += code.strip().replace("$in", variable).split("\n")
        variable = _variable(code)
    body = "".join(f"    {line}\n" for line in [*lines, f"return {variable}"])
    imports = [f"import {name}\n" for name in ("collections", "itertools") if f"{name}." in body]
    if imports:
        imports.append("\n\n")
    return f"{''.join(imports)}def {function}({argument}):\n{body}"


# -- chains ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """The codes of some steps, and what they return for each input: None if they fail."""

    argument: str
    inputs: Sequence[Records]
    codes: Texts
    results: Sequence[Any]

    def then(self, code: str) -> Chain:
        """Return the chain with one more step."""
        step = _function_of(code, self.argument)
        results = []
        for records, result in zip(self.inputs, self.results, strict=True):
            try:
                results.append(step(result, records))
            except Exception:
                results.append(None)
        return Chain(self.argument, self.inputs, [*self.codes, code], results)

    def differs(self, other: Chain, among: Sequence[int]) -> bool:
        """Tell whether the results differ for one of some inputs."""
        return any(self.results[number] != other.results[number] for number in among)


@lru_cache(maxsize=2000)
def _function_of(code: str, argument: str) -> Callable[[Any, Records], Any]:
    lines = code.strip().replace("$in", "before").split("\n")
    body = "".join(f"    {line}\n" for line in [*lines, f"return {_variable(code)}"])
    scope: Parameters = {"collections": collections, "itertools": itertools}
    exec(f"def step(before, {argument}):\n{body}", scope)
    step: Callable[[Any, Records], Any] = scope["step"]
    return step


def _variable(code: str) -> str:
    """Return the variable that a step assigns last."""
    return VARIABLE.findall(code)[-1]


@dataclass(frozen=True)
class Draft:
    """The steps of a task so far, with the chains of its mistakes by what is wrong in them."""

    stated: Sequence[Stated]
    chains: Sequence[Chain]
    """The chains of none, one, two, … steps."""
    mistakes: Mapping[str, Chain]
    bare: Chain
    """The steps without those that can be left out."""
    usable: Sequence[int]
    """The inputs that leave every step something to work on."""

    @property
    def chain(self) -> Chain:
        return self.chains[-1]

    def then(self, one: Stated) -> Draft:
        """Return the draft with one more step."""
        step, before = one.step, self.chain
        chain = before.then(one.code)
        mistakes = {name: mistake.then(one.code) for name, mistake in self.mistakes.items()}
        for number, mistake in enumerate(one.mistakes):
            mistakes[f"{step.name} otherwise ({number})"] = before.then(mistake)
        for name, mistake in self.mistakes.items():
            if name.endswith(" left out") and " and " not in name:
                mistakes[f"{step.name} and {name}"] = mistake
        mistakes[f"{step.name} left out"] = before
        bare = self.bare
        if not step.is_optional:
            bare = bare.then(one.code)
        mistakes.pop("all left out", None)
        if len(bare.codes) < len(chain.codes):
            mistakes["all left out"] = bare
        if self.stated:
            last = self.stated[-1]
            if step.name not in last.step.swaps and last.step.name not in step.swaps:
                swapped = self.chains[-2].then(one.code).then(last.code)
                mistakes[f"{last.step.name} and {step.name} swapped"] = swapped
        usable = [number for number in self.usable if chain.results[number]]
        return Draft([*self.stated, one], [*self.chains, chain], mistakes, bare, usable)

    def fault(self) -> str:
        """Return why the draft cannot become a task, "" if it can."""
        if len(self.usable) < SHOWN + HIDDEN:
            return f"{self.stated[-1].step.name}: nothing is left"
        for name, mistake in self.mistakes.items():
            if not mistake.differs(self.chain, self.usable[SHOWN:]):
                return f"this passes too: {name}"
        return ""

    def tests(self) -> list[int]:
        """Return the inputs of the tests: those shown, and hidden ones that refute all mistakes."""
        hidden = self.usable[SHOWN:]
        chosen = [*hidden[:HIDDEN]]
        for mistake in self.mistakes.values():
            if not mistake.differs(self.chain, chosen):
                refuting = [number for number in hidden if mistake.differs(self.chain, [number])]
                chosen.append(refuting[0])
        return [*self.usable[:SHOWN], *chosen]


# -- tasks -----------------------------------------------------------------------------------------


def begin(draw: Draw, place: Place, length: int) -> Draft:
    """Return a draft without steps."""
    least, inputs = 8 + 2 * length, list[Records]()
    for _ in range(DRAWN):
        inputs.append(_records(draw, place, draw.randint(least, least + 6)))
    start = Chain(place.facts["items"], inputs, [], inputs)
    return Draft([], [start], {}, start, range(DRAWN))


def compose(draw: Draw, place: Place, length: int) -> Question | str:
    """Return a task of so many steps about a place, or the reason why a draft did not become one.

    Half of the tasks of the test split are held out.
    """
    held_out = draw.split == "test" and draw.random() < 0.5
    writer, draft, takes = _writer(draw, place), begin(draw, place, length), "rows"
    for last in range(length - 1, -1, -1):
        reason = "no step fits"
        for step in draw.shuffled(STEPS):
            walk = [*(one.step for one in draft.stated), step]
            gives = step.gives or takes
            if takes not in step.takes or step in walk[:-1] or not (last == 0 or gives in TAKEN):
                continue
            if is_held_out(walk) > held_out or (not last and is_held_out(walk) != held_out):
                continue
            parameters = _parameters(draw, place, draft.chain.results)
            one, after = writer.state(step, parameters)
            longer = draft.then(one)
            if reason := longer.fault():
                continue
            draft, writer, takes = longer, after, gives
            break
        if reason:
            return reason
    return _question(draw, place, draft, writer, takes)


def _question(draw: Draw, place: Place, draft: Draft, writer: Writer, gives: str) -> Question | str:
    variable, items = _variable(draft.chain.codes[-1]), place.facts["items"]
    subject = items
    if variable in ("values", "names"):
        subject = f"{writer.code['one']}s"
    function = f"{draw.choice(_DATA['functions'][variable].split())}_{subject}"
    gold = source(function, items, draft.chain.codes)
    tests = write_tests(gold, [(draft.chain.inputs[number],) for number in draft.tests()])
    if isinstance(tests, str):
        return tests
    walk = [one.step for one in draft.stated]
    return Question(
        kind="+".join(step.name for step in walk),
        difficulty=len(walk),
        gold=gold,
        query=[_query(draw, draft.stated, gives, {**writer.words, "function": function})],
        wrong=[source(function, items, chain.codes) for chain in draft.mistakes.values()],
        held_out=is_held_out(walk),
        rung=NEW_KIND if is_held_out(walk) else KNOWN,
        extra={"tests": tests[:SHOWN], "hidden": tests[SHOWN:]},
    )


def _query(draw: Draw, stated: Sequence[Stated], gives: str, words: Parameters) -> str:
    header = fill(draw.choice(_DATA["headers"]), words)
    returns = _DATA["returns"]
    end = fill(returns.get(gives, returns[_VARIABLES.get(gives, gives)]), words)
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
