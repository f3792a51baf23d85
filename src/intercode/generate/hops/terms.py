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
from functools import wraps
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar, cast

from intercode.generate.draws import Draw, without
from intercode.generate.hops.schema import OPEN, Condition, Domain, Hop, Row

Arguments = tuple[Any, ...]
Method = TypeVar("Method", bound=Callable[..., Any])
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
OTHER_PICKS: Mapping[str, Sequence[str]] = {
    "most": ("fewest", "second most", "first", "last"),
    "latest": ("earliest", "second latest", "most"),
    "earliest": ("latest", "second earliest", "most"),
    "largest": ("smallest", "second largest", "as text", "most", "first", "last"),
    "sum": ("rows",),
    "the": (),
}
"""The mistaken picks of a careless solver; `as text` sorts numbers as text and takes the last."""
ANY_ROW = ("first", "last", "most")
"""The picks of a solver who left out a clause and has several rows for one."""


def once(method: Method) -> Method:
    """Let a method of a world remember what it returns."""

    @wraps(method)
    def remembered(world: World, *arguments: Any) -> Any:
        key = method.__name__, *arguments
        if key not in world.known:
            world.known[key] = method(world, *arguments)
        return world.known[key]

    return cast(Method, remembered)


@dataclass(frozen=True)
class World:
    """The rows of a place. In columns of entities they have the entity's first form; `forms` has
    the other forms, by type, entity and name."""

    domain: Domain
    forms: Mapping[str, Mapping[str, Mapping[str, str]]]
    tables: Mapping[str, list[Row]]
    known: dict[Any, Any] = field(default_factory=dict)
    """Results of the methods below, by their names and arguments."""

    @once
    def function(self, hop: Hop) -> dict[Arguments, Any]:
        """Return the values of a hop by its arguments; without those where it has a tie."""
        best = self.best(hop)
        return {arguments: best[arguments][0] for arguments in best if len(best[arguments]) == 1}

    @once
    def best(self, hop: Hop) -> dict[Arguments, list[Any]]:
        """Return what a hop picks by its arguments: several values if there is a tie."""
        groups = defaultdict[Arguments, list[Row]](list)
        keys = [key for key in hop.keys if key]
        for row in passing(self.tables[hop.table], hop.where):
            groups[tuple([row[key] for key in keys])].append(row)
        return {arguments: _picked(hop, rows) for arguments, rows in groups.items()}

    def value_of(self, hop: Hop, arguments: Arguments) -> Any:
        return self.function(hop).get(_used(hop, arguments))

    def value(
        self, term: Term, values: Mapping[Term, Any] = {}, hops: Mapping[Term, Hop] = {}
    ) -> Any:
        """Return the value of a term, if some of its nodes have other values, or other hops."""
        if term in values:
            return values[term]
        arguments = [self.value(arg, values, hops) for arg in term.args]
        return self.value_of(hops.get(term, term.hop), tuple(arguments))

    @once
    def others(self, hop: Hop) -> list[tuple[str, Hop]]:
        """Return the alternatives of a hop, with what each has otherwise. A key that it ignores is
        ""."""
        others = list[tuple[str, Hop]]()

        def add(what: str, **changes: Any) -> None:
            others.append((what, replace(hop, **changes)))

        table, rows = self.domain.tables[hop.table], self.tables[hop.table]
        picks: Sequence[str] = (hop.pick,)
        if hop.pick == "the":
            picks = ANY_ROW
        for place, test in enumerate(hop.where):
            for value in sorted({test.part(row) for row in rows} - {test.value}):
                where = _with(hop.where, place, replace(test, value=value))
                add("another value", where=where)
            for pick in picks:
                rest = tuple(without(hop.where, [test]))
                add("a condition dropped", where=rest, pick=pick)
        for pick in OTHER_PICKS[hop.pick]:
            if pick != "most" or hop.give != table.key:  # each key occurs once
                add("another pick", pick=pick)
        for name, column in table.columns.items():
            if not column.type or name in (hop.give, *hop.keys):
                continue
            if column.type == hop.gives:
                add("another column", give=name)
            for place, kind in enumerate(hop.args):
                for pick in picks if kind == column.type else ():
                    add("another key", keys=_with(hop.keys, place, name), pick=pick)
        for place in range(len(hop.keys)):
            for pick in picks:
                add("an argument ignored", keys=_with(hop.keys, place, ""), pick=pick)
        if hop.pick != "sum":
            add("the most frequent", keys=("",) * len(hop.keys), where=(), pick="most")
        return others

    @once
    def closed(self, hop: Hop) -> list[Hop]:
        return closed(hop, self.tables[hop.table])

    @once
    def sound(self, hop: Hop, arguments: Arguments) -> Any:
        """Return the value of a hop, None if an alternative or the most telling guess has it."""
        value = self.value_of(hop, arguments)
        if value is None or value in arguments:
            return None
        for _, other in self.others(hop):
            best = self.best(other).get(_used(other, arguments), ())
            if value in best and len(best) <= MOST_TIED:
                return None
        return value

    @once
    def needed(self, hop: Hop, place: int, arguments: Arguments, before: Hop) -> bool:
        """Return whether a hop has another value for any other entity than its argument."""
        function = self.function(hop)
        for other in without(self.forms[before.gives], [arguments[place]]):
            if function.get(_with(arguments, place, other)) == function[arguments]:
                return False
        return True

    @once
    def reaches(self, start: str, left: int, goal: str) -> bool:
        """Return whether so many hops can lead from a type to another."""
        if not left:
            return start == goal
        onward = [hop.gives for hop in self.domain.hops if hop.args == (start,)]
        return any(self.reaches(kind, left - 1, goal) for kind in onward)


