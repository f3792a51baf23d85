"""A database as relations: read from an engine, written again with other rows, and the dependencies between its columns.

    MariaDB   information_schema, SHOW CREATE TABLE        SQLite   PRAGMA table_xinfo, sqlite_master
                                └────────► Schema ────────────┘ ────► statements that make the database

    declared references ─┐
    values of a column that are all keys of another table ─┴─► parents first, trees and their depths
    values of a column that decide the values of another ────► bundles of columns, which only change together

Nothing is translated: the statements are for an engine of the same kind, and keep its checks, defaults, keys and views.
Generated columns are not read, so that the server fills them again. Dependencies are read off the rows, and rather too many
are found than too few: a false one costs some power to tell queries apart, a missed one makes data that mean nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from intercode.envs.sql.engines import Engine
from intercode.envs.sql.text import quote_name, write_value
from intercode.envs.sql.variants.columns import Literal, plain

Value = object
Row = tuple[Value, ...]

_MOST = 20_000
_MOST_NAMED = 500
_BATCH = 250
_SECONDS = 600.0
_SAMPLE = 2000
"""Rows in which dependent columns are looked for."""
_CHANCE = 1e-3
"""Columns whose agreement is less probable than this by accident depend on each other."""
_CHECKS = re.compile(r"\bCHECK\s*\(.*", re.I | re.DOTALL)
_DEFINER = re.compile(r"\sDEFINER=\S+@\S+", re.I)
_COLUMNS = (
    "SELECT table_name, column_name, is_nullable, is_generated FROM information_schema.columns "
    "WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"
)
_UNIQUE = (
    "SELECT table_name, index_name, column_name FROM information_schema.statistics "
    "WHERE table_schema = DATABASE() AND non_unique = 0 ORDER BY table_name, index_name, seq_in_index"
)
_FOREIGN = (
    "SELECT table_name, constraint_name, referenced_table_name, column_name, referenced_column_name "
    "FROM information_schema.key_column_usage WHERE table_schema = DATABASE() AND referenced_table_schema = DATABASE() "
    "ORDER BY table_name, constraint_name, ordinal_position"
)
_CREATED = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns that refer to the columns `targets` of another table, by index."""

    columns: tuple[int, ...]
    table: str
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table. `unique`: its keys, by index. `fixed`: columns whose values stay with their row, since a CHECK names them."""

    name: str
    columns: tuple[str, ...]
    nullable: tuple[bool, ...]
    unique: tuple[tuple[int, ...], ...]
    references: tuple[Reference, ...]
    rows: tuple[Row, ...]
    fixed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Schema:
    """Relations, and the statements `before` the rows, which make tables, and `after` them, which make indexes and views."""

    dialect: str
    relations: tuple[Relation, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


class _ForeignKey(NamedTuple):
    table: str
    pairs: tuple[tuple[str, str | None], ...]


@dataclass
class _Table:
    """A table's definition, by names."""

    name: str
    create: str
    columns: list[tuple[str, bool]]
    unique: list[tuple[str, ...]]
    foreign: list[_ForeignKey]
    primary: tuple[str, ...] = ()


def pick(row: Row, indexes: Sequence[int]) -> Row:
    return tuple([row[index] for index in indexes])


def transpose(relation: Relation) -> list[tuple[Value, ...]]:
    return list(zip(*relation.rows, strict=True)) or [()] * len(relation.columns)


# -- reading ------------------------------------------------------------------------------------------------------------


def read_schema(engine: Engine, db: str, literals: Collection[Literal]) -> Schema:
    """Read tables, keys and rows; of a large table a part. Raises `DataError` for a table that cannot be read."""
    tables, before, after = (_sqlite if engine.dialect == "sqlite" else _mysql)(engine, db)
    known = {table.name.lower(): table for table in tables}
    relations = []
    for table in tables:
        names = [name for name, _ in table.columns]
        checks = _CHECKS.search(table.create)  # the words in them, and after them: columns are among these
        words = set(re.findall(r"[^\W\d]\w*", checks[0].lower())) if checks else set()
        relations.append(
            Relation(
                table.name,
                tuple(names),
                tuple(nullable for _, nullable in table.columns),
                tuple(dict.fromkeys(key for each in table.unique if (key := _indexes(table, each)))),
                tuple(reference for each in table.foreign if (reference := _reference(table, each, known))),
                tuple(_rows(engine, db, table, literals)),
                frozenset(index for index, name in enumerate(names) if name.lower() in words),
            )
        )
    return Schema(engine.dialect, tuple(relations), tuple(before), tuple(after))


