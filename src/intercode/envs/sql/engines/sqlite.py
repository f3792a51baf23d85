"""The SQLite engine and its dialect. The driver is `sqlite_guest.py`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from intercode.envs.sql.dialect import Creation, Dialect, Query, write_standard_text
from intercode.envs.sql.engines import sqlite_guest
from intercode.envs.sql.engines.embedded import EmbeddedEngine
from intercode_sandbox.base import MIB

_AFFINITY = (
    "CASE WHEN c.type LIKE '%INT%' THEN 'INTEGER' WHEN c.type LIKE '%CHAR%' OR c.type LIKE '%CLOB%'"
    " OR c.type LIKE '%TEXT%' THEN 'TEXT' WHEN c.type LIKE '%BLOB%' OR c.type = '' THEN 'BLOB'"
    " WHEN c.type LIKE '%REAL%' OR c.type LIKE '%FLOA%' OR c.type LIKE '%DOUB%' THEN 'REAL'"
    " ELSE 'NUMERIC' END"
)
"""The expression for the type that SQLite derives from a declared one: VARCHAR(20) is TEXT."""
_TABLE = "t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"


def _write_text(text: str) -> str:
    """Return a literal. Texts that are not UTF-8 or contain a NUL are written as bytes."""
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
        return f"CAST(X'{text.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)"
    return write_standard_text(text)


def _creation(query: Query, db: str) -> Creation:
    rows = query(
        "SELECT m.name, m.sql FROM sqlite_master m JOIN pragma_table_list t ON t.name = m.name"
        f" WHERE m.type = 'table' AND {_TABLE} ORDER BY m.rowid"
    )
    tables = {str(name): str(create) for name, create in rows}
    after = query(
        "SELECT sql FROM sqlite_master WHERE sql <> '' AND type IN ('index', 'view') ORDER BY type,"
        " rowid"
    )
    return Creation(tables, [*tables.values()], [*map(str, chain(*after))])


DIALECT = Dialect(
    "sqlite",
    f'SELECT t.name, c.name, NOT c."notnull" AND NOT c.pk, {_AFFINITY}, c.dflt_value'
    " FROM pragma_table_list t, pragma_table_xinfo(t.name) c"
    f" WHERE ({_TABLE} OR t.schema = 'main' AND t.type IN ('view', 'virtual')) AND NOT c.hidden"
    " ORDER BY t.name, c.cid",
    "SELECT t.name, '', c.name, c.pk AS place FROM pragma_table_list t,"
    f" pragma_table_xinfo(t.name) c WHERE {_TABLE} AND c.pk UNION ALL"
    " SELECT t.name, i.name, c.name, c.seqno FROM pragma_table_list t,"
    " pragma_index_list(t.name) i, pragma_index_info(i.name) c"
    f' WHERE {_TABLE} AND i."unique" ORDER BY 1, 2, 4',
    'SELECT t.name, f.id, f."table", f."from", COALESCE(f."to", (SELECT p.name FROM'
    ' pragma_table_xinfo(f."table") p WHERE p.pk = f.seq + 1)) FROM pragma_table_list t,'
    f" pragma_foreign_key_list(t.name) f WHERE {_TABLE} ORDER BY t.name, f.id, f.seq",
    _creation,
    write_text=_write_text,
    indexes="SELECT t.name, i.name, c.name, c.seqno FROM pragma_table_list t,"
    " pragma_index_list(t.name) i, pragma_index_info(i.name) c"
    f' WHERE {_TABLE} AND NOT i."unique" ORDER BY 1, 2, 4',
    texts="SELECT type, name, sql FROM sqlite_master WHERE type = 'trigger' OR sql LIKE"
    " 'CREATE VIRTUAL%' UNION ALL"
    " SELECT type, tbl_name, substr(sql, instr(lower(sql), ' on ')) FROM sqlite_master m"
    " WHERE type = 'index' AND (EXISTS (SELECT 1 FROM pragma_index_list(m.tbl_name) l"
    " WHERE l.name = m.name AND l.partial)"
    " OR EXISTS (SELECT 1 FROM pragma_index_info(m.name) c WHERE c.name IS NULL))",
    texts_in_marks=True,
)


class SqliteEngine(EmbeddedEngine):
    """Run one SQLite server; see `Engine`."""

    name, dialect = "sqlite", DIALECT
    loads = ("portable", "sqlite")
    driver = Path(sqlite_guest.__file__)
    memory = 768 * MIB

    def schema(self, db: str) -> str:
        creates = self.table(
            db,
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%'"
            " ESCAPE '\\'",
        )
        return ";\n\n".join(map(str, chain(*creates.rows))) + ";"
