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

import hashlib
import inspect
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from unicodedata import combining, normalize

from intercode.envs.sql import dialect, text
from intercode.envs.sql.engines import Databases, Engine
from intercode.envs.sql.variants import columns, relations
from intercode.envs.sql.variants.columns import Column, Literal
from intercode.envs.sql.variants.relations import Reference, Relation, Row, pick
from intercode_sandbox import cache

# Shares, chosen by experiment: the data then expose most wrong queries, and few golds return no
# rows.
_CHANGED, _CHANGED_NAMED, _CHANGED_FAR = 0.35, 0.5, 0.5
"""Share of non-key values changed in an old row, a named row (except the named values), and a far
variant."""
_MOVED, _MOVED_NEAR, _MOVED_FAR = 0.5, 0.3, 0.5
"""Share of foreign keys moved in an old row, a near variant, and a far variant."""
_SKEW, _TO_DOUBLE = 3, 0.3
"""How unevenly parents are chosen (1 would be even), and how often the old parent's double is."""
_WAYS = (0.25, 0.5, 0.25)
"""Shares of new rows that are doubles, near variants, and far variants."""
_REMOVED = 0.12
_NULLS, _FIRST_NULLS = 0.06, 0.02
"""Share of new NULLs in columns that already contain NULL, and in other columns."""
_LEAST_ADDED, _MOST_ADDED = 6, 900
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
    files = {inspect.getfile(kind) for kind in engines}
    files |= {str(module.__file__) for module in (text, dialect, columns, relations)}
    code = [Path(file).read_text("utf-8") for file in (*sorted(files), __file__)]
    facts = engine.facts()
    key = json.dumps(
        [facts["engine"], facts.get("version"), content.digest, named, seed, code], default=str
    )

    def build(folder: Path) -> None:
        variant = variant_contents(engine, literals, seed=seed)
        (folder / "variant.json").write_text(json.dumps(variant.scripts), "ascii")

    folder = cache.folder("variant", hashlib.sha256(key.encode()).hexdigest()[:32], build)
    return _databases(engine, json.loads((folder / "variant.json").read_text("ascii")))


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
        statements = (*before, *relations.write_rows(engine.dialect, tables, rows), *after)
        scripts[db] = [*statements]
    return _databases(engine, scripts)


def _databases(engine: Engine, scripts: Mapping[str, Sequence[str]]) -> Databases:
    return Databases.of_scripts(engine.loads[0], scripts)


