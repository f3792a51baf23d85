"""Compose tasks of several steps, each of which is only known from the result of the one before.

    START ──► instruction 1 ──► result 1 ──► key ──► instruction 2 ──► result 2 ──► … ──► result N
                                  │                    (in a file, a row, a commit, … under the key)
                                  └─ a mistake ──► another key ──► a decoy: an instruction that
                                                                   leads elsewhere

A primitive computes a result from the one before, and perhaps from material of its own (a table, a
folder, a repository). An instruction says what to compute and where the next instruction is: in
one of many forms, under a key that is a digest of the result. The gold is the chain of the
primitives' golds. `Language` is what Bash, SQL and Python do differently; the primitives, digests
and forms of each are in `composed/*.toml`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from intercode.generate.draws import read_toml
from intercode.generate.families import Draw, Parameters, Place, Question, fill
from intercode.generate.mutants import limit_mutants

KEY = re.compile(r"[A-Za-z0-9][\w.-]{0,40}")
TRIES = 5
"""The number of times that a step is drawn, on average."""
BACK = 0.4
"""The probability that the step before one that failed is drawn again, and then the one before."""
LOST = 0.34
"""The largest part of the steps whose mistakes may all have lost their effect some steps later."""
FEWEST = 4
"""The smallest number of instructions in one place."""
MOST_LINES = 60
LAST = ("This is the last step.", "There are no more steps.", "The result of this step is final.")


@dataclass(frozen=True)
class Primitive:
    """A kind of step. `takes` and `gives` are types of results; `start` is no result.

    <NAME> in a text stands for a parameter of the material. `options` are words in `says` and code
    in `gold`, each a list of `[words, code]` or `[words, code, mistake]`. `wrong` are plausible
    mistakes: golds with the same parameters, in which <wrong_NAME> is the mistake of an option.
    `material` names the function of the language that makes the material.
    """

    name: str
    takes: str
    gives: str
    says: Sequence[str]
    gold: str
    wrong: Sequence[str] = ()
    options: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    material: str = ""
    held_out: bool = False


@dataclass(frozen=True)
class Digest:
    """A key made from a result: `of` names a function of `DIGESTS`, `types` are the results that
    it is for."""

    says: Sequence[str]
    of: str
    types: Sequence[str]


@dataclass(frozen=True)
class Form:
    """A place for instructions under keys; `write` names a function of the language's `writers`.
    In `says`, <key> stands for the words of a digest."""

    says: Sequence[str]
    write: str


@dataclass(frozen=True)
class Result:
    """The result of a chain of golds: a text, and other effects that a reward would compare."""

    text: str
    effects: object = None


@dataclass(frozen=True)
class Instruction:
    """A step of one task: its text, its gold, golds of mistakes, and where the next one is."""

    task: str
    gold: str
    wrong: tuple[str, ...] = ()
    next: str = ""


Chain = tuple[str, ...]
Writer = Callable[[Draw, Place, Mapping[str, Instruction]], Parameters]
"""Writes the instructions by their keys, and returns the parameters of the form's `says`."""


def _first(lines: Sequence[str]) -> str:
    return lines[0].split()[0].rpartition("/")[2]


DIGESTS: Mapping[str, Callable[[str], str]] = {
    "count": lambda text: str(len(text.splitlines())),
    "first": lambda text: _first(text.splitlines()),
    "last": lambda text: _first(text.splitlines()[-1:]),
    "third": lambda text: _first(text.splitlines()[2:3]),
    "value": str.strip,
    "sum": lambda text: str(abs(sum(int(line.split()[-1]) for line in text.splitlines()))),
    "largest": lambda text: str(max(int(line.split()[-1]) for line in text.splitlines())),
    "first_value": lambda text: text.splitlines()[0].split()[-1],
    "md5": lambda text: hashlib.md5(text.encode()).hexdigest()[:6],
    "size": lambda text: str(len(text.encode())),
}
"""Functions from the text of a result to a key; they may raise `ValueError` or `IndexError`."""


