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
_LOOKS = re.compile(
    r"(?:SHOW|DESC|DESCRIBE|EXPLAIN|PRAGMA|USE|HELP)\b"
    r"|.*\b(?:information_schema|sqlite_(?:master|schema))\b",
    re.IGNORECASE | re.DOTALL,
)


def kind_of(action: str) -> Kind:
    """Classify a statement: "editing" data, "exploring" the schema, or "querying"."""
    statement = _LEADING.sub("", action, count=1)
    if _EDITS.match(statement):
        return "editing"
    return "exploring" if _LOOKS.match(statement) else "querying"


def echo(text: str) -> str:
    """Return the statement that selects a text."""
    return "SELECT '" + text.replace("\\", "\\\\").replace("'", "''") + "' AS answer"


LANGUAGE = Language(
    "sql",
    fences=("sql", "mysql", "mariadb", "sqlite", "sqlite3"),
    transcript=re.compile(r"(?:mysql|sqlite|MariaDB [^>]*)> (.*)"),
    openings=frozenset({"SELECT", "SHOW", "DESCRIBE", "DESC", "WITH"}),
    prompts=Path(__file__).parent / "prompts",
    kind=kind_of,
    echo=echo,
    attacks="intercode.envs.sql.exploits:ON_SQL",
)
