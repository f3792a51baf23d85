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

from intercode.generate.draws import Texts, among, read_toml
from intercode.generate.families import Draw, Parameters, Place, Question, fill
from intercode.generate.ladder import KNOWN, NEW_KIND
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
    says: Texts
    gold: str
    wrong: Texts = ()
    options: Mapping[str, Sequence[Texts]] = field(default_factory=dict)
    material: str = ""
    held_out: bool = False


@dataclass(frozen=True)
class Digest:
    """A key made from a result: `of` is a case of `_key_of`, `types` are the results that it is
    for."""

    says: Texts
    of: str
    types: Texts


@dataclass(frozen=True)
class Form:
    """A place for instructions under keys; `write` names a function of the language's `writers`.
    In `says`, <key> stands for the words of a digest."""

    says: Texts
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
Entries = Mapping[str, Instruction]
Writer = Callable[[Draw, Place, Entries], Parameters]
"""Writes the instructions by their keys, and returns the parameters of the form's `says`."""


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
        self.queries: Texts = data["queries"]
        self.types: Mapping[str, str] = data.get("types", {})
        """A regular expression for each line of a result, by type."""
        self.mistaken: Texts = ()
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
        if place.data and key.isalpha():
            return str(draw.choice(place.data["whos"]))
        position = draw.randrange(len(key))
        return key[:position] + draw.choice("abcdef0123456789") + key[position + 1 :]

    def finish(self, draw: Draw, place: Place, first: Instruction) -> None:
        """Write the first instruction where the query says, and all that is still missing."""
        place.write(place.facts["start"], text_of(draw, first))


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
        walk, takes = list[Primitive](), begin
        while len(walk) < steps:
            fits = []
            for primitive in primitives:
                allowed = held_out or not primitive.held_out
                if allowed and primitive.takes == takes and primitive not in walk:
                    fits.append(primitive)
            if not fits:
                break
            walk.append(draw.choice(fits))
            takes = walk[-1].gives
        if len(walk) == steps and is_held_out(walk) == held_out:
            return walk


# -- steps -----------------------------------------------------------------------------------------


def instruct(draw: Draw, primitive: Primitive, parameters: Parameters) -> Instruction:
    """Return an instruction with one value of each parameter and option."""
    values = dict(parameters)
    for name, value in parameters.items():
        if isinstance(value, list):
            values[name] = draw.choice(value)
    words, code = dict(values), dict(values)
    for name, options in primitive.options.items():
        option = draw.choice(options)
        words[name], code[name] = fill(option[0], values), fill(option[1], values)
        code[f"wrong_{name}"] = fill(option[-1], values)
    wrong = tuple(fill(text, code) for text in primitive.wrong)
    task = fill(draw.choice(primitive.says), words)
    return Instruction(task, fill(primitive.gold, code), wrong)


@dataclass
class _Step:
    """A step that was executed; the first of a list is the start, which is no step."""

    place: Place
    """The place with the step's material."""
    primitive: Primitive
    instruction: Instruction
    result: Result = Result("")
    parameters: Parameters = field(default_factory=dict)
    """The parameters from which decoys are drawn."""
    mistaken: Sequence[Result] = ()
    """The results of the mistakes of this step."""
    mistakes: Sequence[Sequence[Chain]] = ()
    """By step, the chains of the mistakes that still differ from the gold."""
    texts: Texts = ()
    """The texts of the results of these chains."""


def _add(draw: Draw, language: Language, steps: list[_Step], primitive: Primitive) -> str:
    """Add a step to the steps so far. Return the reason if it cannot be added, "" if it is."""
    before = steps[-1]
    place = before.place
    place = replace(place, files=dict(place.files), programs=set(place.programs))
    language.mistaken = before.texts
    parameters = language.material(draw, place, primitive, before.result.text)
    if isinstance(parameters, str):
        return parameters
    instruction = instruct(draw, primitive, parameters)
    chain, gold = _chain(steps), instruction.gold
    limits = {(*chain, mistake): is_value for mistake, is_value in limit_mutants(gold)}
    wrong = [(*chain, mistake) for mistake in instruction.wrong]
    earlier = [[(*mistake, gold) for mistake in chains] for chains in before.mistakes]
    chains = [*limits, *wrong, *itertools.chain(*earlier)]
    result, *results = language.run(place, [(*chain, gold), *chains])
    if result is None or result == before.result or not _is_sound(language, primitive, result):
        return "its result is empty, too long, not of its type, or the one before"
    outcomes = dict(zip(chains, results, strict=True))
    differing = [mistake for mistake in chains if outcomes[mistake] != result]
    if any(is_value and limit not in differing for limit, is_value in limits.items()):
        return "no value is at a limit"
    telling = among(wrong, differing)
    telling.sort(key=lambda mistake: _lines(outcomes[mistake]) == _lines(result))
    mistakes = []
    for chains in earlier:
        mistakes.append(among(chains, differing)[:1])
    if not telling or mistakes.count([]) > len(mistakes) * LOST:
        return "a mistake has no effect"
    skipped = telling[1:2]
    if chain:
        skipped = [chain]
    mistakes.append([telling[0], *skipped])
    mistakes += [[limit] for limit in among(limits, differing)]
    step = _Step(place, primitive, instruction, result, parameters)
    step.mistaken = [*filter(None, map(outcomes.get, telling))]
    step.mistakes = mistakes
    alive = filter(None, map(outcomes.get, itertools.chain(*mistakes)))
    step.texts = [outcome.text for outcome in alive]
    steps.append(step)
    return ""


