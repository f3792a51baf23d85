"""Terms: a hop whose arguments are terms. Each part of a term that is kept is needed.

    port?(runs(errors(4 March 2026)))        term
     │     │      └ errors  ──► service      root
     │     └──────── runs   ──► machine      step
     └────────────── port?  ──► answer       question

Hops are functions over the rows of a world, in memory. An *alternative* of a hop is the same hop
with one clause otherwise: a condition dropped, another value, pick or column, an argument ignored.

- A hop is *sound* for its arguments if it has one value, and no alternative has the same value.
- A hop is *needed* after another one if, for every other entity that could stand in the place of
  the argument (by whatever mistake), it has another value.

Walks use such hops only. So by induction no single mistake or guess at any hop gives the answer.
Two mistakes can still cancel each other; the more entities, the less often.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from intercode.generate.draws import Draw, without
from intercode.generate.hops.schema import OPEN, Condition, Domain, Hop

Row = dict[str, Any]
Function = Mapping[tuple[Any, ...], Any]
MOST_OTHERS = 20
"""The largest number of entities of a type that could all stand in the place of one."""
PAIRS = 8
"""One in so many pairs of hops is for the test split only."""
FEW = 4
"""The number of chains that a hop is tried on before another hop is."""
MOST_TRIED = 600
"""The number of hops that a walk tries before it gives up."""
OTHER_PICKS = {
    "most": ("fewest", "second most", "first", "last"),
    "summost": ("sumfewest", "second summost", "most", "first", "last"),
    "latest": ("earliest", "second latest", "as text", "most", "first", "last"),
    "earliest": ("latest", "second earliest", "most", "first", "last"),
    "sum": ("rows",),
    "the": (),
}
"""What a careless solver picks instead; `as text` is the latest if versions are sorted as text."""


@dataclass(frozen=True)
class World:
    """The rows of a place. In columns of entities they have the entity's first form; `forms` has
    the other forms, by type, entity and name."""

    domain: Domain
    forms: Mapping[str, Mapping[str, Mapping[str, str]]]
    tables: Mapping[str, list[Row]]
    functions: dict[Hop, Function] = field(default_factory=dict)
    alternatives: dict[Hop, list[tuple[str, Hop]]] = field(default_factory=dict)

    def function(self, hop: Hop) -> Function:
        """Return the values of a hop by its arguments; without those where it has none."""
        if hop not in self.functions:
            groups = defaultdict[tuple[Any, ...], list[Row]](list)
            for row in self.tables[hop.table]:
                if all(holds(row[test.column], test) for test in hop.where):
                    groups[tuple([row[key] for key in hop.keys])].append(row)
            values = {}
            for arguments, rows in groups.items():
                value = self._pick(hop, rows)
                if value not in (None, ""):
                    values[arguments] = value
            self.functions[hop] = values
        return self.functions[hop]

    def _pick(self, hop: Hop, rows: Sequence[Row]) -> Any:
        """Return what a hop picks from rows, None if that is nothing or a tie."""
        if hop.pick == "rows":
            return len(rows)
        if hop.pick == "sum":
            return sum(row[hop.by] for row in rows)
        values = [row[hop.give] for row in rows]
        if hop.pick in ("first", "last"):
            return values[-(hop.pick == "last")]
        if hop.pick == "the":
            return values[0] if len({*values}) == 1 else None
        ranking = self._ranking(hop, rows)
        if hop.pick.startswith("second"):
            return ranking[1][1] if len(ranking) > 1 else None
        best = {value for score, value in ranking if score == ranking[0][0]}
        return best.pop() if len(best) == 1 else None

    def _ranking(self, hop: Hop, rows: Sequence[Row]) -> list[tuple[Any, Any]]:
        """Return scores and values, the best first."""
        pick = hop.pick.removeprefix("second ")
        if pick in ("latest", "earliest", "as text"):
            order = self.domain.tables[hop.table].columns[hop.by].order
            if pick == "as text":
                order = ""
            scores = [(order_of(row[hop.by], order), row[hop.give]) for row in rows if row[hop.by]]
            return sorted(scores, key=lambda score: score[0], reverse=pick != "earliest")
        tally = Counter[Any]()
        for row in rows:
            tally[row[hop.give]] += row[hop.by] if pick.startswith("sum") else 1
        scores = [(count, value) for value, count in tally.items()]
        return sorted(scores, key=lambda score: score[0], reverse="fewest" not in pick)

    def others(self, hop: Hop) -> list[tuple[str, Hop]]:
        """Return the alternatives of a hop, with what each has otherwise."""
        if hop not in self.alternatives:
            self.alternatives[hop] = [*self._others(hop)]
        return self.alternatives[hop]

    def _others(self, hop: Hop) -> Iterator[tuple[str, Hop]]:
        rows = self.tables[hop.table]
        for place, test in enumerate(hop.where):
            rest = hop.where[:place] + hop.where[place + 1 :]
            for pick in (hop.pick,) if hop.pick != "the" else ("first", "last", "most"):
                yield "a condition dropped", replace(hop, where=rest, pick=pick)
            for other in other_tests(test, rows):
                yield "another value", replace(hop, where=(*rest, other))
        columns = self.domain.tables[hop.table].columns
        picks = [*OTHER_PICKS[hop.pick]]
        if hop.by and columns[hop.by].time:  # rows are in order of time
            picks = without(picks, ("first", "last"))
        if hop.by and not columns[hop.by].order:
            picks = without(picks, ("as text",))
        for pick in picks:
            yield "another pick", replace(hop, pick=pick)
        for column in columns:
            kind = self.domain.type_of(hop.table, column)
            if kind and kind == hop.gives and column not in (hop.give, *hop.keys):
                yield "another column", replace(hop, give=column)
            for place, key in enumerate(hop.keys):
                if kind == hop.args[place] and column not in hop.keys:
                    keys = (*hop.keys[:place], column, *hop.keys[place + 1 :])
                    yield "another key", replace(hop, keys=keys)
                    if hop.pick == "the":
                        yield "another key", replace(hop, keys=keys, pick="last")
        for place in range(len(hop.keys)):
            keys = hop.keys[:place] + hop.keys[place + 1 :]
            args = hop.args[:place] + hop.args[place + 1 :]
            for pick in (hop.pick,) if hop.pick != "the" else ("first", "last", "most"):
                yield "an argument ignored", replace(hop, keys=keys, args=args, pick=pick)
        if hop.pick != "sum":
            yield "the most frequent", replace(hop, keys=(), args=(), where=(), pick="most")

    def value_of(self, hop: Hop, arguments: Sequence[Any], right: Hop) -> Any:
        """Return the value of an alternative for the arguments of the hop that is right."""
        if len(hop.keys) < len(arguments):
            used = []
            for key, argument in zip(right.keys, arguments, strict=True):
                if key in hop.keys:
                    used.append(argument)
            arguments = used
        return self.function(hop).get(tuple(arguments))

    def sound(self, hop: Hop, arguments: tuple[Any, ...]) -> Any:
        """Return the value of a hop, None if an alternative or the most telling guess has it."""
        value = self.function(hop).get(arguments)
        if not value or value in arguments:
            return None
        for _, other in self.others(hop):
            if self.value_of(other, arguments, hop) == value:
                return None
        return value

    def candidates(self, hop: Hop) -> list[Any]:
        """Return the entities that a mistake could take for the value of a hop."""
        entities = [*self.forms[hop.gives]]
        if len(entities) <= MOST_OTHERS:
            return entities
        values = {*self.function(hop).values()}
        for _, other in self.others(hop):
            values |= {*self.function(other).values()}
        return sorted(values)

    def needed(self, hop: Hop, place: int, arguments: tuple[Any, ...], before: Hop) -> bool:
        """Return whether a hop has another value for any other entity than its argument."""
        function = self.function(hop)
        for other in self.candidates(before):
            changed = (*arguments[:place], other, *arguments[place + 1 :])
            if other != arguments[place] and function.get(changed) == function[arguments]:
                return False
        return True


def order_of(value: Any, order: str) -> Any:
    if order == "version":
        return tuple(map(int, value.split(".")))
    return value


def holds(value: Any, test: Condition) -> bool:
    match test.op:
        case "=":
            return bool(value == test.value)
        case ">=":
            return bool(value >= test.value)
        case _:
            return str(value).startswith(test.value)


def other_tests(test: Condition, rows: Sequence[Row]) -> Iterator[Condition]:
    """Yield a condition with each other value that is in the rows; of a limit, with the next lower
    one, and equal to it."""
    values = {row[test.column] for row in rows}
    if test.op == ">=":
        yield replace(test, op="=")
        yield replace(test, value=max({value for value in values if value < test.value} or {0}))
        return
    if test.op == "^":
        values = {value[: len(test.value)] for value in values}
    for value in sorted(values - {test.value, ""}):
        yield replace(test, value=value)


# -- terms -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    hop: Hop
    args: tuple[Term, ...] = ()

    @property
    def nodes(self) -> list[Term]:
        """The terms in this one, the first to be looked up first, and itself last."""
        nodes = list[Term]()
        for arg in self.args:
            nodes += arg.nodes
        return [*nodes, self]


def value(
    world: World,
    term: Term,
    values: Mapping[Term, Any] = {},
    hops: Mapping[Term, Hop] = {},
) -> Any:
    """Return the value of a term, if some of its nodes have other values, or other hops."""
    if term in values:
        return values[term]
    arguments = [value(world, arg, values, hops) for arg in term.args]
    return world.value_of(hops.get(term, term.hop), arguments, term.hop)


def is_held_out(first: Hop, second: Hop) -> bool:
    """Return whether one hop after another is for the test split only."""
    names = f"{first.name} {second.name}".encode()
    return second.held_out or hashlib.sha256(names).digest()[0] % PAIRS == 0


@dataclass
class Walks:
    """Walks over a world. Those that use other hops than the earlier ones come first."""

    world: World
    draw: Draw
    shows: Callable[[Hop], str]
    """Returns the form in which a hop gives its entity."""
    used: Counter[str] = field(default_factory=Counter)
    tried: int = 0

    def term(self, hops: int, held_out: bool) -> Term | None:
        """Return a question of so many hops, which has a pair or a hop that is held out, or none;
        None if there is no such walk."""
        self.tried = 0
        questions = [hop for hop in self.world.domain.hops if hop.is_question]
        for question in self._shuffled(questions):
            if len(question.args) == 1:
                chains = self._chains(hops - 1, question.args[0], held_out, ())
            elif hops > 3:
                first = self.draw.randint(1, hops - 2)
                chains = self._two_chains(first, hops - 1 - first, question, held_out)
            else:
                continue
            for args in chains:
                for concrete in self._concrete(question):
                    term = Term(concrete, tuple(term for term, _ in args))
                    values = tuple(values[-1] for _, values in args)
                    if self._fits(term, values, held_out) and _has(term, held_out):
                        self.used.update(node.hop.name for node in term.nodes)
                        return term
        return None

    def _two_chains(self, one: int, two: int, question: Hop, held_out: bool) -> Iterator[Any]:
        for ((first, values),) in self._chains(one, question.args[0], held_out, ()):
            names = [node.hop.name for node in first.nodes]
            for ((second, more),) in self._chains(two, question.args[1], held_out, values):
                if not {*names} & {node.hop.name for node in second.nodes}:
                    yield (first, values), (second, more)
                    break

    def _chains(self, hops: int, gives: str, held_out: bool, taken: Sequence[Any]) -> Iterator[Any]:
        """Yield chains of so many hops that end in a type, with their values."""
        if hops == 0:
            return
        for hop in self._shuffled(self.world.domain.hops):
            if hop.is_question or hop.gives != gives or bool(hop.args) is (hops == 1):
                continue
            before: Any = [()]
            if hop.args:
                before = islice(self._chains(hops - 1, hop.args[0], held_out, taken), FEW)
            for args in before:
                for concrete in self._concrete(hop):
                    self.tried += 1
                    if self.tried > MOST_TRIED:
                        return
                    term = Term(concrete, tuple(term for term, _ in args))
                    values = args[0][1] if args else []
                    if not self._fits(term, tuple(values[-1:]), held_out):
                        continue
                    value = self.world.function(concrete)[tuple(values[-1:])]
                    if value not in values and value not in taken:
                        yield ((term, [*values, value]),)

    def _fits(self, term: Term, arguments: tuple[Any, ...], held_out: bool) -> bool:
        """Return whether a hop is sound for these arguments and needs each of them."""
        hop = term.hop
        if hop.name in [node.hop.name for node in term.nodes[:-1]]:
            return False
        if hop.held_out and not held_out:
            return False
        if self.world.sound(hop, arguments) is None:
            return False
        for place, arg in enumerate(term.args):
            same_table = arg.hop.table == hop.table
            if same_table or (self._form(hop) and self._form(hop) == self.shows(arg.hop)):
                return False
            if is_held_out(arg.hop, hop) and not held_out:
                return False
            if not self.world.needed(hop, place, arguments, arg.hop):
                return False
        return True

    def _form(self, hop: Hop) -> str:
        """Return the form that a question asks for, "" if it asks for something else."""
        column = self.world.domain.tables[hop.table].columns.get(hop.give)
        return column.form if column else ""

    def _concrete(self, hop: Hop) -> list[Hop]:
        """Return the hop with up to four values drawn for its open condition."""
        hops = closed(hop, self.world.tables[hop.table])
        return self.draw.sample(hops, min(4, len(hops)))

    def _shuffled(self, hops: Sequence[Hop]) -> list[Hop]:
        """Return the hops in random order, those first that were used least."""
        return sorted(self.draw.shuffled(hops), key=lambda hop: self.used[hop.name])


def _has(term: Term, held_out: bool) -> bool:
    """Return whether a term has a hop or a pair that is held out, if it should have one."""
    pairs = [(arg.hop, node.hop) for node in term.nodes for arg in node.args]
    first = term.nodes[0].hop.held_out
    return not held_out or first or any(is_held_out(*pair) for pair in pairs)


def closed(hop: Hop, rows: Sequence[Row]) -> list[Hop]:
    """Return the hop with each value of its open condition; itself if it has none."""
    hops = []
    for place, test in enumerate(hop.where):
        if test.value in OPEN:
            length = {"day": 10, "month": 7}.get(test.value)
            values = {row[test.column] for row in rows} - {""}
            if length:
                values = {value[:length] for value in values}
            for value in sorted(values):
                where = (*hop.where[:place], replace(test, value=value), *hop.where[place + 1 :])
                hops.append(replace(hop, where=where, value=value))
    return hops or [hop]