def _indexes(table: _Table, names: Iterable[str | None]) -> tuple[int, ...]:
    """Return the columns' indexes; none if a name is no column that is read."""
    order = {name.lower(): index for index, (name, _) in enumerate(table.columns)}
    found = [order.get(name.lower()) if name else None for name in names]
    return () if None in found else tuple(index for index in found if index is not None)


def _reference(table: _Table, foreign: _ForeignKey, known: Mapping[str, _Table]) -> Reference | None:
    parent = known.get(foreign.table.lower())
    if parent is None:
        return None
    columns = _indexes(table, [column for column, _ in foreign.pairs])
    names = [target for _, target in foreign.pairs]
    targets = _indexes(parent, parent.primary if None in names else names)
    return Reference(columns, parent.name, targets) if columns and len(columns) == len(targets) else None


def _query(engine: Engine, db: str, statement: str) -> tuple[tuple[Any, ...], ...]:
    return engine.table(db, statement, seconds=_SECONDS).rows


def _rows(engine: Engine, db: str, table: _Table, literals: Collection[Literal]) -> list[Row]:
    """Return all rows; of a large table the first rows, and those that hold a literal."""
    if not table.columns:
        return []
    columns = ", ".join(quote_name(name, engine.dialect) for name, _ in table.columns)
    select = f"SELECT {columns} FROM {quote_name(table.name, engine.dialect)}"
    first = engine.table(db, f"{select} LIMIT {_MOST + 1}", seconds=_SECONDS)
    if len(first.rows) <= _MOST and not first.cut:
        return list(first.rows)
    wanted = ", ".join(sorted(write_value(value, engine.dialect) for value in literals if isinstance(plain(value), str)))
    where = " OR ".join(f"{quote_name(name, engine.dialect)} IN ({wanted})" for name, _ in table.columns)
    named = _query(engine, db, f"{select} WHERE {where} LIMIT {_MOST_NAMED}") if wanted else ()
    return list(dict.fromkeys([*first.rows[:_MOST], *named]))


def _mysql(engine: Engine, db: str) -> tuple[list[_Table], list[str], list[str]]:
    columns, unique, foreign = (_grouped(_query(engine, db, statement)) for statement in (_COLUMNS, _UNIQUE, _FOREIGN))
    listed = _query(engine, db, "SHOW FULL TABLES")
    creates = {name: _query(engine, db, f"SHOW CREATE TABLE {quote_name(name, 'mysql')}")[0][1] for name, _ in listed}
    tables = []
    for name in (name for name, kind in listed if kind == "BASE TABLE"):
        stored = [(column, null == "YES") for column, null, generated in columns[name] if generated == "NEVER"]
        keys = [tuple(column for (column,) in rows) for rows in _grouped(unique[name]).values()]
        tables.append(_Table(name, creates[name], stored, keys, _foreign_keys(foreign[name])))
    views = [(name, _DEFINER.sub("", creates[name])) for name, kind in listed if kind == "VIEW"]
    charset, collation = _query(engine, db, "SELECT @@character_set_database, @@collation_database")[0]
    head = [
        f"CREATE DATABASE {quote_name(db, 'mysql')} DEFAULT CHARACTER SET {charset} COLLATE {collation}",
        f"USE {quote_name(db, 'mysql')}",
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        "SET foreign_key_checks = 0",
    ]
    return tables, [*head, *(table.create for table in tables)], _views_in_order(views)


