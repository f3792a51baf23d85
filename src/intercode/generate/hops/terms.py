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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from intercode.generate.draws import Draw, without
from intercode.generate.hops.schema import OPEN, Condition, Domain, Hop, key_of

Row = dict[str, Any]
Function = Mapping[tuple[Any, ...], Any]
MOST_OTHERS = 20
"""The largest number of entities of a type that could all stand in the place of one."""
JOINS = 0.25
"""The part of the questions of more than three hops that have two arguments."""
PAIRS = 8
"""The share of pairs of hops that only the test split has is 1 / PAIRS."""
MOST_TIED = 2
"""An alternative with a tie of more values than these is a guess."""
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
"""The mistaken picks of a careless solver; `as text` sorts versions as text and takes the last."""


@dataclass(frozen=True)
class World:
    """The rows of a place. In columns of entities they have the entity's first form; `forms` has
    the other forms, by type, entity and name."""

    domain: Domain
    forms: Mapping[str, Mapping[str, Mapping[str, str]]]
    tables: Mapping[str, list[Row]]
    known: dict[Any, Any] = field(default_factory=dict)
    """Results of the functions below, by their names and arguments."""

    def once(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns, computed once for equal arguments."""
        key = function.__name__, *arguments
        if key not in self.known:
            self.known[key] = function(*arguments)
        return self.known[key]

    def function(self, hop: Hop) -> Function:
        """Return the values of a hop by its arguments; without those where it has none, or a
        tie."""
        values: Function = self.once(self._function, hop)
        return values

    def _function(self, hop: Hop) -> Function:
        values = {}
        for arguments, best in self.once(self._best, hop).items():
            if len(best) == 1 and best[0] not in (None, ""):
                values[arguments] = best[0]
        return values

    def _best(self, hop: Hop) -> dict[tuple[Any, ...], list[Any]]:
        """Return what a hop picks by its arguments: several values if there is a tie."""
        groups = defaultdict[tuple[Any, ...], list[Row]](list)
        for row in self.tables[hop.table]:
            if all(holds(row[test.column], test) for test in hop.where):
                groups[tuple([row[key] for key in hop.keys])].append(row)
        return {arguments: self._pick(hop, rows) for arguments, rows in groups.items()}

    def _pick(self, hop: Hop, rows: Sequence[Row]) -> list[Any]:
        """Return what a hop picks from rows: several values if there is a tie."""
        if hop.pick == "rows":
            return [len(rows)]
        if hop.pick == "sum":
            return [sum(row[hop.by] for row in rows)]
        values = [row[hop.give] for row in rows]
        if hop.pick in ("first", "last"):
            return [values[-(hop.pick == "last")]]
        if hop.pick == "the":
            return [*dict.fromkeys(values)]
        ranking = self._ranking(hop, rows)
        if hop.pick.startswith("second"):
            ranking = ranking[1:]
        return [*dict.fromkeys(value for score, value in ranking if score == ranking[0][0])]

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
        others: list[tuple[str, Hop]] = self.once(self._others, hop)
        return others

    def _others(self, hop: Hop) -> list[tuple[str, Hop]]:
        return [*self._each_other(hop)]

    def _each_other(self, hop: Hop) -> Iterator[tuple[str, Hop]]:
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
        if hop.give == key_of(self.domain.tables[hop.table]):  # each occurs once
            picks = without(picks, ("most",))
        for pick in picks:
            yield "another pick", replace(hop, pick=pick)
        for column in columns:
            kind = self.domain.type_of(hop.table, column)
            if kind and kind == hop.gives and column not in (hop.give, *hop.keys):
                yield "another column", replace(hop, give=column)
            for place in range(len(hop.keys)):
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

    def closed(self, hop: Hop) -> list[Hop]:
        return closed(hop, self.tables[hop.table])

    def value(self, term: Term) -> Any:
        return self.once(self._value, term)

    def _value(self, term: Term) -> Any:
        return self.function(term.hop).get(tuple(map(self.value, term.args)))

    def value_of(self, hop: Hop, arguments: tuple[Any, ...], right: Hop) -> Any:
        """Return the value of an alternative for the arguments of the hop that is right."""
        return self.function(hop).get(self._used(hop, arguments, right))

    def _used(self, hop: Hop, arguments: tuple[Any, ...], right: Hop) -> tuple[Any, ...]:
        """Return the arguments that an alternative does not ignore."""
        if len(hop.keys) == len(arguments):
            return arguments
        pairs = zip(right.keys, arguments, strict=True)
        return tuple(argument for key, argument in pairs if key in hop.keys)

    def sound(self, hop: Hop, arguments: tuple[Any, ...]) -> Any:
        """Return the value of a hop, None if an alternative or the most telling guess has it."""
        value = self.function(hop).get(arguments)
        if not value or value in arguments:
            return None
        for _, other in self.others(hop):
            best = self.once(self._best, other).get(self._used(other, arguments, hop), ())
            if value in best and len(best) <= MOST_TIED:
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
        for other in self.once(self.candidates, before):
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

    def with_hop(self, node: Term, hop: Hop) -> Term:
        """Return the term in which one of its nodes has another hop."""
        if self == node:
            return Term(hop, self.args)
        return Term(self.hop, tuple(arg.with_hop(node, hop) for arg in self.args))


def value(
    world: World,
    term: Term,
    values: Mapping[Term, Any] = {},
    hops: Mapping[Term, Hop] = {},
) -> Any:
    """Return the value of a term, if some of its nodes have other values, or other hops."""
    if term in values:
        return values[term]
    arguments = tuple([value(world, arg, values, hops) for arg in term.args])
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
    held_out: bool = False

    def term(self, hops: int, held_out: bool) -> Term | None:
        """Return a question of so many hops, which has a pair or a hop that is held out, or none;
        None if there is no such walk soon."""
        self.tried, self.held_out = 0, held_out
        two = hops > 3 and self.draw.random() < JOINS
        for question in self._shuffled(hop for hop in self.world.domain.hops if hop.is_question):
            if len(question.args) != 1 + two:
                continue
            left = hops - 1
            lengths = [left]
            if two:
                first = self.draw.randint(1, left - 1)
                lengths = [first, left - first]
            for args in islice(self._arguments(question, lengths, []), FEW):
                for closed_question in self._closed(question):
                    term = Term(closed_question, tuple(args))
                    if self._fits(term) and _has(term, held_out):
                        self.used.update(node.hop.name for node in term.nodes)
                        return term
        return None

    def _arguments(
        self, question: Hop, lengths: Sequence[int], before: list[Term]
    ) -> Iterator[list[Term]]:
        """Yield terms of these lengths for the arguments of a question after those before."""
        if not lengths:
            yield before
            return
        for root in self._shuffled(self.world.domain.hops):
            if not root.args and self._reaches(
                root.gives, lengths[0] - 1, question.args[len(before)]
            ):
                for closed_root in self._closed(root):
                    term = Term(closed_root)
                    if self._fits(term, before):
                        goal = question.args[len(before)]
                        for chain in self._chains(term, lengths[0] - 1, goal, before):
                            yield from self._arguments(question, lengths[1:], [*before, chain])
                            break

    def _chains(self, term: Term, left: int, goal: str, before: list[Term]) -> Iterator[Term]:
        """Yield terms that go on from a term for so many hops, and end in a type."""
        if not left:
            yield term
            return
        for hop in self._shuffled(self.world.domain.hops):
            if hop.args == (term.hop.gives,) and self._reaches(hop.gives, left - 1, goal):
                self.tried += 1
                longer = Term(hop, (term,))
                if self.tried < MOST_TRIED and self._fits(longer, before):
                    yield from self._chains(longer, left - 1, goal, before)

    def _reaches(self, start: str, left: int, goal: str) -> bool:
        """Return whether so many hops can lead from a type to another."""
        if not left or not start:
            return start == goal
        return bool(self.world.once(self._onward, start, left, goal))

    def _onward(self, start: str, left: int, goal: str) -> bool:
        for hop in self.world.domain.hops:
            if hop.args == (start,) and self._reaches(hop.gives, left - 1, goal):
                return True
        return False

    def _fits(self, term: Term, before: Sequence[Term] = ()) -> bool:
        """Return whether the last hop of a term is sound and needed for its arguments, and neither
        it nor its value was used before."""
        hop, world = term.hop, self.world
        earlier = term.nodes[:-1]
        for other in before:
            earlier += other.nodes
        if hop.name in [node.hop.name for node in earlier] or (hop.held_out and not self.held_out):
            return False
        arguments = tuple(world.value(arg) for arg in term.args)
        result = world.once(world.sound, hop, arguments)
        if result is None or result in [world.value(node) for node in earlier]:
            return False
        for place, arg in enumerate(term.args):
            same_table = arg.hop.table == hop.table
            if same_table or (self._form(hop) and self._form(hop) == self.shows(arg.hop)):
                return False
            if is_held_out(arg.hop, hop) and not self.held_out:
                return False
            if not world.once(world.needed, hop, place, arguments, arg.hop):
                return False
        return True

    def _form(self, hop: Hop) -> str:
        """Return the form that a question asks for, "" if it asks for something else."""
        column = self.world.domain.tables[hop.table].columns.get(hop.give)
        return column.form if column else ""

    def _closed(self, hop: Hop) -> list[Hop]:
        """Return the hop with up to four values drawn for its open condition."""
        hops = self.world.once(self.world.closed, hop)
        return self.draw.sample(hops, min(4, len(hops)))

    def _shuffled(self, hops: Iterable[Hop]) -> list[Hop]:
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