class Language:
    """A language of composed tasks; a class for each overrides the methods.

    `env` names the TOML file with primitives, digests and forms, and `writers` has the functions
    that the forms name.
    """

    env: str
    writers: ClassVar[Mapping[str, Writer]]
    begin = "start"
    """The type of what the first step takes."""

    def __init__(self) -> None:
        data = read_toml(f"composed/{self.env}")
        self.primitives = [Primitive(name, **entry) for name, entry in data["primitives"].items()]
        self.digests = [Digest(**entry) for entry in data["digests"].values()]
        self.forms = [Form(**entry) for entry in data["forms"].values()]
        self.queries: Sequence[str] = data["queries"]
        self.types: Mapping[str, str] = data.get("types", {})
        """A regular expression for each line of a result, by type."""
        self.mistaken: Sequence[str] = ()
        """The texts of results of earlier mistakes, which the next material should tell apart."""

    def place(self, draw: Draw, name: str) -> Place:
        """Return a place without material; its facts are parameters of the query."""
        raise NotImplementedError

    def material(
        self, draw: Draw, place: Place, primitive: Primitive, before: str
    ) -> Parameters | str:
        """Add the material of a step to the place, given the text of the result before.

        Return its parameters, or the reason why there is none. Of a parameter that is a list, each
        instruction draws one value.
        """
        raise NotImplementedError

    def run(self, place: Place, chains: Sequence[Chain]) -> Sequence[Result | None]:
        """Return the result of each chain of golds, None for one that fails."""
        raise NotImplementedError

    def gold(self, place: Place, chain: Chain) -> str:
        """Return the whole solution."""
        raise NotImplementedError

    def near(self, draw: Draw, place: Place, key: str) -> str:
        """Return a key that looks like this one."""
        if key.isdigit():
            return str(int(key) + draw.choice((-2, -1, 1, 2, 10)))
        position = draw.randrange(len(key))
        return key[:position] + draw.choice("abcdef0123456789") + key[position + 1 :]

    def finish(self, draw: Draw, place: Place, first: Instruction) -> None:
        """Write the first instruction where the query says, and all that is still missing."""
        raise NotImplementedError


# -- walks -----------------------------------------------------------------------------------------


def is_held_out(walk: Sequence[Primitive]) -> bool:
    """Return whether a composition is for the test split only: for a primitive that is, or else a
    fifth of all compositions."""
    names = "+".join(primitive.name for primitive in walk)
    in_fifth = hashlib.sha256(names.encode()).digest()[0] % 5 == 0
    return in_fifth or any(primitive.held_out for primitive in walk)


def draw_walk(
    draw: Draw, primitives: Sequence[Primitive], steps: int, begin: str = "start"
) -> list[Primitive]:
    """Return different primitives (if there are enough) each of which takes what the one before
    gives. Half of the compositions of the test split are held out, none of the train split."""
    held_out = draw.split == "test" and draw.random() < 0.5
    while True:
        walk, given = list[Primitive](), begin
        while len(walk) < steps:
            fits = [
                one
                for one in primitives
                if one.takes == given and one not in walk and (held_out or not one.held_out)
            ]
            if not fits:
                break
            walk.append(draw.choice(fits))
            given = walk[-1].gives
        if len(walk) == steps and is_held_out(walk) == held_out:
            return walk


# -- steps -----------------------------------------------------------------------------------------


