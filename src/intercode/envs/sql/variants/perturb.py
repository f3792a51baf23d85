"""Second contents of tables, as a pure function: rows in, other rows out, for the same schema.

    old rows ── some that nothing refers to go ──► values change (values.py), foreign keys move to other parents, unevenly
       └─ twins (new keys only), near variants (one thing changed), far ones (many) ──► added, some without any children
                                   then, by column: names exchanged, new least and greatest, literals' edges met, some NULLs

What stays true: primary and unique keys, foreign keys (dependencies.py), trees, columns that decide each other, and every value
that a literal names, in a row (an anchor) that keeps its keys. A named name that was one row's alone, and a least or greatest
that was, stay so. What is made to differ: which rows meet a condition, ties, counts, sums, order, rows without a partner.

Left out: rules between tables or rows other than keys (a total that equals the sum of its parts, a running balance), and
tables that are empty: they stay so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from unicodedata import combining, normalize

from intercode.envs.sql.engines.values import Column, Literal
from intercode.envs.sql.variants.dependencies import (
    Reference,
    Relation,
    Row,
    Value,
    at,
    bundles,
    depths,
    parents_first,
    pointed_at,
    transposed,
    with_implied,
    without_circles,
)

# Shares, found by trying: with them a content tells most wrong queries apart, and leaves few golds without rows.
_CHANGED, _CHANGED_ANCHOR, _CHANGED_FAR = 0.35, 0.5, 0.5
"""Of the non-key values in an old row, an anchor (but for what is named), a far variant."""
_MOVED, _MOVED_NEAR, _MOVED_FAR = 0.5, 0.3, 0.5
"""Of the foreign keys in an old row, a near and a far variant."""
_SKEW, _TO_TWIN = 3, 0.3
"""How unevenly parents are chosen (1 would be even), and how often it is the old one's twin."""
_WAYS = (0.25, 0.5, 0.25)
"""Of the new rows: twins, near and far variants."""
_RENAMED, _REMOVED = 0.6, 0.12
_NULLS, _FIRST_NULLS = 0.06, 0.02
"""In columns that have some, and in others."""
_LEAST_ADDED, _MOST_ADDED = 6, 900
_TRIES = 8


