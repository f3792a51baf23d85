"""The SQLite server inside the sandbox: one process, one client, one statement at a time. Standard
library only.

    FOLDER/original/NAME.sqlite   read-only, for the grader
    FOLDER/episode/NAME.sqlite    the agent's copy, on tmpfs

Request and reply are a line of JSON each:

    {"op": "run" | "gold", "statement", "seconds", …}
                         ──►  {"columns", "rows", "cut"}, {"affected"} or {"error", "late"}
    {"op": "open" | "resume" | "facts", …}  ──►  the result of the method of that name

Bytes are {"b": hex}; text that is not UTF-8 travels as surrogates. A copy counts as written when
the change counter in its header has moved, and is made anew at the next `open`.

The authorizer denies the agent other files, extensions, and all pragmas but those that read or that
end with the session.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sqlite3
import sys
import time
import urllib.parse
from typing import Any

_READING_PRAGMAS = """
table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list
foreign_key_check database_list collation_list function_list pragma_list compile_options encoding
user_version application_id data_version freelist_count page_count page_size schema_version
integrity_check quick_check
"""
READING = frozenset(_READING_PRAGMAS.split())
SETTING = frozenset(
    ("foreign_keys", "recursive_triggers", "case_sensitive_like", "reverse_unordered_selects")
)
"""Pragmas that the agent may also set; they end with the session."""
_OF_TABLES = ("table_", "index_", "foreign_key_", "integrity_", "quick_")
"""Pragmas that read with an argument, a table's name; an argument of any other pragma sets it."""
_PRAGMAS = (
    "synchronous=OFF",
    "temp_store=MEMORY",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "locking_mode=EXCLUSIVE",
)
"""The lock stays, since nobody else reads the file and locking takes longer than most
statements."""
_FORBIDDEN_FUNCTIONS = frozenset(
    ("load_extension", "fts3_tokenizer", "writefile", "readfile", "edit")
)
_ATTACH, _DETACH, _PRAGMA, _FUNCTION = 24, 25, 19, 31
_WATCHED = frozenset((_ATTACH, _DETACH, _PRAGMA, _FUNCTION))
_STEPS = 2000
"""Instructions of SQLite's virtual machine between two looks at the clock."""
_MOST = 1.0
"""The most seconds that count between two looks; `intercode.sandbox.guest.limit` says why."""
_BATCH = 16
"""Rows fetched at once: few, since each row may have as many bytes as SQLite lets into a value."""
_LIMIT_LENGTH, _LONGEST = 0, 64 << 20
_MEMORY = 768 << 20
"""Bytes of this process: below the sandbox's own limit, so that a greedy statement gets an
error."""
_json = json.JSONEncoder(separators=(",", ":"), default=lambda value: {"b": value.hex()}).encode