def instruct(draw: Draw, primitive: Primitive, parameters: Parameters) -> Instruction:
    """Return an instruction with one value of each parameter and option."""
    values = {
        name: draw.choice(value) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
    pairs = {name: draw.choice(options) for name, options in primitive.options.items()}
    words = values | {name: fill(pair[0], values) for name, pair in pairs.items()}
    code = values | {name: fill(pair[1], values) for name, pair in pairs.items()}
    code |= {f"wrong_{name}": fill(pair[-1], values) for name, pair in pairs.items()}
    wrong = tuple(fill(text, code) for text in primitive.wrong)
    task = fill(draw.choice(primitive.says), words)
    return Instruction(task, fill(primitive.gold, code), wrong)


@dataclass
class _Step:
    """A step that was executed: `mistaken` are the results of its mistakes, `parameters` those from
    which decoys are drawn."""

    primitive: Primitive
    instruction: Instruction
    result: Result
    mistaken: list[Result]
    parameters: Parameters


@dataclass(frozen=True)
class _State:
    """The place after a step; by step, the chains of the mistakes that still differ from the gold;
    and the texts of their results."""

    place: Place
    mistakes: Sequence[Sequence[Chain]] = ()
    texts: Sequence[str] = ()


@dataclass
class _Composition:
    """The steps so far. There is a state before the first step, and one after each."""

    language: Language
    states: list[_State]
    steps: list[_Step] = field(default_factory=list)

    @property
    def chain(self) -> Chain:
        return tuple(step.instruction.gold for step in self.steps)

    def add(self, draw: Draw, primitive: Primitive) -> str:
        """Add a step; return the reason if it cannot be added, "" if it is."""
        before = self.steps[-1].result if self.steps else Result("")
        state = self.states[-1]
        place = replace(
            state.place, files=dict(state.place.files), programs=set(state.place.programs)
        )
        self.language.mistaken = state.texts
        parameters = self.language.material(draw, place, primitive, before.text)
        if isinstance(parameters, str):
            return parameters
        instruction = instruct(draw, primitive, parameters)
        chain, gold = self.chain, instruction.gold
        limits = {(*chain, mistake): known for mistake, known in limit_mutants(gold)}
        wrong = [(*chain, mistake) for mistake in instruction.wrong]
        carried = [[(*mistake, gold) for mistake in chains] for chains in state.mistakes]
        chains = [*limits, *wrong, *(mistake for listed in carried for mistake in listed)]
        result, *others = self.language.run(place, [(*chain, gold), *chains])
        if result is None or result == before or not self._is_sound(primitive, result):
            return "its result is empty, too long, not of its type, or the one before"
        outcomes = dict(zip(chains, others, strict=True))
        alive = [[one for one in listed if outcomes[one] != result][:1] for listed in carried]
        missed = [mistake for mistake in limits if outcomes[mistake] == result]
        if any(map(limits.get, missed)):
            return "no value is at a limit"
        telling = [mistake for mistake in wrong if outcomes[mistake] != result]
        telling.sort(key=lambda mistake: _lines(outcomes[mistake]) == _lines(result))
        if not telling or sum(not listed for listed in alive) > len(alive) * LOST:
            return "a mistake has no effect"
        skipped = [chain] if chain else []
        alive += [
            [telling[0], *(skipped or telling[1:2])],
            *([one] for one in limits if one not in missed),
        ]
        mistaken = [outcome for outcome in map(outcomes.get, telling) if outcome]
        results = (outcomes.get(mistake) for listed in alive for mistake in listed)
        self.steps.append(_Step(primitive, instruction, result, mistaken, parameters))
        self.states.append(_State(place, alive, [one.text for one in results if one]))
        return ""

    def _is_sound(self, primitive: Primitive, result: Result) -> bool:
        lines = result.text.splitlines()
        line = self.language.types.get(primitive.gives, ".+")
        return 0 < len(lines) <= MOST_LINES and all(re.fullmatch(line, one) for one in lines)

    def remove(self) -> None:
        """Remove the last step."""
        self.steps.pop()
        self.states.pop()


def _lines(result: Result | None) -> set[str]:
    return set(result.text.splitlines()) if result else set()


# -- keys and leads --------------------------------------------------------------------------------


def key_of(digest: Digest, text: str) -> str:
    """Return the key of a result, "" if it has none of this kind."""
    try:
        key = DIGESTS[digest.of](text)
    except (ValueError, IndexError):
        return ""
    return key if KEY.fullmatch(key) else ""


def _draw_digest(
    draw: Draw, digests: Sequence[Digest], step: _Step
) -> tuple[Digest, str, list[str]] | None:
    """Return a digest that tells a step's result from one of its mistakes, its key, and the keys of
    the mistakes."""
    fits = [digest for digest in digests if step.primitive.gives in digest.types]
    for digest in draw.sample(fits, len(fits)):
        key = key_of(digest, step.result.text)
        keys = [key_of(digest, mistake.text) for mistake in step.mistaken]
        others = [other for other in keys if other and other.lower() != key.lower()]
        if key and (others or all(one.text == step.result.text for one in step.mistaken)):
            return digest, key, others
    return None


@dataclass
class _Leads:
    """Writes instructions under keys, the last ones first, with decoys under other keys. `leads`
    are the words written so far that say where an instruction is, with <key> for a digest."""

    draw: Draw
    language: Language
    place: Place
    leads: list[str] = field(default_factory=list)

    def lead(self, step: _Step, after: _Step | None) -> str:
        """Write the instruction of the step after (or else only decoys) under the key of a step;
        return the words that say where it is, or "" if no key tells mistakes."""
        if (drawn := _draw_digest(self.draw, self.language.digests, step)) is None:
            return ""
        digest, key, others = drawn
        near = [self.language.near(self.draw, self.place, key) for _ in range(4)]
        entries = dict[str, Instruction]()
        choices = self._choices(step, after)
        gold = after.instruction.gold if after else ""
        for other in [key, *others, *near] if choices else ():
            if KEY.fullmatch(other) and other.lower() not in map(str.lower, entries):
                decoys = [self._decoy(choices) for _ in range(TRIES)]
                entries.update((other, one) for one in decoys if one.gold != gold)
        if after:
            entries[key] = after.instruction
        if len(entries) < FEWEST:
            return ""
        form = self.draw.choice(self.language.forms)
        order = {other: entries[other] for other in self.draw.sample(list(entries), len(entries))}
        parameters = self.language.writers[form.write](self.draw, self.place, order)
        self.leads.append(fill(self.draw.choice(form.says), {**parameters, "key": "<key>"}))
        return self._with_key(self.leads[-1], digest)

    def _with_key(self, lead: str, digest: Digest) -> str:
        words = fill(self.draw.choice(digest.says), self.place.facts)
        return lead.replace("<key>", words)

    def _decoy(self, choices: Sequence[tuple[Primitive, Parameters]]) -> Instruction:
        """Return an instruction that leads to one of the later ones, or nowhere."""
        primitive, parameters = self.draw.choice(choices)
        digests = [one for one in self.language.digests if primitive.gives in one.types]
        lead = self.draw.choice([self.draw.choice(LAST), *self.leads[-3:]])
        lead = self._with_key(lead, self.draw.choice(digests))
        return replace(instruct(self.draw, primitive, parameters), next=lead)

    def _choices(self, step: _Step, after: _Step | None) -> list[tuple[Primitive, Parameters]]:
        """Return the primitives of decoys with their parameters: those that need no other material
        than the step after, and one with material of its own."""
        draw = self.draw
        materials = {after.primitive.material: after.parameters} if after else {}
        fits = [
            one
            for one in self.language.primitives
            if one.takes == step.primitive.gives and (draw.split == "test" or not one.held_out)
        ]
        fits = draw.sample(fits, len(fits))
        new = [one for one in fits if one.material and one.material not in materials]
        choices = [(after.primitive, after.parameters)] if after else []
        for primitive in [*new[:1], *(one for one in fits if one not in new)][:5]:
            parameters: Parameters | str = materials.get(primitive.material, "")
            if not parameters:
                before = step.result.text
                parameters = self.language.material(draw, self.place, primitive, before)
            if not isinstance(parameters, str):
                choices.append((primitive, parameters))
        return choices


# -- tasks -----------------------------------------------------------------------------------------


def compose(
    draw: Draw, name: str, steps: int, language: Language, walk: Sequence[Primitive] = ()
) -> tuple[Place, Question] | str:
    """Return a place and its one question, or the reason why this walk has none."""
    walk = walk or draw_walk(draw, language.primitives, steps, language.begin)
    composition = _Composition(language, [_State(language.place(draw, name))])
    for _ in range(TRIES * len(walk)):
        primitive = walk[len(composition.steps)]
        reason = composition.add(draw, primitive)
        if len(composition.steps) == len(walk):
            break
        while reason and composition.steps and draw.random() < BACK:
            composition.remove()
    else:
        return f"{primitive.name}: {reason or 'the step before was drawn too often'}"
    place, done = composition.states[-1].place, composition.steps
    leads = _Leads(draw, language, place)
    leads.lead(done[-1], None)
    done[-1].instruction = replace(done[-1].instruction, next=draw.choice(LAST))
    for step, after in reversed(list(itertools.pairwise(done))):
        if not (lead := leads.lead(step, after)):
            return f"{step.primitive.name}: no key tells its mistakes"
        step.instruction = replace(step.instruction, next=lead)
    first = done[0].instruction
    language.finish(draw, place, first)
    mistakes = [chain for chains in composition.states[-1].mistakes for chain in chains]
    return place, Question(
        kind="+".join(primitive.name for primitive in walk),
        difficulty=steps,
        gold=language.gold(place, composition.chain),
        query=[fill(draw.choice(language.queries), place.facts)],
        wrong=[language.gold(place, chain) for chain in mistakes],
        held_out=is_held_out(walk),
    )


# -- forms of instructions and of places for them --------------------------------------------------


def text_of(draw: Draw, instruction: Instruction) -> str:
    """Return an instruction as a text: sentences, a list, fields or JSON."""
    task, lead = instruction.task, instruction.next
    label, after = draw.choice((("Task", "Next"), ("Do", "Then"), ("step", "next"), ("job", "go")))
    return draw.choice(
        (
            f"{task} {lead}\n",
            f"{task}\n{lead}\n",
            f"1. {task}\n2. {lead}\n",
            f"- {task}\n- {lead}\n",
            f"{label}: {task}\n{after}: {lead}\n",
            f"{after}: {lead}\n{label}: {task}\n",
            json.dumps({label.lower(): task, after.lower(): lead}, indent=2) + "\n",
        )
    )


def as_lines(rows: Sequence[Sequence[Any]], separator: str) -> str:
    """Return rows as a delimited text."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue()