def perturbed(relations: Sequence[Relation], literals: Collection[Literal], seed: str) -> dict[str, list[Row]]:
    """The second content, by table. The same arguments give the same rows."""
    relations = with_implied(relations)
    pointed = pointed_at(relations)
    found: dict[str, _Remade] = {}
    for relation in parents_first(relations):
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
        self.columns = [Column(values, literals) for values in transposed(relation)]
        self._keys = {place for key in relation.unique for place in key}
        self._foreign = {place for reference in relation.references for place in reference.columns}
        self._bundles = bundles(relation, self._keys)
        self._loose = [
            place
            for place in range(len(relation.columns))
            if place not in self._keys | self._foreign | relation.fixed and all(place not in each for each in self._bundles)
        ]
        self._seen = [{_folded(row, key) for row in relation.rows} for key in relation.unique]
        self._movable = [each for each in relation.references if self._may_move(each)]
        self._depths: dict[Reference, dict[Row, int]] = {}
        self._twins: dict[Row, Row] = {}
        self._twins_of: dict[Reference, dict[Row, Row]] = {}
        self._taken: dict[int, set[Value]] = {}
        self._pools: dict[Reference, list[Row]] = {}
        self._favourites = [rng.choice(column.distinct) if column.distinct else None for column in self.columns]
        self.rows: list[Row] = []
        self.added: list[Row] = []

    def fill(self) -> None:
        old, rng = self.relation.rows, self._rng
        anchors = list(_anchors(old, self.columns))
        held = set(anchors)
        gone = set(self._removed(held))
        kept = [row for number, row in enumerate(old) if number not in gone]
        favoured = [old[number] for number in anchors] or kept
        for number, row in enumerate(old):
            if number not in gone:
                self.rows.append(self._anchored(row) if number in held else self._changed(row))
        wanted = min(max(len(old) if len(old) <= 200 else len(old) // 3, _LEAST_ADDED), _MOST_ADDED)
        for _ in range(wanted if kept else 0):
            self._add(rng.choice(favoured if rng.random() < 0.5 else kept))
        self.rows += self.added
        for place in self._loose:
            self._exchange_names(place)
            self._new_ends(place)
            self._show_edges(place)
        rng.shuffle(self.rows)

    def keys(self, targets: tuple[int, ...]) -> list[Row]:
        """What children may point to: some of the new rows stay without any."""
        lonely = {at(row, targets) for row in self.added[::3]}
        found = {at(row, targets) for row in self.rows}
        return sorted((key for key in found - lonely if None not in key), key=repr)

    def twins(self, targets: tuple[int, ...]) -> dict[Row, Row]:
        """The keys of rows that have a twin, and the twin's."""
        return {at(row, targets): at(twin, targets) for row, twin in self._twins.items()}

    def _exchange_names(self, place: int) -> None:
        """Texts that are each one row's alone go to other rows, and stay so."""
        if not self.columns[place].names:
            return
        chosen = [number for number, row in enumerate(self.rows) if self._is_free(row, place) and self._rng.random() < _RENAMED]
        values = [self.rows[number][place] for number in chosen]
        for number, value in zip(chosen, values[1:] + values[:1], strict=True):
            self._put(number, place, value)

    def _new_ends(self, place: int) -> None:
        """Who has the least and who the greatest changes, and what they are. What was one row's alone stays so."""
        column, rng = self.columns[place], self._rng
        for end in column.ends():
            holders = [number for number, row in enumerate(self.rows) if row[place] == end]
            if not holders or end in column.held:
                continue
            chosen = [number for number, row in enumerate(self.rows) if self._is_free(row, place)]
            if column.counts[end] == 1 and chosen:
                for number in holders:
                    self._put(number, place, column.inner(rng))
                holders = [rng.choice(chosen)]
            value = column.near_end(rng, end)
            for number in holders:
                self._put(number, place, value)

    def _is_free(self, row: Row, place: int) -> bool:
        return row[place] is not None and row[place] not in self.columns[place].held

    def _show_edges(self, place: int) -> None:
        """Each literal within the range is some row's value, as far as there is room."""
        column, rng = self.columns[place], self._rng
        ends = column.ends()
        free = [number for number, row in enumerate(self.rows) if self._is_free(row, place) and row[place] not in ends]
        rng.shuffle(free)
        room = len(free) // 2
        for edge in column.edges[:room]:
            self._put(free.pop(), place, column.at(edge))

    def _put(self, number: int, place: int, value: Value) -> None:
        row = self.rows[number]
        self.rows[number] = (*row[:place], value, *row[place + 1 :])

    # -- rows -------------------------------------------------------------------------------------------------------

    def _removed(self, anchors: set[int]) -> Iterator[int]:
        """Rows that nothing refers to, no anchors, and never many."""
        rows = self.relation.rows
        if len(rows) < 5:
            return
        for number, row in enumerate(rows):
            if number not in anchors and self._rng.random() < _REMOVED and not self._is_needed(row):
                yield number

    def _is_needed(self, row: Row) -> bool:
        """Whether another row refers to it, or it alone holds what a literal names."""
        if any(column.alone(value) for column, value in zip(self.columns, row, strict=True)):
            return True
        return any(at(row, targets) in values for targets, values in self._pointed.items())

    def _anchored(self, row: Row) -> Row:
        """What a literal names stays, and keys; the rest seldom changes."""
        new = self._altered(row, _CHANGED_ANCHOR)
        held = [value in column.held for value, column in zip(row, self.columns, strict=True)]
        if any(held[place] and new[place] != row[place] for bundle in self._bundles for place in bundle):
            return row
        return tuple(old if stays else value for old, value, stays in zip(row, new, held, strict=True))

    def _changed(self, row: Row) -> Row:
        new = self._pointed_elsewhere(row, _MOVED)
        if self._fits(new, row):
            self._note(new)
        else:
            new = row
        return self._emptied(self._altered(new, _CHANGED))

    def _add(self, model: Row) -> None:
        """A twin has only new keys, a near one also one new value, and a far one many."""
        way = self._rng.choices(("twin", "near", "far"), _WAYS)[0]
        for _ in range(_TRIES):
            share = {"twin": 0.0, "near": _MOVED_NEAR, "far": _MOVED_FAR}[way]
            new = self._with_new_keys(self._pointed_elsewhere(model, share))
            if new is not None and self._fits(new):
                self._note(new)
                if way == "twin":
                    self._twins[model] = new
                elif way == "far":
                    new = self._emptied(self._altered(new, _CHANGED_FAR, added=True))
                elif self._loose:
                    place = self._rng.choice(self._loose)
                    new = (*new[:place], self.columns[place].other(self._rng, new[place]), *new[place + 1 :])
                self.added.append(self._renamed(new))
                return

    def _renamed(self, row: Row) -> Row:
        """A name that a literal names, and that one row alone had, stays that row's."""
        new = list(row)
        for place in self._loose:
            column = self.columns[place]
            if column.names and row[place] in column.held:
                new[place] = column.other(self._rng, None)
        return tuple(new)

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
                taken = self._taken.setdefault(free[0], set(self.columns[free[0]].distinct))
                new[free[0]] = value = self.columns[free[0]].unused(self._rng, taken)
                taken.add(value)
                if value is None:
                    return None
                continue
            new = list(self._pointed_elsewhere(tuple(new), 0.7, within=key))
            for place in free:
                new[place] = self.columns[place].other(self._rng, new[place])
        return tuple(new)

    # -- values -----------------------------------------------------------------------------------------------------

    def _altered(self, row: Row, share: float, *, added: bool = False) -> Row:
        """Each non-key value may change; dependent columns change together, to what another row has."""
        new, rng = list(row), self._rng
        for place in self._loose:
            column = self.columns[place]
            if (added or not column.alone(row[place])) and rng.random() < (share / 3 if column.names else share):
                favourite = self._favourites[place] if not column.line and not column.names and rng.random() < 0.4 else None
                new[place] = column.other(rng, row[place]) if favourite is None else favourite
        for bundle in self._bundles:
            if rng.random() < share and (added or not any(self.columns[place].alone(row[place]) for place in bundle)):
                other = rng.choice(self.relation.rows)
                for place in bundle:
                    new[place] = other[place]
        return tuple(new)

    def _emptied(self, row: Row) -> Row:
        new = list(row)
        for place in self._loose:
            column = self.columns[place]
            share = _NULLS if column.missing else 0.0 if column.names else _FIRST_NULLS
            if share and self.relation.nullable[place] and not column.alone(row[place]) and self._rng.random() < share:
                new[place] = None
        return tuple(new)

    def _pointed_elsewhere(self, row: Row, share: float, within: Collection[int] = ()) -> Row:
        """Foreign keys move to other parents, of which the first in a shuffled list are chosen more often."""
        new = list(row)
        for reference in self._movable:
            if within and not set(reference.columns) & set(within):
                continue
            pool = self._pool(reference)
            if pool and None not in at(row, reference.columns) and self._rng.random() < share:
                if (pool := self._lower(reference, row, pool)) == []:
                    continue
                twin = self._twin_of(reference, at(row, reference.columns))
                chosen = twin if twin and self._rng.random() < _TO_TWIN else pool[int(len(pool) * self._rng.random() ** _SKEW)]
                for place, value in zip(reference.columns, chosen, strict=True):
                    new[place] = value
        return tuple(new)

    def _twin_of(self, reference: Reference, key: Row) -> Row | None:
        """Children of one parent are divided between it and its twin."""
        if reference not in self._twins_of:
            parent = self._parents.get(reference.table)
            self._twins_of[reference] = parent.twins(reference.targets) if parent else {}
        return self._twins_of[reference].get(key)

    def _lower(self, reference: Reference, row: Row, pool: list[Row]) -> list[Row]:
        """In a tree, only parents that are nearer to the root, so that it stays one."""
        if reference.table != self.relation.name:
            return pool
        if reference not in self._depths:
            self._depths[reference] = depths(self.relation, reference)
        depth = self._depths[reference]
        own = depth.get(at(row, reference.targets), 0)
        return [key for key in pool if depth.get(key, own) < own]

    def _may_move(self, reference: Reference) -> bool:
        """Not if its columns also belong to another reference or hang on other columns."""
        places = set(reference.columns)
        others = [each.columns for each in self.relation.references if each is not reference]
        if any(each is not reference and each.table == reference.table for each in self.relation.references):
            return not places & self.relation.fixed and not without_circles(self.relation, reference.table)
        return not any(places & set(each) for each in [*others, *self._bundles, self.relation.fixed])

    def _pool(self, reference: Reference) -> list[Row]:
        if reference not in self._pools:
            parent = self._parents.get(reference.table)
            if parent is None:  # itself, or one in a circle: what it held before
                pool = sorted({at(row, reference.columns) for row in self.relation.rows}, key=repr)
                pool = [key for key in pool if None not in key]
            else:
                pool = parent.keys(reference.targets)
            self._rng.shuffle(pool)
            self._pools[reference] = pool
        return self._pools[reference]


def _folded(row: Row, places: Sequence[int]) -> Row:
    """As a key is compared where neither case nor accents count."""
    return tuple([_bare(row[place]) for place in places])


def _bare(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    text = value.casefold().rstrip()
    return text if text.isascii() else "".join(one for one in normalize("NFKD", text) if not combining(one))


def _anchors(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[int]:
    """For each value that a literal names one row, those first that hold many of them."""
    wanted = [{*column.held} for column in columns]
    places = [place for place, held in enumerate(wanted) if held]
    counted = sorted((-sum(row[place] in wanted[place] for place in places), number) for number, row in enumerate(rows))
    room = max(1, len(rows) // 3)
    for _, number in counted:
        fresh = [place for place in places if rows[number][place] in wanted[place]]
        for place in fresh:
            wanted[place].discard(rows[number][place])
        if fresh and room:
            room -= 1
            yield number
