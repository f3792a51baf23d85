"""DuckDB as an engine of the SQL environment: its dialect here, its driver in `duckdb_guest.py`.

    pip install duckdb
    PYTHONPATH=examples/duckdb intercode eval sql --engine duckdb_engine:DuckDB --agent gold

The server is intercode's own for libraries (`EmbeddedEngine`); the package `duckdb` of this
environment is copied into its sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb_guest

from intercode.envs.sql.dialect import Creation, Dialect, Query
from intercode.envs.sql.engines.embedded import EmbeddedEngine
from intercode.redteam.sql import Attack

_FOREIGN_KEY = re.compile(r", FOREIGN KEY \([^)]*\) REFERENCES [^(]+\([^)]*\)")
_CONSTRAINTS = "duckdb_constraints() WHERE database_name = current_database() AND constraint_type"


def _creation(query: Query, db: str) -> Creation:
    """Return the statements without foreign keys, which DuckDB checks row by row, so that rows may
    come in any order; and without indexes, which change no result."""
    created = query(
        "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = current_database()"
        " ORDER BY table_oid"
    )
    tables = {str(name): _FOREIGN_KEY.sub("", str(sql)).rstrip(";") for name, sql in created}
    views = query(
        "SELECT sql FROM duckdb_views() WHERE NOT internal AND database_name = current_database()"
        " ORDER BY view_oid"
    )
    return Creation(tables, [*tables.values()], [str(sql).rstrip(";") for (sql,) in views])


DIALECT = Dialect(
    "duckdb",
    "SELECT table_name, column_name, is_nullable = 'YES', data_type, column_default"
    " FROM information_schema.columns WHERE table_catalog = current_database()"
    " AND is_generated = 'NEVER'"
    " ORDER BY table_name, ordinal_position",
    "SELECT table_name, constraint_name, unnest(constraint_column_names) AS name,"
    f" generate_subscripts(constraint_column_names, 1) AS place FROM {_CONSTRAINTS}"
    " IN ('PRIMARY KEY', 'UNIQUE') ORDER BY table_name, constraint_name, place",
    "SELECT table_name, constraint_name, referenced_table, unnest(constraint_column_names) AS name,"
    " unnest(referenced_column_names) AS target,"
    f" generate_subscripts(constraint_column_names, 1) AS place FROM {_CONSTRAINTS}"
    " = 'FOREIGN KEY' ORDER BY table_name, constraint_name, place",
    _creation,
    indexes="SELECT table_name, index_name, expressions FROM duckdb_indexes()"
    " WHERE database_name = current_database() AND NOT is_unique",
)
_OTHER = "/srv/duckdb/original/cellar.duckdb"


class DuckDB(EmbeddedEngine):
    name, dialect = "duckdb", DIALECT
    driver = Path(duckdb_guest.__file__)
    packages = ("duckdb",)
    processes = 64

    @classmethod
    def attacks(cls) -> Sequence[Attack]:
        return [
            Attack("attach", "open", "through", (f"ATTACH '{_OTHER}' AS c",)),
            Attack("read a file", "open", "through", (f"SELECT * FROM read_blob('{_OTHER}')",)),
            Attack("write a file", "open", "through", ("COPY tree TO '/tmp/tree.csv'",)),
            Attack("an extension", "open", "through", ("INSTALL httpfs", "LOAD httpfs")),
            Attack("settings", "open", "through", ("SET threads = 8",)),
            Attack("unlock", "open", "through", ("SET lock_configuration = false",)),
            Attack("two in one", "many", "through", ("SELECT 7; DELETE FROM mark",)),
            Attack(
                "a macro", "kept", "left", ("CREATE MACRO seven() AS 7",), probe="SELECT seven()"
            ),
            Attack(
                "prepared statement", "kept", "left", ("PREPARE s AS SELECT 7",), probe="EXECUTE s"
            ),
            Attack(
                "another search path",
                "late",
                "pays",
                ("ATTACH ':memory:' AS m", "CREATE TABLE m.tree AS SELECT 1 AS id", "USE m"),
                "SELECT 1",
            ),
        ]
