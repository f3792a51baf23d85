"""A database as relations: reading it from an engine, writing it with other rows, and finding the
dependencies between columns.

    Engine ──► Dialect.columns, keys, references ──► Relation ──► other rows ──► INSERT
       └─────► Dialect.creation ──► statements before and after the rows

    declared references ─┐
    all values of a column are keys of another table ──┴─► parents first, trees and their depths
    values of a column determine the values of another ──► bundles of columns, which only change
                                                           together

Nothing is translated: the statements are for an engine of the same kind, and keep its checks,
defaults, keys and views. Generated columns are not read, so the server computes them again.
Dependencies are inferred from the rows, preferably too many: a false dependency makes the data
expose slightly fewer queries, while a missed one makes them meaningless.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from typing import Any

from intercode.envs.sql.dialect import Dialect
from intercode.envs.sql.engines import Engine
from intercode.envs.sql.variants.columns import Literal, plain

Row = tuple[object, ...]
Indexes = tuple[int, ...]
"""Columns."""

_MOST = 20_000
_MOST_NAMED = 500
_BATCH = 250
_SECONDS = 600.0
_SAMPLE = 2000
"""The number of rows that are searched for dependent columns."""
_CHANCE = 1e-3
"""Columns are dependent if the probability that they agree by chance is below this."""
_CHECKS = re.compile(r"\bCHECK\s*\(.*", re.I | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns that refer to the columns `targets` in another table, all by index."""

    columns: Indexes
    table: str
    targets: Indexes


@dataclass(frozen=True, slots=True)
class Relation:
    """A table. `unique`: its keys, by index. `fixed`: columns with values that stay in their row,
    since a CHECK names the columns."""

    name: str
    columns: tuple[str, ...]
    nullable: tuple[bool, ...]
    unique: tuple[Indexes, ...]
    references: tuple[Reference, ...]
    rows: tuple[Row, ...]
    fixed: frozenset[int] = frozenset()


def pick(row: Row, indexes: Sequence[int]) -> Row:
    return tuple([row[index] for index in indexes])


def keys_of(rows: Iterable[Row], indexes: Sequence[int]) -> set[Row]:
    return {pick(row, indexes) for row in rows}


def transpose(relation: Relation) -> list[Row]:
    return list(zip(*relation.rows, strict=True)) or [()] * len(relation.columns)


# -- reading ---------------------------------------------------------------------------------------


def read_schema(
    engine: Engine, db: str, literals: Collection[Literal]
) -> tuple[list[Relation], list[str], list[str]]:
    """Return the tables with keys and rows, and the statements to execute before the rows (which
    create the tables) and after them.

    A large table is read only in part. Raises `DataError` for a table that cannot be read.
    """

    def query(statement: str) -> tuple[Row, ...]:
        return engine.table(db, statement, seconds=_SECONDS).rows

    dialect = engine.dialect
    columns = _grouped(query(dialect.columns))
    keys = _grouped(query(dialect.keys))
    foreign = _grouped(query(dialect.references))
    creates, before, after = dialect.creation(query, db)
    names = {table.lower(): table for table in creates}
    places = defaultdict[str, dict[str, int]](dict)
    for table in creates:
        for place, (name, *_) in enumerate(columns[table]):
            places[table.lower()][str(name).lower()] = place

    def indexes(table: object, rows: Iterable[Row], part: int) -> Indexes:
        """Return the indexes of the columns that each row names in this part; () if a name is not a
        column that is read."""
        with contextlib.suppress(KeyError):
            return tuple([places[str(table).lower()][str(row[part]).lower()] for row in rows])
        return ()

    relations = []
    for table, create in creates.items():
        # the words in and after CHECK clauses, which include the columns that they name
        words = re.findall(r"[^\W\d]\w*", "".join(_CHECKS.findall(create)).lower())
        unique = (indexes(table, rows, 0) for rows in _grouped(keys[table]).values())
        references = []
        for rows in _grouped(foreign[table]).values():
            parent = str(rows[0][0])
            children = indexes(table, rows, 1)
            targets = indexes(parent, rows, 2)
            if children and targets:
                references.append(Reference(children, names[parent.lower()], targets))
        titles, nullable, *_ = [*zip(*columns[table], strict=True)] or [(), ()]
        titles = tuple(map(str, titles))
        relations.append(
            Relation(
                table,
                titles,
                tuple(map(bool, nullable)),
                tuple(dict.fromkeys(filter(None, unique))),
                tuple(references),
                tuple(_rows(engine, db, table, titles, literals)),
                frozenset(place for name, place in places[table.lower()].items() if name in words),
            )
        )
    return relations, before, after


def _rows(
    engine: Engine, db: str, table: str, columns: Sequence[str], literals: Collection[Literal]
) -> Sequence[Row]:
    """Return all rows; for a large table the first rows, and those that contain a literal."""
    if not columns:
        return ()
    dialect = engine.dialect
    names = [dialect.quote(name) for name in columns]
    select = f"SELECT {', '.join(names)} FROM {dialect.quote(table)}"
    first = engine.table(db, f"{select} LIMIT {_MOST + 1}", seconds=_SECONDS)
    texts = ", ".join(
        sorted(dialect.write(value) for value in literals if isinstance(plain(value), str))
    )
    if not texts or (len(first.rows) <= _MOST and not first.cut):
        return first.rows[:_MOST]
    where = " OR ".join(f"{name} IN ({texts})" for name in names)
    named = engine.table(db, f"{select} WHERE {where} LIMIT {_MOST_NAMED}", seconds=_SECONDS)
    return list(dict.fromkeys([*first.rows[:_MOST], *named.rows]))