def _sqlite(engine: Engine, db: str) -> tuple[list[_Table], list[str], list[str]]:
    created = _query(engine, db, _CREATED)
    listed = {row[1] for row in _query(engine, db, "PRAGMA table_list") if row[0] == "main" and row[2] == "table"}
    tables = []
    for kind, name, create in created:
        if kind != "table" or name not in listed or name.startswith("sqlite_"):
            continue
        quoted = quote_name(name, "sqlite")
        info = _query(engine, db, f"PRAGMA table_xinfo({quoted})")
        columns = [(row[1], not row[3] and not row[5]) for row in info if row[6] == 0]
        primary = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
        unique = [primary] if primary else []
        for row in sorted(_query(engine, db, f"PRAGMA index_list({quoted})"), key=lambda row: row[1]):
            index = f"PRAGMA index_info({quote_name(row[1], 'sqlite')})"
            parts = _query(engine, db, index) if row[2] and row[3] != "pk" else ()
            unique += [tuple(part[2] for part in parts)] if parts else []
        foreign = [(row[0], row[2], row[3], row[4]) for row in sorted(_query(engine, db, f"PRAGMA foreign_key_list({quoted})"))]
        tables.append(_Table(name, create, columns, unique, _foreign_keys(foreign), primary))
    indexes = [text for kind, _, text in created if kind == "index"]
    views = [(name, text) for kind, name, text in created if kind == "view"]
    return tables, [table.create for table in tables], [*indexes, *_views_in_order(views)]


def _foreign_keys(rows: Iterable[tuple[Any, ...]]) -> list[_ForeignKey]:
    """Group rows of (constraint, table, column, target)."""
    return [_ForeignKey(pairs[0][0], tuple(row[1:] for row in pairs)) for pairs in _grouped(rows).values()]


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """Group rows by their first value, which is left out."""
    found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for first, *rest in rows:
        found[first].append(tuple(rest))
    return found


def _views_in_order(views: Sequence[tuple[str, str]]) -> list[str]:
    """Return the statements of views, each after the views that it names."""
    left, found = dict(views), list[str]()
    while left:
        ready = [name for name in left if not any(other in left[name] for other in left if other != name)] or [*left]
        found += [left.pop(name) for name in ready]
    return found


# -- writing ------------------------------------------------------------------------------------------------------------