def passing(rows: Iterable[Row], tests: Sequence[Condition]) -> list[Row]:
    """Return the rows for which all conditions hold."""
    for test in tests:
        rows = [row for row in rows if test.part(row) == test.value]
    return [*rows]


def _picked(hop: Hop, rows: Sequence[Row]) -> list[Any]:
    """Return what a hop picks from rows: several values if there is a tie."""
    if hop.pick == "rows":
        return [len(rows)]
    if hop.pick == "sum":
        return [sum(row[hop.by] for row in rows)]
    values = [row[hop.give] for row in rows]
    ranking: list[tuple[Any, Any]]
    match hop.pick.removeprefix("second "):
        case "the":
            return [*{*values}]
        case "first":
            return values[:1]
        case "last":
            return values[-1:]
        case "most" | "fewest":
            ranking = [(count, value) for value, count in Counter(values).items()]
        case "as text":
            ranking = [(str(row[hop.by]), row[hop.give]) for row in rows]
        case _:
            ranking = [(row[hop.by], row[hop.give]) for row in rows]
    least_first = hop.pick.endswith(("fewest", "earliest", "smallest"))
    ranking.sort(key=itemgetter(0), reverse=not least_first)
    if hop.pick.startswith("second"):
        ranking = ranking[1:]
    return [*{value for score, value in ranking if score == ranking[0][0]}]


def _used(hop: Hop, arguments: Arguments) -> Arguments:
    """Return the arguments that an alternative does not ignore."""
    if "" not in hop.keys:
        return arguments
    return tuple([value for key, value in zip(hop.keys, arguments, strict=True) if key])


