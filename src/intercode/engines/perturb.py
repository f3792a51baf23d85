"""Second contents of tables, as a pure function: rows in, other rows out, for the same schema.

    parents first:  kept rows (some as they were: anchors) ─┬─► each non-key value may change      values.py
                    rows that nothing refers to, fewer     ─┤   foreign keys move to other parents, unevenly
                    new rows with new keys: twins, variants ─┘   some values become NULL

What stays true: primary and unique keys, foreign keys (also undeclared ones that the values show), columns that depend on each
other (a code and its name), and the literals: an anchor is a row that holds a value named by a literal, left as it was. What is
made to differ: which rows meet a condition, ties, counts, sums, least and greatest, and rows without a partner.

Left out: dependencies between tables other than keys, and an order that means something across rows (a running balance).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from unicodedata import combining, normalize

from intercode.engines.values import Column, Literal

Value = object
Row = tuple[Value, ...]

_CHANGED, _CHANGED_VARIANT = 0.35, 0.5
"""Share of the non-key values that change in an old row, and in a variant."""
_MOVED, _MOVED_VARIANT = 0.25, 0.4
_REMOVED = 0.12
_TWINS = 0.3
_NULLS, _FIRST_NULLS = 0.06, 0.02
_LEAST_ADDED, _MOST_ADDED = 4, 600
_SAMPLE = 2000
_TRIES = 8
_CHANCE = 1e-3


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


def perturbed(relations: Sequence[Relation], literals: Collection[Literal], seed: str) -> dict[str, list[Row]]:
    """The second content, by table. The same arguments give the same rows."""
    relations = with_implied(relations)
    pointed = _pointed_at(relations)
    found: dict[str, _Remade] = {}
    for relation in _parents_first(relations):
        rng = Random(f"{seed}\0{relation.name}")
        table = _Remade(relation, literals, pointed[relation.name], found, rng)
        table.fill()
        found[relation.name] = table
    return {relation.name: found[relation.name].rows for relation in relations}


class _Remade:
    """One table while it is made anew."""

    def __init__(
        self,
        relation: Relation,
        literals: Collection[Literal],
        pointed: Mapping[tuple[int, ...], set[Row]],
        parents: Mapping[str, _Remade],
        rng: Random,
    ) -> None:
        self.relation, self._rng, self._parents = relation, rng, parents
        self._pointed = pointed
        self.columns = [Column(values, literals) for values in _transposed(relation)]
        self._keys = {place for key in relation.unique for place in key}
        self._foreign = {place for reference in relation.references for place in reference.columns}
        self._bundles = _bundles(relation, self._keys)
        self._loose = [
            place
            for place in range(len(relation.columns))
            if place not in self._keys | self._foreign | relation.fixed and all(place not in each for each in self._bundles)
        ]
        self._seen = [{_folded(row, key) for row in relation.rows} for key in relation.unique]
        self._movable = [each for each in relation.references if self._may_move(each)]
        self._taken: dict[int, set[Value]] = {}
        self._pools: dict[Reference, list[Row]] = {}
        self.rows: list[Row] = []
        self.added: list[Row] = []

    def fill(self) -> None:
        relation, rng = self.relation, self._rng
        anchors = set(_anchors(relation.rows, self.columns))
        gone = set(self._removed(anchors))
        kept = [number for number in range(len(relation.rows)) if number not in gone]
        self.rows = [row if number in anchors else self._changed(row) for number in kept for row in (relation.rows[number],)]
        models = [relation.rows[number] for number in kept]
        favoured = [relation.rows[number] for number in sorted(anchors)] or models
        for _ in range(_wanted(len(relation.rows)) if models else 0):
            self._add(rng.choice(favoured if rng.random() < 0.5 else models))
        self.rows += self.added
        rng.shuffle(self.rows)

    def keys(self, targets: tuple[int, ...]) -> list[Row]:
        """What children may point to: some of the new rows stay without any."""
        lonely = {_at(row, targets) for row in self.added[::2]}
        found = {_at(row, targets) for row in self.rows}
        return sorted((key for key in found - lonely if None not in key), key=repr)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _lonely(self) -> set[Row]:
        return set(self.added[::2])

    def _removed(self, anchors: set[int]) -> Iterator[int]:
        """Rows that nothing refers to, no anchors, and never many."""
        rows = self.relation.rows
        if len(rows) < 5:
            return
        for number, row in enumerate(rows):
            if number not in anchors and self._rng.random() < _REMOVED and not self._is_pointed_at(row):
                yield number

    def _is_pointed_at(self, row: Row) -> bool:
        return any(_at(row, targets) in values for targets, values in self._pointed.items())

    def _changed(self, row: Row) -> Row:
        new = self._pointed_elsewhere(row, _MOVED)
        if self._fits(new, row):
            self._note(new)
        else:
            new = row
        return self._emptied(self._altered(new, _CHANGED, ends=True))

    def _add(self, model: Row) -> None:
        twin = self._rng.random() < _TWINS
        for _ in range(_TRIES):
            new = self._with_new_keys(model if twin else self._pointed_elsewhere(model, _MOVED_VARIANT))
            if new is not None and self._fits(new):
                self._note(new)
                self.added.append(new if twin else self._emptied(self._altered(new, _CHANGED_VARIANT)))
                return

    def _fits(self, row: Row, old: Row | None = None) -> bool:
        """Whether its keys are free, or as they were in the old row."""
        keys = [_folded(row, key) for key in self.relation.unique]
        olds = [_folded(old, key) for key in self.relation.unique] if old else [()] * len(keys)
        return all(new == was or None in new or new not in seen for new, was, seen in zip(keys, olds, self._seen, strict=True))

    def _note(self, row: Row) -> None:
        for key, seen in zip(self.relation.unique, self._seen, strict=True):
            seen.add(_folded(row, key))

    def _with_new_keys(self, row: Row) -> Row | None:
        """A key of one column gets a value that was never there; one of several is tried in another combination."""
        new = list(row)
        for key in self.relation.unique:
            free = [place for place in key if place not in self._foreign | self.relation.fixed]
            if free and len(key) == 1:
                new[free[0]] = self._new_key(free[0])
                if new[free[0]] is None:
                    return None
                continue
            new = list(self._pointed_elsewhere(tuple(new), 0.7, within=key))
            for place in free:
                new[place] = self.columns[place].other(self._rng, new[place])
        return tuple(new)

    def _new_key(self, place: int) -> Value:
        value = self.columns[place].unused(self._rng, self._used(place))
        self._used(place).add(value)
        return value

    def _used(self, place: int) -> set[Value]:
        if place not in self._taken:
            self._taken[place] = set(self.columns[place].distinct)
        return self._taken[place]

    # -- values -----------------------------------------------------------------------------------------------------

    def _altered(self, row: Row, share: float, *, ends: bool = False) -> Row:
        """Each non-key value may change; dependent columns change together, to what another row has."""
        new, rng = list(row), self._rng
        for place in self._loose:
            column = self.columns[place]
            if rng.random() < (share / 2 if column.names else share):
                new[place] = column.other(rng, row[place])
            elif ends and column.extreme(row[place]) and rng.random() < 0.5:
                new[place] = column.inner(rng)
        for bundle in self._bundles:
            if rng.random() < share:
                other = rng.choice(self.relation.rows)
                for place in bundle:
                    new[place] = other[place]
        return tuple(new)

    def _emptied(self, row: Row) -> Row:
        new = list(row)
        for place in self._loose:
            column = self.columns[place]
            share = _NULLS if column.missing else 0.0 if column.names else _FIRST_NULLS
            if share and self.relation.nullable[place] and self._rng.random() < share:
                new[place] = None
        return tuple(new)

    def _pointed_elsewhere(self, row: Row, share: float, within: Collection[int] = ()) -> Row:
        """Foreign keys move to other parents, of which the first in a shuffled list are chosen more often."""
        new = list(row)
        for reference in self._movable:
            if within and not set(reference.columns) & set(within):
                continue
            pool = self._pool(reference)
            if pool and None not in _at(row, reference.columns) and self._rng.random() < share:
                chosen = pool[int(len(pool) * self._rng.random() ** 2)]
                for place, value in zip(reference.columns, chosen, strict=True):
                    new[place] = value
        return tuple(new)

    def _may_move(self, reference: Reference) -> bool:
        """Not if its columns also belong to another reference or hang on other columns."""
        places = set(reference.columns)
        others = [each.columns for each in self.relation.references if each is not reference]
        return not any(places & set(each) for each in [*others, *self._bundles, self.relation.fixed])

    def _pool(self, reference: Reference) -> list[Row]:
        if reference not in self._pools:
            parent = self._parents.get(reference.table)
            if parent is None:  # itself, or one in a circle: what it held before
                pool = sorted({_at(row, reference.columns) for row in self.relation.rows}, key=repr)
                pool = [key for key in pool if None not in key]
            else:
                pool = parent.keys(reference.targets)
            self._rng.shuffle(pool)
            self._pools[reference] = pool
        return self._pools[reference]


def _at(row: Row, places: Sequence[int]) -> Row:
    return tuple([row[place] for place in places])


def _folded(row: Row, places: Sequence[int]) -> Row:
    """As a key is compared where neither case nor accents count."""
    return tuple([_bare(row[place]) for place in places])


def _bare(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    text = value.casefold().rstrip()
    return text if text.isascii() else "".join(one for one in normalize("NFKD", text) if not combining(one))


def _transposed(relation: Relation) -> list[tuple[Value, ...]]:
    return list(zip(*relation.rows, strict=True)) or [()] * len(relation.columns)


def _wanted(count: int) -> int:
    """How many rows a table gets more."""
    share = count // 2 if count <= 200 else count // 5
    return min(max(share, _LEAST_ADDED), _MOST_ADDED) if count else 0


def _anchors(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[int]:
    """Rows that stay as they are: for each value that a literal names one, those first that hold many of them."""
    wanted = [{*column.held} for column in columns]
    places = [place for place, held in enumerate(wanted) if held]
    counted = sorted((-sum(row[place] in wanted[place] for place in places), number) for number, row in enumerate(rows))
    room = max(1, len(rows) // 2)
    for count, number in counted:
        fresh = [place for place in places if rows[number][place] in wanted[place]]
        if count == 0 or room == 0:
            return
        if fresh:
            for place in fresh:
                wanted[place].discard(rows[number][place])
            room -= 1
            yield number


# -- what hangs together ------------------------------------------------------------------------------------------------


def with_implied(relations: Sequence[Relation]) -> list[Relation]:
    """The relations with the references that nobody declared: all values of a column are in a key of another table, and
    that is no accident, since they are texts or the names agree."""
    single = [
        (relation, key[0], {str(row[key[0]]).casefold(): None for row in relation.rows})
        for relation in relations
        for key in relation.unique
        if len(key) == 1
    ]
    return [replace(relation, references=(*relation.references, *_implied(relation, single))) for relation in relations]


def _implied(relation: Relation, single: Sequence[tuple[Relation, int, Mapping[str, None]]]) -> Iterator[Reference]:
    declared = {place for reference in relation.references for place in reference.columns}
    alone = {key[0] for key in relation.unique if len(key) == 1}
    for place, values in enumerate(_transposed(relation)):
        if place in declared or place in relation.fixed:
            continue
        present = {value for value in values if value is not None}
        for parent, target, keys in single:
            if (
                parent is not relation
                and place not in alone
                and len(present) > 1
                and _may_refer(relation.columns[place], present, parent, target)
                and all(str(value).casefold() in keys for value in present)
            ):
                yield Reference((place,), parent.name, (target,))
                break


def _may_refer(name: str, values: set[Value], parent: Relation, target: int) -> bool:
    kinds = {type(value) for value in values} | {type(row[target]) for row in parent.rows}
    if kinds == {str} and not all(str(value).isdigit() for value in values):
        return True
    name, other, table = (text.casefold().replace("_", "") for text in (name, parent.columns[target], parent.name))
    return name == other or name.removesuffix("id") in (table, table.removesuffix("s")) or (other != "id" and other in name)


def _pointed_at(relations: Sequence[Relation]) -> dict[str, dict[tuple[int, ...], set[Row]]]:
    """By table, the key values that other rows hold."""
    found: dict[str, dict[tuple[int, ...], set[Row]]] = {relation.name: defaultdict(set) for relation in relations}
    for relation in relations:
        for reference in relation.references:
            if reference.table in found:
                found[reference.table][reference.targets] |= {_at(row, reference.columns) for row in relation.rows}
    return found


def _parents_first(relations: Sequence[Relation]) -> list[Relation]:
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


def _bundles(relation: Relation, keys: set[int]) -> list[tuple[int, ...]]:
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
