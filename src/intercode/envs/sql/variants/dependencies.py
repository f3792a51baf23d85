"""What hangs together in a database: references between tables, those that nobody declared too, and columns that decide others.

    declared references ─┐
    values of a column that are all keys of another table ─┴─► parents first, trees and their depths
    values of a column that decide those of another ─────────► bundles, which only change together

All of it is read off the rows that there are, and errs on the side of keeping: a dependency that is none costs some power to
tell queries apart, one that is missed makes contents that mean nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

Value = object
Row = tuple[Value, ...]

_SAMPLE = 2000
"""Rows in which dependent columns are looked for."""
_CHANCE = 1e-3
"""Columns that agree this rarely by accident depend on each other."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns that point to `targets` of another table, by their places."""

    columns: tuple[int, ...]
    table: str
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table. `unique`: its keys, by places. `fixed`: places whose values stay with their row, as a CHECK names them."""

    name: str
    columns: tuple[str, ...]
    nullable: tuple[bool, ...]
    unique: tuple[tuple[int, ...], ...]
    references: tuple[Reference, ...]
    rows: tuple[Row, ...]
    fixed: frozenset[int] = frozenset()


def at(row: Row, places: Sequence[int]) -> Row:
    return tuple([row[place] for place in places])


def transposed(relation: Relation) -> list[tuple[Value, ...]]:
    return list(zip(*relation.rows, strict=True)) or [()] * len(relation.columns)


def with_implied(relations: Sequence[Relation]) -> list[Relation]:
    """The relations with the references that nobody declared: all values of a column are in a key of another table, and
    that is no accident, since they are texts or the names agree."""
    single = [
        (relation, key[0], {str(row[key[0]]).casefold() for row in relation.rows})
        for relation in relations
        for key in relation.unique
        if len(key) == 1
    ]
    return [replace(relation, references=(*relation.references, *_implied(relation, single))) for relation in relations]


def _implied(relation: Relation, single: Sequence[tuple[Relation, int, set[str]]]) -> Iterator[Reference]:
    taken = {place for reference in relation.references for place in reference.columns} | relation.fixed
    taken |= {key[0] for key in relation.unique if len(key) == 1}
    for place, values in enumerate(transposed(relation)):
        present = {value for value in values if value is not None}
        if place in taken or len(present) < 2:
            continue
        for parent, target, keys in single:
            if (
                parent is not relation
                and all(str(value).casefold() in keys for value in present)
                and _may_refer(relation.columns[place], present, parent, target)
            ):
                yield Reference((place,), parent.name, (target,))
                break


def _may_refer(name: str, values: set[Value], parent: Relation, target: int) -> bool:
    kinds = {type(value) for value in values} | {type(row[target]) for row in parent.rows}
    if kinds == {str} and not all(str(value).isdigit() for value in values):
        return True
    name, other, table = (text.casefold().replace("_", "") for text in (name, parent.columns[target], parent.name))
    return name == other or name.removesuffix("id") in (table, table.removesuffix("s")) or (other != "id" and other in name)


def pointed_at(relations: Sequence[Relation]) -> dict[str, dict[tuple[int, ...], set[Row]]]:
    """By table, the key values that other rows hold."""
    found: dict[str, dict[tuple[int, ...], set[Row]]] = {relation.name: defaultdict(set) for relation in relations}
    for relation in relations:
        for reference in relation.references:
            if reference.table in found:
                found[reference.table][reference.targets] |= {at(row, reference.columns) for row in relation.rows}
    return found


def parents_first(relations: Sequence[Relation]) -> list[Relation]:
    """Each after those that it points to, but for circles."""
    by_name = {relation.name: relation for relation in relations}
    found: dict[str, Relation] = {}
    under_way: set[str] = set()

    def visit(relation: Relation) -> None:
        if relation.name in under_way:
            return
        under_way.add(relation.name)
        for reference in relation.references:
            if reference.table in by_name:
                visit(by_name[reference.table])
        found[relation.name] = relation

    for relation in relations:
        visit(relation)
    return list(found.values())


def depths(relation: Relation, reference: Reference) -> dict[Row, int]:
    """How far each row is from the root of its tree; rows in a circle are left out."""
    parent = {at(row, reference.targets): at(row, reference.columns) for row in relation.rows}
    return _ranked({key: [up] if up in parent else [] for key, up in parent.items()})


def without_circles(relation: Relation, table: str) -> bool:
    """Whether a table with several references to one other is a graph in which no way leads back."""
    first, *others = (each.columns for each in relation.references if each.table == table)
    ways: dict[Row, list[Row]] = defaultdict(list)
    for row in relation.rows:
        ways[at(row, first)] += [at(row, other) for other in others]
        for other in others:
            ways.setdefault(at(row, other), [])
    return len(_ranked(ways)) == len(ways)


def _ranked(ways: Mapping[Row, Collection[Row]]) -> dict[Row, int]:
    """Members by how long the longest way from them is; those from which a circle is reached are left out."""
    found: dict[Row, int] = {}
    rank, left = 0, TopologicalSorter(ways)
    with contextlib.suppress(CycleError):  # what no circle is in the way of is sorted all the same
        left.prepare()
    while ready := left.get_ready():
        left.done(*ready)
        found |= dict.fromkeys(ready, rank)
        rank += 1
    return found


def bundles(relation: Relation, keys: set[int]) -> list[tuple[int, ...]]:
    """Columns of which one decides the other, in more rows than accident explains: they only change together."""
    rows = relation.rows[:_SAMPLE]
    places = [place for place in range(len(relation.columns)) if place not in keys | relation.fixed]
    group = {place: place for place in places}
    for one in places:
        for other in places:
            if group[one] != group[other] and _decides(rows, one, other):
                joined = group[other]
                group = {place: group[one] if mark == joined else mark for place, mark in group.items()}
    bundles = defaultdict(list)
    for place, mark in group.items():
        bundles[mark].append(place)
    return [tuple(bundle) for bundle in bundles.values() if len(bundle) > 1]


def _decides(rows: Sequence[Row], one: int, other: int) -> bool:
    met: dict[Value, Value] = {}
    repeats = 0
    for row in rows:
        if row[one] is None:
            continue
        if met.setdefault(row[one], row[other]) != row[other]:
            return False
        repeats += 1
    counts = Counter(met.values())
    if len(counts) < 3:
        return False
    alike = sum(count * count for count in Counter(row[other] for row in rows).values()) / len(rows) ** 2
    return bool(alike ** (repeats - len(met)) < _CHANCE)