class Server:
    """Answer requests: each is a method and its arguments. `rows` and `size` (bytes) are the caps
    of an answer."""

    def __init__(self, folder: str, rows: int, size: int) -> None:
        self._folder, self._max_rows, self._max_bytes = folder, rows, size
        self._agent: sqlite3.Connection | None = None
        self._db = ""
        self._counter_at_open = -1
        self._left = self._looked = 0.0
        self._late = False
        os.makedirs(f"{folder}/episode", exist_ok=True)

    def answer(self, request: bytes) -> str:
        arguments = json.loads(request)
        reply = getattr(self, arguments.pop("op"))(**arguments)
        return reply if isinstance(reply, str) else _json(reply)

    def open(self, db: str) -> dict[str, Any]:
        """Start a session on the original content. The last session's copy stays if it is of `db`
        and was not written."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None
            if self._db != db or self._counter(self._copy(db)) != self._counter_at_open:
                for ending in ("", "-journal", "-wal", "-shm"):
                    if os.path.exists(self._copy(self._db) + ending):
                        os.unlink(self._copy(self._db) + ending)
        try:
            if not os.path.exists(self._copy(db)):
                shutil.copyfile(self._original(db), self._copy(db))
                with open(self._copy(db), "rb") as file:
                    mode = file.read(20)[18:]
                if mode == b"\2\2":  # WAL, in which the header does not count writes
                    connection = sqlite3.connect(self._copy(db))
                    connection.execute("PRAGMA journal_mode=DELETE")
                    connection.close()
            self._start_session(db, self._counter(self._copy(db)))
        except sqlite3.DatabaseError as error:
            return {"unreadable": str(error)}
        return {}

    def resume(self, db: str) -> dict[str, Any]:
        """Start a session on the copy that the last server left."""
        self._start_session(db, self._counter(self._original(db)))
        return {}

    def run(self, statement: str, seconds: float) -> str:
        assert self._agent is not None
        return self._execute(self._agent, statement, seconds)

    def gold(self, db: str, statement: str, seconds: float) -> str:
        try:
            connection = self._connect(
                f"file:{urllib.parse.quote(self._original(db))}?mode=ro&immutable=1"
            )
        except sqlite3.DatabaseError as error:
            return _json({"error": f"the database {db} cannot be read: {error}", "late": False})
        try:
            return self._execute(connection, statement, seconds)
        finally:
            connection.close()

    def facts(self) -> dict[str, Any]:
        return {"version": sqlite3.sqlite_version}

    def _original(self, db: str) -> str:
        return f"{self._folder}/original/{db}.sqlite"

    def _copy(self, db: str) -> str:
        return f"{self._folder}/episode/{db}.sqlite"

    def _start_session(self, db: str, counter: int) -> None:
        self._db, self._counter_at_open = db, counter
        self._agent = self._connect(self._copy(db))

    def _counter(self, path: str) -> int:
        """Return the file's change counter, which rises with each transaction that writes; -1 if
        the file has no header yet."""
        with open(path, "rb") as file:
            header = file.read(28)
        return int.from_bytes(header[24:28], "big") if len(header) == 28 else -1

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, uri=path.startswith("file:"))
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        for pragma in _PRAGMAS:
            connection.execute("PRAGMA " + pragma)
        if hasattr(connection, "setlimit"):  # since Python 3.11
            connection.setlimit(_LIMIT_LENGTH, _LONGEST)
        connection.set_progress_handler(self._tick, _STEPS)
        connection.set_authorizer(_authorize)
        return connection

    def _tick(self) -> int:
        now = time.monotonic()
        self._left -= min(now - self._looked, _MOST)
        self._looked, self._late = now, self._left < 0
        return int(self._late)

    def _execute(self, connection: sqlite3.Connection, statement: str, seconds: float) -> str:
        self._left, self._looked, self._late = seconds, time.monotonic(), False
        try:
            cursor = connection.execute(statement)
            if cursor.description is None:
                return _json({"affected": max(cursor.rowcount, 0)})
            columns = _json([column[0] for column in cursor.description])
            rows, cut = self._rows(cursor)
            return f'{{"columns":{columns},"cut":{_json(cut)},"rows":[{",".join(rows)}]}}'
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            return _json({"error": str(error) or "out of memory", "late": self._late})

    def _rows(self, cursor: sqlite3.Cursor) -> tuple[list[str], bool]:
        """Return the rows within the caps, as JSON, and whether there are more."""
        found: list[str] = []
        left, room = self._max_rows, self._max_bytes
        while batch := cursor.fetchmany(min(_BATCH, left + 1)):
            text = _json(batch)[1:-1]
            if len(batch) > left or len(text) > room:
                for row in batch[:left]:
                    text = _json(row)
                    room -= len(text)
                    if room < 0:
                        break
                    found.append(text)
                cursor.close()
                return found, True
            found.append(text)
            left, room = left - len(batch), room - len(text)
            if self._tick():
                raise sqlite3.OperationalError("interrupted")
        return found, False


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


def main(folder: str, path: str, rows: str, size: str) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    room = _MEMORY if most == resource.RLIM_INFINITY else min(most, _MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    server = Server(folder, int(rows), int(size))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        client, _ = listener.accept()
        for request in client.makefile("rb"):
            client.sendall(server.answer(request).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