def perturb_tables(
    tables: Sequence[Relation], literals: Collection[Literal], seed: str
) -> dict[str, list[Row]]:
    """Return new rows for each table. A pure function: equal arguments give equal rows."""
    tables = relations.with_implied(tables)
    referenced = relations.referenced_keys(tables)
    done: dict[str, TablePerturber] = {}
    for relation in relations.parents_first(tables):
        table = TablePerturber(
            relation, literals, referenced[relation.name], done, Random(f"{seed}\0{relation.name}")
        )
        table.fill()
        done[relation.name] = table
    return {relation.name: done[relation.name].rows for relation in tables}


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
        self._keys = {index for key in relation.unique for index in key}
        self._foreign = {index for reference in relation.references for index in reference.columns}
        self._bundles = relations.bundles(relation, self._keys)
        bound = (
            self._keys
            | self._foreign
            | relation.fixed
            | {index for bundle in self._bundles for index in bundle}
        )
        self._loose = [index for index in range(len(relation.columns)) if index not in bound]
        self._used_keys = [{_folded(row, key) for row in relation.rows} for key in relation.unique]
        self._movable = [ref for ref in relation.references if self._may_move(ref)]
        recursive = (ref for ref in self._movable if ref.table == relation.name)
        self._depths = {ref: relations.depths(relation, ref) for ref in recursive}
        self._doubles: dict[Row, Row] = {}
        self._pools: dict[Reference, tuple[list[Row], dict[Row, Row]]] = {}
        self._favourites = [
            rng.choice(column.distinct) if column.distinct else None for column in self.columns
        ]
        self.rows: list[Row] = []
        self.added: list[Row] = []

    def fill(self) -> None:
        old, rng = self.relation.rows, self._rng
        named = self._named_rows()
        removable = (
            [number for number in range(len(old)) if number not in named] if len(old) > 4 else []
        )
        removed = {number for number in removable if self._is_removed(old[number])}
        remaining = [row for number, row in enumerate(old) if number not in removed]
        favoured = [old[number] for number in named] or remaining
        for number, row in enumerate(old):
            if number in named:
                self.rows.append(self._change_named(row))
            elif number not in removed:
                new = self._move(row, _MOVED)
                self.rows.append(
                    self._empty(self._alter(new if self._take_keys(new, row) else row, _CHANGED))
                )
        count = min(max(len(old) if len(old) <= 200 else len(old) // 3, _LEAST_ADDED), _MOST_ADDED)
        for _ in range(count if remaining else 0):
            self._add(rng.choice(favoured if rng.random() < 0.5 else remaining))
        self.rows += self.added
        rng.shuffle(self.rows)

    # -- rows --------------------------------------------------------------------------------------

    def _named_rows(self) -> dict[int, None]:
        """Choose one row for each value that a literal names; rows with many such values come
        first."""
        rows, uncovered = self.relation.rows, [{*column.named} for column in self.columns]
        indexes = [index for index, named in enumerate(uncovered) if named]
        ranked = sorted(
            (-sum(row[index] in uncovered[index] for index in indexes), number)
            for number, row in enumerate(rows)
        )
        chosen: dict[int, None] = {}
        for _, number in ranked:
            fresh = [index for index in indexes if rows[number][index] in uncovered[index]]
            for index in fresh:
                uncovered[index].discard(rows[number][index])
            if fresh and len(chosen) < max(1, len(rows) // 3):
                chosen[number] = None
        return chosen

    def _is_removed(self, row: Row) -> bool:
        """Decide at random whether to remove a row. Rows that others refer to, and the only row
        with a literal, are kept."""
        if self._rng.random() >= _REMOVED:
            return False
        needed = any(
            column.is_named_once(value) for column, value in zip(self.columns, row, strict=True)
        )
        return not needed and not any(
            pick(row, targets) in values for targets, values in self._referenced.items()
        )

    def _change_named(self, row: Row) -> Row:
        """Change a named row: named values and keys are kept, other values change less often."""
        new = self._alter(row, _CHANGED_NAMED)
        named = [value in column.named for value, column in zip(row, self.columns, strict=True)]
        if any(
            named[index] and new[index] != row[index]
            for bundle in self._bundles
            for index in bundle
        ):
            return row
        return tuple(
            old if stays else value for old, value, stays in zip(row, new, named, strict=True)
        )

    def _add(self, model: Row) -> None:
        """Add a double, in which only keys are new, a near variant with one more new value, or a
        far variant with many."""
        way = self._rng.choices(("double", "near", "far"), _WAYS)[0]
        for _ in range(_TRIES):
            share = {"double": 0.0, "near": _MOVED_NEAR, "far": _MOVED_FAR}[way]
            new = self._with_new_keys(self._move(model, share))
            if new is not None and self._take_keys(new):
                if way == "double":
                    self._doubles[model] = new
                elif way == "far":
                    new = self._empty(self._alter(new, _CHANGED_FAR, added=True))
                elif self._loose:
                    index = self._rng.choice(self._loose)
                    new = (
                        *new[:index],
                        self.columns[index].other(self._rng, new[index]),
                        *new[index + 1 :],
                    )
                relabelled = list(new)  # a named label that is unique stays unique
                for index in self._loose:
                    column = self.columns[index]
                    if column.labels and new[index] in column.named:
                        relabelled[index] = column.other(self._rng, None)
                self.added.append(tuple(relabelled))
                return

    def _take_keys(self, row: Row, old: Row = ()) -> bool:
        """Mark the row's keys as used if all are free or unchanged from the old row; return whether
        they are."""
        keys = [_folded(row, key) for key in self.relation.unique]
        olds = [_folded(old, key) if old else None for key in self.relation.unique]
        free = all(
            new == was or None in new or new not in used
            for new, was, used in zip(keys, olds, self._used_keys, strict=True)
        )
        for key, used in zip(keys if free else (), self._used_keys, strict=False):
            used.add(key)
        return free

    def _with_new_keys(self, row: Row) -> Row | None:
        """Give each one-column key a value that never occurred, and each longer key another
        combination; None if no value was found."""
        new = list(row)
        for key in self.relation.unique:
            free = [index for index in key if index not in self._foreign | self.relation.fixed]
            if free and len(key) == 1:
                new[free[0]] = value = self.columns[free[0]].unused(self._rng)
                if value is None:
                    return None
                continue
            new = list(self._move(tuple(new), 0.7, within=key))
            for index in free:
                new[index] = self.columns[index].other(self._rng, new[index])
        return tuple(new)

    # -- values ------------------------------------------------------------------------------------

    def _alter(self, row: Row, share: float, *, added: bool = False) -> Row:
        """Change a share of the non-key values. Dependent columns change together, to the values in
        another row."""
        new, rng = list(row), self._rng
        for index in self._loose:
            column = self.columns[index]
            if (added or not column.is_named_once(row[index])) and rng.random() < (
                share / 3 if column.labels else share
            ):
                favourite = (
                    self._favourites[index]
                    if not column.scale and not column.labels and rng.random() < 0.4
                    else None
                )
                new[index] = column.other(rng, row[index]) if favourite is None else favourite
        for bundle in self._bundles:
            if rng.random() < share and (
                added or not any(self.columns[index].is_named_once(row[index]) for index in bundle)
            ):
                other = rng.choice(self.relation.rows)
                for index in bundle:
                    new[index] = other[index]
        return tuple(new)

    def _empty(self, row: Row) -> Row:
        """Replace some values with NULL."""
        new = list(row)
        for index in self._loose:
            column = self.columns[index]
            share = _NULLS if column.missing else 0.0 if column.labels else _FIRST_NULLS
            if (
                share
                and self.relation.nullable[index]
                and not column.is_named_once(row[index])
                and self._rng.random() < share
            ):
                new[index] = None
        return tuple(new)

    def _move(self, row: Row, share: float, within: Collection[int] = ()) -> Row:
        """Move a share of the foreign keys to other parents. Parents early in a shuffled list are
        chosen more often."""
        new = list(row)
        for reference in self._movable:
            if within and not set(reference.columns) & set(within):
                continue
            (pool, doubles), old = self._pool(reference), pick(row, reference.columns)
            if pool and None not in old and self._rng.random() < share:
                # a tree remains a tree if new parents are nearer to the root
                if reference in self._depths:
                    depth = self._depths[reference]
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
        others = [ref for ref in self.relation.references if ref is not reference]
        bound = [*(ref.columns for ref in others), *self._bundles, self.relation.fixed]
        alone = reference.table not in {ref.table for ref in others}
        return alone and not any(set(reference.columns) & set(columns) for columns in bound)

    def _pool(self, reference: Reference) -> tuple[list[Row], dict[Row, Row]]:
        """Return the parents' keys, shuffled once, and the doubles' keys by their parent's key."""
        if reference not in self._pools:
            parent, targets = self._parents.get(reference.table), reference.targets
            if parent is None:  # the table itself, or one in a cycle: use the old keys
                keys, doubles = {pick(row, reference.columns) for row in self.relation.rows}, {}
            else:
                keys = {pick(row, targets) for row in parent.rows}
                # some of the new rows get no children
                keys -= {pick(row, targets) for row in parent.added[::3]}
                doubles = {
                    pick(row, targets): pick(double, targets)
                    for row, double in parent._doubles.items()
                }
            pool = sorted((key for key in keys if None not in key), key=repr)
            self._rng.shuffle(pool)
            self._pools[reference] = pool, doubles
        return self._pools[reference]


def _folded(row: Row, indexes: Sequence[int]) -> Row:
    """Return a key in the form in which case and accents do not count."""
    folded = [
        value.casefold().rstrip() if isinstance(value, str) else value
        for value in pick(row, indexes)
    ]
    for place, value in enumerate(folded):
        if isinstance(value, str) and not value.isascii():
            folded[place] = "".join(
                letter for letter in normalize("NFKD", value) if not combining(letter)
            )
    return tuple(folded)