def _with(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


# -- terms -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    hop: Hop
    args: tuple[Term, ...] = ()

    @property
    def nodes(self) -> list[Term]:
        """The terms in this one, the first to be looked up first, and itself last."""
        return [*_nodes(self.args), self]

    def with_hop(self, node: Term, hop: Hop) -> Term:
        """Return the term in which one of its nodes has another hop."""
        if self == node:
            return Term(hop, self.args)
        return Term(self.hop, tuple([arg.with_hop(node, hop) for arg in self.args]))


def _nodes(terms: Iterable[Term]) -> list[Term]:
    nodes = list[Term]()
    for term in terms:
        nodes += term.nodes
    return nodes


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
    asked: set[Any] = field(default_factory=set)
    """The answers of earlier questions, and their hops: their solutions would tell another one."""
    tried: int = 0
    held_out: bool = False

    def term(self, hops: int, held_out: bool) -> Term | None:
        """Return a question of so many hops, which has a pair or a hop that is held out, or none;
        None if there is no such walk soon."""
        self.tried, self.held_out = 0, held_out
        lengths = [hops - 1]
        if hops > 3 and self.draw.random() < JOINS:
            first = self.draw.randint(1, hops - 2)
            lengths = [first, hops - 1 - first]
        for question in self._hops():
            if question.gives or len(question.args) != len(lengths):
                continue
            for args in islice(self._arguments(lengths, question.args, ()), FEW):
                for closed_question in self._closed(question):
                    term = Term(closed_question, args)
                    if not self._fits(term, ()) or (held_out and not _has_held_out(term)):
                        continue
                    chain = tuple([node.hop.name for node in term.nodes])
                    asked = {self.world.value(term), chain}
                    if self.asked.isdisjoint(asked):
                        self.used.update(chain)
                        self.asked |= asked
                        return term
        return None

    def _arguments(
        self, lengths: Sequence[int], goals: Sequence[str], before: tuple[Term, ...]
    ) -> Iterator[tuple[Term, ...]]:
        """Yield terms of these lengths and types, after those before."""
        if not lengths:
            yield before
            return
        for chain in self._chains((), lengths[0], goals[0], before):
            yield from self._arguments(lengths[1:], goals[1:], (*before, chain))

    def _chains(
        self, begun: tuple[Term, ...], left: int, goal: str, before: Sequence[Term]
    ) -> Iterator[Term]:
        """Yield terms that go on from nothing, or from a term, for so many hops and end in a type:
        at most one for each next hop."""
        if not left:
            yield from begun
            return
        kinds = tuple([term.hop.gives for term in begun])
        for hop in self._hops():
            if hop.args != kinds or not self.world.reaches(hop.gives, left - 1, goal):
                continue
            for closed_hop in self._closed(hop):
                self.tried += 1
                term = Term(closed_hop, begun)
                if self.tried < MOST_TRIED and self._fits(term, before):
                    yield from islice(self._chains((term,), left - 1, goal, before), 1)

    def _fits(self, term: Term, before: Sequence[Term]) -> bool:
        """Return whether the last hop of a term is sound and needed for its arguments, and neither
        it nor its value was used before."""
        hop, world = term.hop, self.world
        earlier = _nodes([*term.args, *before])
        if hop.name in [node.hop.name for node in earlier] or (hop.held_out and not self.held_out):
            return False
        arguments = tuple([world.value(arg) for arg in term.args])
        result = world.sound(hop, arguments)
        if result is None or result in [world.value(node) for node in earlier]:
            return False
        for place, arg in enumerate(term.args):
            if arg.hop.table == hop.table or hop.form == self.shows(arg.hop):
                return False
            if is_held_out(arg.hop, hop) and not self.held_out:
                return False
            if not world.needed(hop, place, arguments, arg.hop):
                return False
        return True

    def _closed(self, hop: Hop) -> list[Hop]:
        """Return the hop with up to four values drawn for its open condition."""
        return self.draw.shuffled(self.world.closed(hop))[:FEW]

    def _hops(self) -> list[Hop]:
        """Return all hops in random order, those first that were used least."""
        hops = self.draw.shuffled(self.world.domain.hops)
        return sorted(hops, key=lambda hop: self.used[hop.name])


def _has_held_out(term: Term) -> bool:
    """Return whether a term has a hop or a pair that is held out."""
    pairs = [is_held_out(arg.hop, node.hop) for node in term.nodes for arg in node.args]
    return any(pairs) or term.nodes[0].hop.held_out


def closed(hop: Hop, rows: Sequence[Row]) -> list[Hop]:
    """Return the hop with each value of its open condition; itself if it has none."""
    if not hop.where or hop.value not in OPEN:
        return [hop]
    hops = []
    for value in sorted({hop.where[0].part(row) for row in rows}):
        where = _with(hop.where, 0, replace(hop.where[0], value=value))
        hops.append(replace(hop, where=where))
    return hops