def _chain(steps: Sequence[_Step]) -> Chain:
    return tuple(step.instruction.gold for step in steps[1:])


def _is_sound(language: Language, primitive: Primitive, result: Result) -> bool:
    lines = result.text.splitlines()
    form = language.types.get(primitive.gives, ".+")
    return 0 < len(lines) <= MOST_LINES and all(re.fullmatch(form, line) for line in lines)


def _lines(result: Result | None) -> set[str]:
    return set(result.text.splitlines()) if result else set()


# -- keys and leads --------------------------------------------------------------------------------


def key_of(digest: Digest, text: str) -> str:
    """Return the key of a result, "" if it has none of this kind."""
    try:
        key = _key_of(digest.of, text)
    except (ValueError, IndexError):
        return ""
    return key if KEY.fullmatch(key) else ""


def _key_of(kind: str, text: str) -> str:
    lines = text.splitlines()
    ends = (line.split()[-1] for line in lines)
    match kind:
        case "count":
            return str(len(lines))
        case "first":
            return _name_in(lines[0])
        case "last":
            return _name_in(lines[-1])
        case "third":
            return _name_in(lines[2])
        case "value":
            return text.strip()
        case "sum":
            return str(abs(sum(map(int, ends))))
        case "largest":
            return str(max(map(int, ends)))
        case "first_value":
            return lines[0].split()[-1]
        case "md5":
            return hashlib.md5(text.encode()).hexdigest()[:6]
        case _:  # size
            return str(len(text.encode()))


def _name_in(line: str) -> str:
    return line.split()[0].rpartition("/")[2]


def _draw_digest(
    draw: Draw, digests: Sequence[Digest], step: _Step
) -> tuple[Digest, str, list[str]] | None:
    """Return a digest that tells a step's result from one of its mistakes, its key, and the keys of
    the mistakes."""
    text = step.result.text
    for digest in draw.shuffled(_for_type(digests, step.primitive.gives)):
        key, wrong = key_of(digest, text), list[str]()
        for mistake in step.mistaken:
            other = key_of(digest, mistake.text)
            if other and other.lower() != key.lower():
                wrong.append(other)
        if key and (wrong or all(mistake.text == text for mistake in step.mistaken)):
            return digest, key, wrong
    return None


