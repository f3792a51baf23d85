"""The SQLite driver inside the sandbox (see `embedded_guest.py`). Standard library only.

The authorizer denies access to other files, extensions, and all pragmas except those that read or
whose effect ends with the session.
"""

from __future__ import annotations

import shutil
import sqlite3
import urllib.parse
from typing import Any

VERSION = sqlite3.sqlite_version
ERRORS = (sqlite3.Error, sqlite3.Warning)
ENDINGS = ("", "-journal", "-wal", "-shm")
_READING_PRAGMAS = """
table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list
foreign_key_check database_list collation_list function_list pragma_list compile_options encoding
user_version application_id data_version freelist_count page_count page_size schema_version
integrity_check quick_check
"""
READING = _READING_PRAGMAS.split()
SETTING = ("foreign_keys", "recursive_triggers", "case_sensitive_like", "reverse_unordered_selects")
"""Pragmas that the agent may also set; their effect ends with the session."""
_OF_TABLES = ("table_", "index_", "foreign_key_", "integrity_", "quick_")
"""Pragmas with a table's name as argument, which only read; an argument sets any other pragma."""
_PRAGMAS = (
    "synchronous=OFF",
    "temp_store=MEMORY",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "locking_mode=EXCLUSIVE",
)
"""The lock is never released, since nothing else reads the file and locking takes longer than most
statements."""
_FORBIDDEN_FUNCTIONS = ("load_extension", "fts3_tokenizer", "writefile", "readfile", "edit")
_ATTACH, _DETACH, _PRAGMA, _FUNCTION = 24, 25, 19, 31
_WATCHED = frozenset((_ATTACH, _DETACH, _PRAGMA, _FUNCTION))
_STEPS = 2000
"""Instructions of SQLite's virtual machine between two checks of the clock."""
_LIMIT_LENGTH, _LONGEST = 0, 64 << 20


def load(path: str, script: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()


def copy(original: str, copy: str) -> None:
    """Copy a database. A copy in WAL mode is changed to another journal mode, because in WAL mode
    the change counter does not count writes."""
    shutil.copyfile(original, copy)
    with open(copy, "rb") as file:
        mode = file.read(20)[18:]
    if mode == b"\2\2":
        connection = sqlite3.connect(copy)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()


def stamp(path: str) -> int:
    """Return the file's change counter, which rises with each transaction that writes; -1 if the
    file has no header yet."""
    with open(path, "rb") as file:
        header = file.read(28)
    if len(header) < 28:
        return -1
    return int.from_bytes(header[24:28], "big")


def connect(path: str, clock: Any, *, reads: bool) -> sqlite3.Connection:
    source = f"file:{urllib.parse.quote(path)}?mode=ro&immutable=1" if reads else path
    connection = sqlite3.connect(source, isolation_level=None, uri=reads)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    for pragma in _PRAGMAS:
        connection.execute("PRAGMA " + pragma)
    if hasattr(connection, "setlimit"):  # since Python 3.11
        connection.setlimit(_LIMIT_LENGTH, _LONGEST)
    connection.set_progress_handler(clock.tick, _STEPS)
    connection.set_authorizer(_authorize)
    return connection


def _authorize(
    action: int, first: str | None, second: str | None, db: str | None, trigger: str | None
) -> int:
    if action not in _WATCHED:
        return sqlite3.SQLITE_OK
    if action == _PRAGMA:
        name = (first or "").lower()
        reads = second is None or name.startswith(_OF_TABLES)
        allowed = name in SETTING or (name in READING and reads)
    else:
        allowed = action == _FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
