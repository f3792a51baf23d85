"""The language of `SqlEnv`."""

from __future__ import annotations

import re
from pathlib import Path

from intercode.language import Kind, Language

_LEADING = re.compile(r"\A(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_EDITS = re.compile(
    r"(?:INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|TRUNCATE|RENAME|LOAD|MERGE)\b"
    r"|WITH\b.*\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\b",
    re.IGNORECASE | re.DOTALL,
)
_STATEMENT = re.compile(
    r"""\(*(?: SELECT\b (?!\s+(?:all\s+)?(?:the|those)\b)
    | WITH\s+(?:RECURSIVE\s+)? \S+ \s*(?:\([^)]*\)\s*)? AS\s*\(
    | (?:INSERT|REPLACE)\s+INTO\b | DELETE\s+FROM\b | UPDATE\s+\S+\s+SET\b
    | (?:CREATE|ALTER|DROP|TRUNCATE|SHOW)\s+(?:\w+\s+)?
      (?:TABLE|VIEW|INDEX|INDEXE|DATABASE|COLUMN)S?\b
    | (?:DESC|DESCRIBE|USE|PRAGMA)\s+\S+\s*\Z | EXPLAIN\s+\w | VALUES\s*\( )""",
    re.IGNORECASE | re.VERBOSE,
)
"""``SELECT name FROM staff`` and ``with t AS (…``, but not ``Select the rows`` nor ``With that
done``."""
_LOOKS = re.compile(
    r"(?:SHOW|DESC|DESCRIBE|EXPLAIN|PRAGMA|USE|HELP)\b"
    r"|.*\b(?:information_schema|sqlite_(?:master|schema))\b",
    re.IGNORECASE | re.DOTALL,
)
_SUBMITS = re.compile(r"(?:;|(?<!,)(?<!\bBY)(?<!\bFROM)\n)\s*submit\s*;?\s*\Z", re.IGNORECASE)
"""``SELECT 1; submit``, but not a table or a column of this name: ``SELECT * FROM⏎submit``."""


def kind_of(action: str) -> Kind:
    """Classify a statement: "editing" data, "exploring" the schema, or "querying"."""
    statement = _LEADING.sub("", action)
    if _EDITS.match(statement):
        return "editing"
    return "exploring" if _LOOKS.match(statement) else "querying"


def is_code(text: str) -> bool:
    """Return whether a text begins as a statement does."""
    return bool(_STATEMENT.match(_LEADING.sub("", text)))


def without_submit(statement: str) -> str:
    """Return a statement without a `submit` behind it, which must be an action of its own."""
    return _SUBMITS.sub("", statement)


def echo(text: str) -> str:
    """Return the statement that selects a text."""
    return "SELECT '" + text.replace("\\", "\\\\").replace("'", "''") + "' AS answer"


LANGUAGE = Language(
    "sql",
    fences=(
        *("sql", "mysql", "mariadb", "sqlite", "sqlite3", "duckdb"),
        *("postgresql", "postgres", "pgsql", "tsql", "plsql"),
    ),
    transcript=re.compile(r"(?:mysql|sqlite|MariaDB [^>]*)> (.*)"),
    is_code=is_code,
    prompts=Path(__file__).parent / "prompts",
    kind=kind_of,
    echo=echo,
    between="\n;\n",
    attacks="intercode.redteam.sql:ON_SQL",
)