def write_schema(schema: Schema, rows: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield the statements that make the database with these rows; SQLite's end with a semicolon.

    INSERT has IGNORE, since a collation may take a new key for an old one.
    """
    dialect, end = schema.dialect, ";\n" if schema.dialect == "sqlite" else ""
    verb = "INSERT OR IGNORE" if dialect == "sqlite" else "INSERT IGNORE"
    yield from (statement + end for statement in schema.before)
    for relation in schema.relations:
        columns = ", ".join(quote_name(name, dialect) for name in relation.columns)
        for begin in range(0, len(rows[relation.name]), _BATCH):
            batch = rows[relation.name][begin : begin + _BATCH]
            lines = (f"({', '.join([write_value(value, dialect) for value in row])})" for row in batch)
            yield f"{verb} INTO {quote_name(relation.name, dialect)} ({columns}) VALUES\n" + ",\n".join(lines) + end
    yield from (statement + end for statement in schema.after)


# -- references ---------------------------------------------------------------------------------------------------------


def with_implied(relations: Sequence[Relation]) -> list[Relation]:
    """Return the relations with the references that nobody declared: all values of a column are in a key of another table,
    and that is no accident, since they are texts or the names agree."""
    single = [
        (relation, key[0], {str(row[key[0]]).casefold() for row in relation.rows})
        for relation in relations
        for key in relation.unique
        if len(key) == 1
    ]
    found = []
    for relation in relations:
        references = list(relation.references)
        taken = {index for reference in references for index in reference.columns} | relation.fixed
        taken |= {key[0] for key in relation.unique if len(key) == 1}
        for index, values in enumerate(transpose(relation)):
            present = {value for value in values if value is not None}
            texts = {str(value).casefold() for value in present}
            for parent, target, keys in single if index not in taken and len(present) > 1 else ():
                if parent is not relation and texts <= keys and _may_refer(relation.columns[index], present, parent, target):
                    references.append(Reference((index,), parent.name, (target,)))
                    break
        found.append(replace(relation, references=tuple(references)))
    return found


def _may_refer(name: str, values: set[Value], parent: Relation, target: int) -> bool:
    kinds = {type(value) for value in values} | {type(row[target]) for row in parent.rows}
    if kinds == {str} and not all(str(value).isdigit() for value in values):
        return True
    name, other, table = (text.casefold().replace("_", "") for text in (name, parent.columns[target], parent.name))
    return name == other or name.removesuffix("id") in (table, table.removesuffix("s")) or (other != "id" and other in name)


def referenced_keys(relations: Sequence[Relation]) -> dict[str, dict[tuple[int, ...], set[Row]]]:
    """Return, by table, the key values that other rows hold."""
    found: dict[str, dict[tuple[int, ...], set[Row]]] = {relation.name: defaultdict(set) for relation in relations}
    for relation in relations:
        for reference in relation.references:
            if reference.table in found:
                found[reference.table][reference.targets] |= {pick(row, reference.columns) for row in relation.rows}
    return found


def parents_first(relations: Sequence[Relation]) -> list[Relation]:
    """Return each relation after those that it refers to, except in circles."""
    by_name = {relation.name: relation for relation in relations}
    found: dict[str, Relation] = {}
    visited: set[str] = set()

    def visit(relation: Relation) -> None:
        if relation.name in visited:
            return
        visited.add(relation.name)
        for reference in relation.references:
            if reference.table in by_name:
                visit(by_name[reference.table])
        found[relation.name] = relation

    for relation in relations:
        visit(relation)
    return list(found.values())


def depths(relation: Relation, reference: Reference) -> dict[Row, int]:
    """Return how far each row is from the root of its tree; rows in a circle are left out."""
    parent = {pick(row, reference.targets): pick(row, reference.columns) for row in relation.rows}
    return _ranks({key: [up] if up in parent else [] for key, up in parent.items()})


def is_acyclic(relation: Relation, table: str) -> bool:
    """Tell whether the edges of a table with several references to one other table form no circle."""
    first, *others = (each.columns for each in relation.references if each.table == table)
    edges: dict[Row, list[Row]] = defaultdict(list)
    for row in relation.rows:
        edges[pick(row, first)] += [pick(row, other) for other in others]
        for other in others:
            edges.setdefault(pick(row, other), [])
    return len(_ranks(edges)) == len(edges)


def _ranks(edges: Mapping[Row, Collection[Row]]) -> dict[Row, int]:
    """Return the length of the longest path from each node; nodes from which a circle is reached are left out."""
    found: dict[Row, int] = {}
    rank, left = 0, TopologicalSorter(edges)
    with contextlib.suppress(CycleError):  # nodes before any circle are sorted all the same
        left.prepare()
    while ready := left.get_ready():
        left.done(*ready)
        found |= dict.fromkeys(ready, rank)
        rank += 1
    return found


# -- columns ------------------------------------------------------------------------------------------------------------


def bundles(relation: Relation, keys: set[int]) -> list[tuple[int, ...]]:
    """Return columns of which one decides the other, in more rows than accident explains: they only change together."""
    rows = relation.rows[:_SAMPLE]
    indexes = [index for index in range(len(relation.columns)) if index not in keys | relation.fixed]
    group = {index: index for index in indexes}
    for one in indexes:
        for other in indexes:
            if group[one] != group[other] and _decides(rows, one, other):
                joined = group[other]
                group = {index: group[one] if mark == joined else mark for index, mark in group.items()}
    bundles = defaultdict(list)
    for index, mark in group.items():
        bundles[mark].append(index)
    return [tuple(bundle) for bundle in bundles.values() if len(bundle) > 1]


def _decides(rows: Sequence[Row], one: int, other: int) -> bool:
    values: dict[Value, Value] = {}
    repeats = 0
    for row in rows:
        if row[one] is None:
            continue
        if values.setdefault(row[one], row[other]) != row[other]:
            return False
        repeats += 1
    if len(set(values.values())) < 3:
        return False
    agree = sum(count * count for count in Counter(row[other] for row in rows).values()) / len(rows) ** 2
    return bool(agree ** (repeats - len(values)) < _CHANCE)