def _grouped(rows: Iterable[Row]) -> dict[object, list[Row]]:
    """Group rows by their first value, which is removed from them."""
    groups = defaultdict(list)
    for first, *rest in rows:
        groups[first].append(tuple(rest))
    return groups


# -- writing ---------------------------------------------------------------------------------------


def write_rows(
    dialect: Dialect, relations: Sequence[Relation], rows: Mapping[str, Sequence[Row]]
) -> Iterator[str]:
    """Yield INSERT statements. The server ignores a row with a new key that equals an old key in
    the column's collation."""
    for relation in relations:
        columns = ", ".join(map(dialect.quote, relation.columns))
        begin = f"{dialect.insert} INTO {dialect.quote(relation.name)} ({columns}) VALUES\n"
        lines = [f"({', '.join(map(dialect.write, row))})" for row in rows[relation.name]]
        for first in range(0, len(lines), _BATCH):
            yield begin + ",\n".join(lines[first : first + _BATCH])


# -- references ------------------------------------------------------------------------------------


def with_implied(relations: Sequence[Relation]) -> list[Relation]:
    """Return the relations with undeclared references added: all values of a column are in a key of
    another table, and this is hardly accidental, since they are texts or the names agree."""
    single = []
    for relation in relations:
        for key in relation.unique:
            if len(key) == 1:
                texts = {str(row[key[0]]).casefold() for row in relation.rows}
                single.append((relation, key[0], texts))
    extended = []
    for relation in relations:
        references = [*relation.references]
        bound = {*relation.fixed}
        for reference in references:
            bound.update(reference.columns)
        for index, values in enumerate(transpose(relation)):
            present = {value for value in values if value is not None}
            if index in bound or (index,) in relation.unique or len(present) < 2:
                continue
            texts = {str(value).casefold() for value in present}
            for parent, target, keys in single:
                if (
                    parent is not relation
                    and texts <= keys
                    and _may_refer(relation.columns[index], present, parent, target)
                ):
                    references.append(Reference((index,), parent.name, (target,)))
                    break
        extended.append(replace(relation, references=tuple(references)))
    return extended


def _may_refer(name: str, values: set[object], parent: Relation, target: int) -> bool:
    kinds = {*map(type, values), *(type(row[target]) for row in parent.rows)}
    if kinds == {str} and not all(str(value).isdigit() for value in values):
        return True
    name, other, table = (
        text.casefold().replace("_", "") for text in (name, parent.columns[target], parent.name)
    )
    return (
        name == other
        or name.removesuffix("id") in (table, table.removesuffix("s"))
        or (other != "id" and other in name)
    )


def referenced_keys(relations: Sequence[Relation]) -> dict[str, dict[Indexes, set[Row]]]:
    """Return, by table, the key values to which other rows refer."""
    keys: dict[str, dict[Indexes, set[Row]]] = {
        relation.name: defaultdict(set) for relation in relations
    }
    for relation in relations:
        for reference in relation.references:
            if reference.table in keys:
                referenced = keys_of(relation.rows, reference.columns)
                keys[reference.table][reference.targets] |= referenced
    return keys


def parents_first(relations: Sequence[Relation]) -> list[Relation]:
    """Return each relation after those that it refers to, except in cycles."""
    by_name = {relation.name: relation for relation in relations}
    parents = {}
    for name, relation in by_name.items():
        parents[name] = {reference.table for reference in relation.references} - {name}
    return [by_name[name] for name in dict.fromkeys([*_sorted(parents), *by_name])]


def depths(relation: Relation, reference: Reference) -> dict[Row, int]:
    """Return the distance of each row from the root of its tree; rows in a cycle are left out."""
    parent = {pick(row, reference.targets): pick(row, reference.columns) for row in relation.rows}
    levels: dict[Row, int] = {}
    for key in _sorted({key: {up} & parent.keys() for key, up in parent.items()}):
        levels[key] = levels.get(parent[key], -1) + 1
    return levels


def _sorted(graph: Mapping[Any, Iterable[Any]]) -> Iterator[Any]:
    """Yield each node after the nodes that it leads to, without nodes that lead to a cycle."""
    nodes = TopologicalSorter(graph)
    with contextlib.suppress(CycleError):  # the other nodes are still sorted
        nodes.prepare()
    while ready := nodes.get_ready():
        yield from ready
        nodes.done(*ready)


# -- columns ---------------------------------------------------------------------------------------


def bundles(relation: Relation, keys: set[int]) -> list[Indexes]:
    """Return groups of columns that determine one another in more rows than chance explains. They
    only change together."""
    rows = relation.rows[:_SAMPLE]
    indexes = sorted({*range(len(relation.columns))} - keys - relation.fixed)
    group = {index: {index} for index in indexes}
    for index, other in permutations(indexes, 2):
        if group[index] is not group[other] and _decides(rows, index, other):
            group[index] |= group[other]
            group |= dict.fromkeys(group[index], group[index])
    bundles = [tuple(sorted(bundle)) for bundle in group.values() if len(bundle) > 1]
    return [*dict.fromkeys(bundles)]


def _decides(rows: Sequence[Row], index: int, other: int) -> bool:
    values: dict[object, object] = {}
    repeats = 0
    for row in rows:
        if row[index] is None:
            continue
        if values.setdefault(row[index], row[other]) != row[other]:
            return False
        repeats += 1
    if len({*values.values()}) < 3:
        return False
    counts = Counter(row[other] for row in rows).values()
    agree = sum(count * count for count in counts) / len(rows) ** 2
    return bool(agree ** (repeats - len(values)) < _CHANCE)