def _for_type(digests: Sequence[Digest], type: str) -> list[Digest]:
    return [digest for digest in digests if type in digest.types]


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
        digest, key, wrong = drawn
        near = [self.language.near(self.draw, self.place, key) for _ in range(4)]
        entries = dict[str, Instruction]()
        choices, gold = self._choices(step, after), ""
        if after:
            gold = after.instruction.gold
        for other in (key, *wrong, *near):
            if choices and KEY.fullmatch(other) and other.lower() not in map(str.lower, entries):
                for _ in range(TRIES):
                    decoy = self._decoy(choices)
                    if decoy.gold != gold:
                        entries[other] = decoy
        if after:
            entries[key] = after.instruction
        if len(entries) < FEWEST:
            return ""
        form = self.draw.choice(self.language.forms)
        shuffled = dict(self.draw.shuffled(entries.items()))
        parameters = self.language.writers[form.write](self.draw, self.place, shuffled)
        self.leads.append(fill(self.draw.choice(form.says), {**parameters, "key": "<key>"}))
        return self._with_key(self.leads[-1], digest)

    def _with_key(self, lead: str, digest: Digest) -> str:
        words = fill(self.draw.choice(digest.says), self.place.facts)
        return lead.replace("<key>", words)

    def _decoy(self, choices: Sequence[tuple[Primitive, Parameters]]) -> Instruction:
        """Return an instruction that leads to one of the later ones, or nowhere."""
        primitive, parameters = self.draw.choice(choices)
        digests = _for_type(self.language.digests, primitive.gives)
        lead = self.draw.choice([self.draw.choice(LAST), *self.leads[-3:]])
        lead = self._with_key(lead, self.draw.choice(digests))
        return replace(instruct(self.draw, primitive, parameters), next=lead)

    def _choices(self, step: _Step, after: _Step | None) -> list[tuple[Primitive, Parameters]]:
        """Return the primitives of decoys with their parameters: those that need no other material
        than the step after, and one with material of its own."""
        choices = []
        materials = {}
        if after:
            choices = [(after.primitive, after.parameters)]
            materials[after.primitive.material] = after.parameters
        fits = []
        for primitive in self.language.primitives:
            allowed = self.draw.split == "test" or not primitive.held_out
            if allowed and primitive.takes == step.primitive.gives:
                fits.append(primitive)
        old, new = list[Primitive](), list[Primitive]()
        for primitive in self.draw.shuffled(fits):
            if primitive.material and primitive.material not in materials:
                new.append(primitive)
            else:
                old.append(primitive)
        for primitive in [*new[:1], *old][:5]:
            parameters: Parameters | str = materials.get(primitive.material, "")
            if not parameters:
                before = step.result.text
                parameters = self.language.material(self.draw, self.place, primitive, before)
            if not isinstance(parameters, str):
                choices.append((primitive, parameters))
        return choices


# -- tasks -----------------------------------------------------------------------------------------


def compose(
    draw: Draw, name: str, steps: int, language: Language, walk: Sequence[Primitive] = ()
) -> tuple[Place, Question] | str:
    """Return a place and its one question, or the reason why this walk has none."""
    walk = walk or draw_walk(draw, language.primitives, steps, language.begin)
    trail = [_Step(language.place(draw, name), walk[0], Instruction("", ""))]
    for _ in range(TRIES * len(walk)):
        primitive = walk[len(trail) - 1]
        reason = _add(draw, language, trail, primitive)
        if len(trail) > len(walk):
            break
        while reason and len(trail) > 1 and draw.random() < BACK:
            trail.pop()
    else:
        return f"{primitive.name}: {reason or 'the step before was drawn too often'}"
    last, chain = trail[-1], _chain(trail)
    place = last.place
    shorter = [chain[:number] + chain[number + 1 :] for number in range(len(chain))]
    if last.result in language.run(place, shorter):
        return "a step can be left out"
    leads = _Leads(draw, language, place)
    leads.lead(last, None)
    last.instruction = replace(last.instruction, next=draw.choice(LAST))
    for step, after in reversed([*itertools.pairwise(trail[1:])]):
        if not (lead := leads.lead(step, after)):
            return f"{step.primitive.name}: no key tells its mistakes"
        step.instruction = replace(step.instruction, next=lead)
    language.finish(draw, place, trail[1].instruction)
    return place, Question(
        kind="+".join(primitive.name for primitive in walk),
        difficulty=steps,
        gold=language.gold(place, chain),
        query=[fill(draw.choice(language.queries), place.facts)],
        wrong=[language.gold(place, mistake) for mistake in itertools.chain(*last.mistakes)],
        held_out=is_held_out(walk),
        rung=NEW_KIND if is_held_out(walk) else KNOWN,
    )


# -- forms of instructions and of places for them --------------------------------------------------


def text_of(draw: Draw, instruction: Instruction) -> str:
    """Return an instruction as a text: sentences, a list, fields or JSON."""
    task, lead = instruction.task, instruction.next
    label, after = draw.choice((("Task", "Next"), ("Do", "Then"), ("step", "next"), ("job", "go")))
    form = draw.choice(_TEXTS)
    if not form:
        return json.dumps({label.lower(): task, after.lower(): lead}, indent=2) + "\n"
    return form.format(task=task, lead=lead, label=label, after=after)


_TEXTS = (
    "{task} {lead}\n",
    "{task}\n{lead}\n",
    "1. {task}\n2. {lead}\n",
    "- {task}\n- {lead}\n",
    "{label}: {task}\n{after}: {lead}\n",
    "{after}: {lead}\n{label}: {task}\n",
    "",
)
"""Forms of the text of an instruction, of which the empty one is JSON."""


def as_lines(rows: Sequence[Sequence[Any]], separator: str) -> str:
    """Return rows as a delimited text."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue()
