"""Variant data: the same schema with other rows, which expose a query that is right only by
accident.

Based on test-suite accuracy (Zhong, Yu and Klein, EMNLP 2020), which executes a query on several
generated databases.

    Engine ──► relations and rows, read as the grader ──► TablePerturber
           ──► CREATE, INSERT, views ──► Databases

    old rows ── drop some unreferenced rows ──► values change (columns.py), foreign keys move to
       │                                        other parents, unevenly
       └─ doubles (only new keys), near variants (one value changed), far variants (many)
          ──► added, some without children

Preserved: primary and unique keys, foreign keys (relations.py), trees, columns that determine each
other, and each value that appears as a literal, in a row that keeps its keys. A label that appears
as a literal and in only one row stays unique. Changed: the rows that meet a condition, ties,
counts, sums, order, rows without a join partner.

Everything is read through `run_gold`, so an agent's changes do not count. From a table with more
than 20,000 rows, only the first 20,000 and rows that contain a literal are read. Left out:
triggers, stored routines and events, SQLite's virtual tables, constraints between tables or rows
other than keys (a total that equals the sum of its parts), and conditions in golds beyond their
literals. An empty table stays empty; a key at the end of its type's range (127 in a TINYINT) gets
no new rows.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, filterfalse
from operator import contains
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import combining, normalize

from intercode.envs.sql import dialect, text
from intercode.envs.sql.engines import Databases, Engine
from intercode.envs.sql.variants import columns, relations
from intercode.envs.sql.variants.columns import Column, Literal
from intercode.envs.sql.variants.relations import Reference, Relation, Row, keys_of, pick
from intercode_sandbox import cache
from intercode_sandbox.template import hash_of

# Shares, chosen by experiment: the data then expose most wrong queries, and few golds return no
# rows.
_CHANGED, _CHANGED_NAMED, _CHANGED_FAR = 0.35, 0.5, 0.5
"""Share of non-key values changed in an old row, a named row (except the named values), and a far
variant."""
_MOVED = 0.5
_MOVED_NEW = {"double": 0.0, "near": 0.3, "far": 0.5}
"""Share of foreign keys moved in an old row, and in each kind of new rows."""
_SKEW = 3
"""The unevenness with which parents are chosen; 1 would be even."""
_TO_DOUBLE = 0.3
"""The chance that the double of the old parent is chosen."""
_WAYS = (0.25, 0.5, 0.25)
"""Shares of new rows that are doubles, near variants, and far variants."""
_REMOVED = 0.12
_NULLS, _FIRST_NULLS = 0.06, 0.02
"""Share of new NULLs in columns that already contain NULL, and in other columns."""
_LEAST_ADDED = 6
_MOST_ADDED = 900
_TRIES = 8


def variant_databases(
    engine: Engine,
    content: Databases,
    literals: Mapping[str, Collection[Literal]],
    *,
    seed: int = 0,
) -> Databases:
    """Return variant data for `content`, which the engine has loaded; made once, then read from the
    cache.

    The cache key covers the content, the literals, the seed, and the code that makes the data.
    """
    named = sorted((name, sorted(map(repr, words))) for name, words in literals.items())
    engines = [kind for kind in type(engine).__mro__ if issubclass(kind, Engine)]
    parts: list[Any] = [*engines, TablePerturber, text, dialect, columns, relations]
    code = [Path(file).read_text("utf-8") for file in sorted({*map(inspect.getfile, parts)})]
    facts = engine.facts()
    key = json.dumps(
        [facts["engine"], facts.get("version"), content.digest, named, seed, code], default=str
    )

    def build(folder: Path) -> None:
        scripts = variant_contents(engine, literals, seed=seed).scripts
        (folder / "variant.json").write_text(json.dumps(scripts), "ascii")

    folder = cache.folder("variant", hash_of(key), build)
    scripts = json.loads((folder / "variant.json").read_text("ascii"))
    return Databases.of_scripts(engine.loads[0], scripts)


def variant_contents(
    engine: Engine, literals: Mapping[str, Collection[Literal]], *, seed: int = 0
) -> Databases:
    """Make variant data for every database of the engine, to be loaded by an engine of the same
    kind.

    `literals`: by database, the values that golds name; these values are preserved. Raises
    `DataError` for a table that cannot be read.
    """
    scripts = {}
    for db in engine.databases:
        named = literals.get(db, ())
        tables, before, after = relations.read_schema(engine, db, named)
        rows = perturb_tables(tables, named, f"{seed}\0{db.lower()}")
        scripts[db] = [*before, *relations.write_rows(engine.dialect, tables, rows), *after]
    return Databases.of_scripts(engine.loads[0], scripts)


def perturb_tables(
    tables: Sequence[Relation], literals: Collection[Literal], seed: str
) -> dict[str, list[Row]]:
    """Return new rows for each table. A pure function: equal arguments give equal rows."""
    tables = relations.with_implied(tables)
    referenced = relations.referenced_keys(tables)
    perturbers: dict[str, TablePerturber] = {}
    for relation in relations.parents_first(tables):
        name = relation.name
        rng = Random(f"{seed}\0{name}")
        table = TablePerturber(relation, literals, referenced[name], perturbers, rng)
        table.fill()
        perturbers[name] = table
    return {relation.name: perturbers[relation.name].rows for relation in tables}


class TablePerturber:
    """Make new `rows` for one table, after its `parents`. `referenced`: the values of its keys to
    which other rows refer."""

    def __init__(
        self,
        relation: Relation,
        literals: Collection[Literal],
        referenced: Mapping[tuple[int, ...], set[Row]],
        parents: Mapping[str, TablePerturber],
        rng: Random,
    ) -> None:
        self.relation, self._rng, self._parents = relation, rng, parents
        self._referenced = referenced
        self.columns = [Column(values, literals) for values in relations.transpose(relation)]
        keys = {*chain(*relation.unique)}
        self._bundles = relations.bundles(relation, keys)
        self._bundled = {*chain(*self._bundles)}
        self._bound = {*relation.fixed}
        for reference in relation.references:
            self._bound.update(reference.columns)
        bound = self._bound | keys | self._bundled
        self._loose = [index for index in range(len(relation.columns)) if index not in bound]
        self._used_keys = [{_folded(row, key) for row in relation.rows} for key in relation.unique]
        self._movable = [*filter(self._may_move, relation.references)]
        self._depths = {}
        for reference in self._movable:
            if reference.table == relation.name:
                self._depths[reference] = relations.depths(relation, reference)
        self._doubles: dict[Row, Row] = {}
        self._pools: dict[Reference, tuple[list[Row], dict[Row, Row]]] = {}
        self._favourites = []
        for column in self.columns:
            self._favourites.append(rng.choice(column.distinct) if column.distinct else None)
        self.rows: list[Row] = []
        self.added: list[Row] = []

    def fill(self) -> None:
        old = self.relation.rows
        rng = self._rng
        named, removed, remaining = self._named_rows(), set(), []
        for number, row in enumerate(old):
            if len(old) > 4 and number not in named and self._is_removed(row):
                removed.add(number)
            else:
                remaining.append(row)
        favoured = [old[number] for number in named] or remaining
        for number, row in enumerate(old):
            if number in named:
                self.rows.append(self._change_named(row))
            elif number not in removed:
                new = self._move(row, _MOVED)
                if not self._take_keys(new, row):
                    new = row
                self.rows.append(self._empty(self._alter(new, _CHANGED)))
        count = len(old) if len(old) <= 200 else len(old) // 3
        for _ in range(min(max(count, _LEAST_ADDED), _MOST_ADDED) if remaining else 0):
            self._add(rng.choice(favoured if rng.random() < 0.5 else remaining))
        self.rows += self.added
        rng.shuffle(self.rows)

    # -- rows --------------------------------------------------------------------------------------

    def _named_rows(self) -> dict[int, None]:
        """Choose one row for each value that a literal names; rows with many such values come
        first."""
        rows = self.relation.rows
        uncovered = [{*column.named} for column in self.columns]
        chosen: dict[int, None] = {}
        for number in sorted(
            range(len(rows)), key=lambda number: -sum(map(contains, uncovered, rows[number]))
        ):
            names = False
            for value, values in zip(rows[number], uncovered, strict=True):
                if value in values:
                    values.remove(value)
                    names = True
            if names and len(chosen) < max(1, len(rows) // 3):
                chosen[number] = None
        return chosen

    def _is_removed(self, row: Row) -> bool:
        """Decide at random whether to remove a row. Rows that others refer to, and the only row
        with a literal, are kept."""
        if self._rng.random() >= _REMOVED or any(map(Column.is_named_once, self.columns, row)):
            return False
        return all(pick(row, targets) not in keys for targets, keys in self._referenced.items())

    def _change_named(self, row: Row) -> Row:
        """Change a named row: named values and keys are kept, other values change less often."""
        new = [*self._alter(row, _CHANGED_NAMED)]
        for index, column in enumerate(self.columns):
            if row[index] in column.named:
                if new[index] != row[index] and index in self._bundled:
                    return row
                new[index] = row[index]
        return tuple(new)

    def _add(self, model: Row) -> None:
        """Add a double, in which only keys are new, a near variant with one more new value, or a
        far variant with many."""
        way = self._rng.choices([*_MOVED_NEW], _WAYS)[0]
        for _ in range(_TRIES):
            row = self._with_new_keys(self._move(model, _MOVED_NEW[way]))
            if row is None or not self._take_keys(row):
                continue
            if way == "double":
                self._doubles[model] = row
            elif way == "far":
                row = self._empty(self._alter(row, _CHANGED_FAR, added=True))
            new = [*row]
            if way == "near" and self._loose:
                index = self._rng.choice(self._loose)
                new[index] = self.columns[index].other(self._rng, row[index])
            for index in self._loose:  # a named label that is unique stays unique
                column = self.columns[index]
                if column.labels and new[index] in column.named:
                    new[index] = column.other(self._rng, None)
            self.added.append(tuple(new))
            return

    def _take_keys(self, row: Row, old: Row = ()) -> bool:
        """Mark the row's keys as used if all are free or unchanged from the old row; return whether
        they are."""
        keys = [_folded(row, key) for key in self.relation.unique]
        for key, indexes, used in zip(keys, self.relation.unique, self._used_keys, strict=True):
            if key in used and None not in key and not (old and key == _folded(old, indexes)):
                return False
        for key, used in zip(keys, self._used_keys, strict=True):
            used.add(key)
        return True

    def _with_new_keys(self, row: Row) -> Row | None:
        """Give each one-column key a value that never occurred, and each longer key another
        combination; None if no value was found."""
        new = [*row]
        for key in self.relation.unique:
            free = [index for index in key if index not in self._bound]
            if free and len(key) == 1:
                new[free[0]] = value = self.columns[free[0]].unused(self._rng)
                if value is None:
                    return None
                continue
            new = [*self._move(tuple(new), 0.7, within=key)]
            for index in free:
                new[index] = self.columns[index].other(self._rng, new[index])
        return tuple(new)

    # -- values ------------------------------------------------------------------------------------

    def _alter(self, row: Row, share: float, *, added: bool = False) -> Row:
        """Change a share of the non-key values. Dependent columns change together, to the values in
        another row."""
        new = [*row]
        rng = self._rng
        for index in self._loose:
            column = self.columns[index]
            if column.is_named_once(row[index]) and not added:
                continue
            if rng.random() >= (share / 3 if column.labels else share):
                continue
            new[index] = self._favourites[index]
            if column.scale or column.labels or rng.random() >= 0.4 or new[index] is None:
                new[index] = column.other(rng, row[index])
        for bundle in self._bundles:
            if rng.random() < share and (
                added or not any(self.columns[index].is_named_once(row[index]) for index in bundle)
            ):
                other = rng.choice(self.relation.rows)
                for index in bundle:
                    new[index] = other[index]
        return tuple(new)

    def _empty(self, row: Row) -> Row:
        """Replace some values with NULL, but not those of labels without NULL."""
        new = [*row]
        for index in self._loose:
            column = self.columns[index]
            if (
                self.relation.nullable[index]
                and (column.missing or not column.labels)
                and not column.is_named_once(row[index])
                and self._rng.random() < (_NULLS if column.missing else _FIRST_NULLS)
            ):
                new[index] = None
        return tuple(new)

    def _move(self, row: Row, share: float, within: Collection[int] = ()) -> Row:
        """Move a share of the foreign keys to other parents. Parents early in a shuffled list are
        chosen more often."""
        new = [*row]
        for reference in self._movable:
            if within and {*within}.isdisjoint(reference.columns):
                continue
            pool, doubles = self._pool(reference)
            old = pick(row, reference.columns)
            if not pool or None in old or self._rng.random() >= share:
                continue
            # a tree remains a tree if new parents are nearer to the root
            depth = self._depths.get(reference)
            if depth is not None:
                row_depth = depth.get(pick(row, reference.targets), 0)
                pool = [key for key in pool if depth.get(key, row_depth) < row_depth]
                if not pool:
                    continue
            chosen = doubles.get(old)  # children are split between the double and the parent
            if chosen is None or self._rng.random() >= _TO_DOUBLE:
                chosen = pool[int(len(pool) * self._rng.random() ** _SKEW)]
            for index, value in zip(reference.columns, chosen, strict=True):
                new[index] = value
        return tuple(new)

    def _may_move(self, reference: Reference) -> bool:
        """Return whether a reference is the only one to its table, and shares no column with other
        references, bundles or fixed columns."""
        bound = {*self._bundled, *self.relation.fixed}
        for other in self.relation.references:
            if other is not reference:
                bound.update(other.columns)
                if other.table == reference.table:
                    return False
        return bound.isdisjoint(reference.columns)

    def _pool(self, reference: Reference) -> tuple[list[Row], dict[Row, Row]]:
        """Return the parents' keys, shuffled once, and the doubles' keys by their parent's key."""
        if reference in self._pools:
            return self._pools[reference]
        parent, targets, doubles = self._parents.get(reference.table), reference.targets, {}
        if parent is None:  # the table itself, or one in a cycle: use the old keys
            keys = keys_of(self.relation.rows, reference.columns)
        else:
            # some of the new rows get no children
            keys = keys_of(parent.rows, targets) - keys_of(parent.added[::3], targets)
            for row, double in parent._doubles.items():
                doubles[pick(row, targets)] = pick(double, targets)
        pool = sorted((key for key in keys if None not in key), key=repr)
        self._rng.shuffle(pool)
        self._pools[reference] = pool, doubles
        return pool, doubles


def _folded(row: Row, indexes: Sequence[int]) -> Row:
    """Return a key in the form in which case and accents do not count."""
    folded: list[object] = []
    for value in pick(row, indexes):
        if isinstance(value, str):
            value = value.casefold().rstrip()
            if not value.isascii():
                value = "".join(filterfalse(combining, normalize("NFKD", value)))
        folded.append(value)
    return tuple(folded)
