"""Compare the database that a gold leaves, where the gold writes, with the one the agent leaves.

    catalog   tables, views, columns with types and defaults, keys, references, indexes; triggers,
              routines and conditions of indexes as texts, ignoring case, spaces and quotes
    tables    the rows of each table (a virtual one too) and view, compared as the rows of an answer
              in any order; and of the temporary ones that the gold creates

Names of columns and tables count without regard to case, those of keys and indexes do not count. A
table that is too large for one answer is compared by a digest of its rows, so without tolerances.
Left out: CHECK clauses, and counters such as AUTO_INCREMENT.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from intercode.envs.sql.compare import free, sql_exact
from intercode.envs.sql.dialect import Dialect
from intercode.envs.sql.engines import READ_SECONDS, Engine, read_table
from intercode.errors import DataError
from intercode.types import Table

Catalog = Counter[Hashable]
_OTHER = "other tables or columns in the database"
_TEMPORARY = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+(?:TABLE|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"([\w.$]+|\"[^\"]+\"|`[^`]+`|\[[^]]+\])",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"""('(?:[^']|'')*'|"[^"]*[^"\w][^"]*")""")
"""A text in quotes; `"name"` is rather a quoted name."""
_MARKS = re.compile(r"--[^\n]*|/\*.*?\*/|\bfor each row\b|[\s`\"\[\];]+", re.DOTALL)
"""What does not count in a definition; FOR EACH ROW is the only kind of trigger."""


@dataclass(frozen=True)
class Content:
    """The content of a database. `tables` is empty if the catalog was not the expected one."""

    catalog: Catalog
    tables: Mapping[str, Table]
    temporary: Collection[str] = ()
    """The names in `tables` of temporary tables, whose columns are not in the catalog."""

    @property
    def evidence(self) -> Counter[Hashable]:
        """Count each part of the catalog and each row. The counts are equal for equal contents,
        whatever the order of rows."""
        facts = Counter[Hashable](self.catalog)
        for name, table in self.tables.items():
            facts[name, table.columns] += 1
            facts.update((name, repr(row)) for row in table.rows)
        return facts


def read_content(engine: Engine, db: str, gold: str, expected: Collection[Catalog] = ()) -> Content:
    """Return the content that the episode on `db` leaves, with the temporary tables that `gold`
    creates. The rows are read only if the catalog is one of `expected`, or if there is none.

    Raises `DataError` if something cannot be read, such as a view without its table.
    """
    temporary = {}
    query = partial(read_table, partial(engine.run, seconds=READ_SECONDS), db)
    for name in _TEMPORARY.findall(gold):
        with suppress(DataError):
            temporary[f"temporary {name}"] = _read_rows(query, name)
    with engine.reading() as read:
        query = partial(read_table, read, db)
        catalog, names = _read_catalog(query, engine.dialect, db)
        if expected and catalog not in expected:
            return Content(catalog, {})
        tables = {name.lower(): _read_rows(query, engine.dialect.quote(name)) for name in names}
        return Content(catalog, tables | temporary, temporary.keys())


def first_difference(agent: Content | None, gold: Content) -> tuple[str, str | None]:
    """Return why the agent's content is not the gold's, and the table that differs if only its rows
    do; "" if they are equal."""
    if (
        agent is None
        or agent.catalog != gold.catalog
        or not gold.tables.keys() <= agent.tables.keys()
    ):
        return _OTHER, None
    for name, table in gold.tables.items():
        rows = agent.tables[name]
        if name in gold.temporary and [*map(_folded, rows.columns)] != [
            *map(_folded, table.columns)
        ]:
            return _OTHER, None
        if rows != table and not sql_exact(rows, table, free(table)).success:
            return f"other rows in the table {name}", name
    return "", None


def _read_catalog(
    query: Callable[[str], Table], dialect: Dialect, db: str
) -> tuple[Catalog, list[str]]:
    """Return the catalog, and the names of all tables and views."""
    names = [*dialect.creation(lambda statement: query(statement).rows, db).tables]
    catalog: Catalog = Counter(("table", name.lower()) for name in names)
    for row in query(dialect.columns).rows:
        names.append(str(row[0]))
        catalog["column", *map(_folded, row)] += 1
    for statement in filter(None, (dialect.keys, dialect.references, dialect.indexes)):
        keys: dict[Hashable, list[Hashable]] = defaultdict(list)
        for table, title, *column in query(statement).rows:
            keys[table, title].append((_folded(table), *map(_folded, column)))
        catalog.update((statement, *key) for key in keys.values())
    for kind, title, text in query(dialect.texts).rows if dialect.texts else ():
        catalog["text", _folded(kind), _folded(title), _folded(text, _MARKS)] += 1
    return catalog, [*dict.fromkeys(names)]


def _folded(value: object, ignored: re.Pattern[str] | None = None) -> str:
    """Return a text in small letters without what is ignored, but for literals."""
    parts = _LITERAL.split(str(value))
    for at, part in enumerate(parts):
        if at % 2:
            parts[at] = f"'{part[1:-1]}'"
        else:
            parts[at] = ignored.sub("", part.lower()) if ignored else part.lower()
    return "".join(parts)


def _read_rows(query: Callable[[str], Table], quoted: str) -> Table:
    """Return a table's rows; for a large table, one row with their number and a digest that does
    not depend on their order. Raises `DataError` if one row is too large for an answer."""
    table = query(f"SELECT * FROM {quoted}")
    if not table.cut:
        return table
    total = digest = 0
    while table.rows:
        for row in table.rows:
            text = repr(row).encode("utf-8", "backslashreplace")
            digest += int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())
        total += len(table.rows)
        table = query(f"SELECT * FROM {quoted} LIMIT {Engine.max_rows} OFFSET {total}")
    if table.cut:
        raise DataError(f"the table {quoted} has a row that is too large to be compared")
    return Table(("rows",), ((f"{total} rows with the digest {digest:x}",),))
