"""The SQLite server inside the sandbox: one process, one client, one statement at a time. Standard library only.

    PLACE/pristine/NAME.sqlite   read-only, for the referee     requests   {"op": "open" | "run" | "gold" | "changed", …}
    PLACE/work/NAME.sqlite       the agent's copy, on tmpfs     replies    {"columns", "cut", "rows"}, {"error", "late"}, …

Values cross as JSON: None, int, float, str (what is not UTF-8 as surrogates); bytes as {"b": hex}, flagged by `bytes`. A copy
counts as written when the change counter in its header has moved, and is made anew at the next `open`.

The authorizer is what the agent is held by: no other file, no extension, and of the pragmas only those that tell.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import sqlite3
import struct
import sys
import time
import urllib.parse
from typing import Any

HEADER = struct.Struct("!I")
_TELLING = """
table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check database_list
collation_list function_list pragma_list compile_options encoding user_version application_id data_version freelist_count
page_count page_size schema_version integrity_check quick_check
"""
TELLING = frozenset(_TELLING.split())
SETTING = frozenset(("foreign_keys", "recursive_triggers", "case_sensitive_like", "reverse_unordered_selects"))
"""Pragmas of the session, which may be set as well."""
_FORBIDDEN_FUNCTIONS = frozenset(("load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"))
_ATTACH, _DETACH, _PRAGMA, _FUNCTION = 24, 25, 19, 31
_STEPS = 2000
"""Instructions of SQLite's machine between two looks at the clock."""
_BATCH = 64
_LIMIT_LENGTH, _LONGEST = 0, 64 << 20
_KEPT = 128 << 20
"""Bytes of copies that are kept for the next time."""
_as_text = functools.partial(str, encoding="utf-8", errors="surrogateescape")


class Server:
    def __init__(self, place: str, rows: int, size: int) -> None:
        self._place, self._rows, self._size = place, rows, size
        self._agent: sqlite3.Connection | None = None
        self._db = ""
        self._seen = -1
        self._until = 0.0
        self._late = False
        os.makedirs(f"{place}/work", exist_ok=True)

    def answer(self, request: dict[str, Any]) -> bytes:
        reply = getattr(self, request.pop("op"))(**request)
        return reply if isinstance(reply, bytes) else _encode(reply)

    # -- requests ---------------------------------------------------------------------------------------------------

    def open(self, db: str) -> dict[str, Any]:
        """A fresh session on the pristine content."""
        self._leave()
        made = not os.path.exists(self._copy(db))
        if made:
            self._make_room(os.path.getsize(self._pristine(db)))
            shutil.copyfile(self._pristine(db), self._copy(db))
        self._enter(db, self._counter(self._copy(db)))
        return {"made": made}

    def resume(self, db: str) -> dict[str, Any]:
        """A fresh session on what the last server left."""
        self._enter(db, self._counter(self._pristine(db)))
        return {}

    def run(self, statement: str, seconds: float) -> bytes:
        assert self._agent is not None
        return self._execute(self._agent, statement, seconds)

    def gold(self, db: str, statement: str, seconds: float) -> bytes:
        connection = self._connect(f"file:{urllib.parse.quote(self._pristine(db))}?mode=ro&immutable=1")
        try:
            return self._execute(connection, statement, seconds)
        finally:
            connection.close()

    def changed(self) -> dict[str, Any]:
        """What stands in the way of a copy, and whether there is anything to copy."""
        assert self._agent is not None
        temporary = [name for (name,) in self._agent.execute("SELECT name FROM temp.sqlite_master")]
        return {"transaction": self._agent.in_transaction, "temporary": temporary, "changed": self._written()}

    def facts(self) -> dict[str, Any]:
        return {"version": sqlite3.sqlite_version}

    # -- inside -----------------------------------------------------------------------------------------------------

    def _pristine(self, db: str) -> str:
        return f"{self._place}/pristine/{db}.sqlite"

    def _copy(self, db: str) -> str:
        return f"{self._place}/work/{db}.sqlite"

    def _enter(self, db: str, seen: int) -> None:
        self._db, self._seen = db, seen
        self._agent = self._connect(self._copy(db))

    def _leave(self) -> None:
        """End the last session; a written copy goes with it."""
        if self._agent is None:
            return
        self._agent.close()
        self._agent = None
        if self._written():
            self._remove(self._db)

    def _make_room(self, size: int) -> None:
        """Other databases' copies stay as long as there is space."""
        names = [name for name in os.listdir(f"{self._place}/work") if name.endswith(".sqlite")]
        if size + sum(os.path.getsize(f"{self._place}/work/{name}") for name in names) > _KEPT:
            for name in names:
                self._remove(name.removesuffix(".sqlite"))

    def _remove(self, db: str) -> None:
        for ending in ("", "-journal", "-wal", "-shm"):
            if os.path.exists(self._copy(db) + ending):
                os.unlink(self._copy(db) + ending)

    def _written(self) -> bool:
        return self._counter(self._copy(self._db)) != self._seen

    def _counter(self, path: str) -> int:
        """SQLite raises it with each transaction that changes the file; -1 if there is none yet."""
        with open(path, "rb") as file:
            header = file.read(28)
        return int.from_bytes(header[24:28], "big") if len(header) == 28 else -1

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, uri=path.startswith("file:"))
        connection.text_factory = _as_text
        for pragma in ("synchronous=OFF", "temp_store=MEMORY", "trusted_schema=OFF", "cell_size_check=ON"):
            connection.execute("PRAGMA " + pragma)
        if hasattr(connection, "setlimit"):  # since Python 3.11
            connection.setlimit(_LIMIT_LENGTH, _LONGEST)
        connection.set_progress_handler(self._tick, _STEPS)
        connection.set_authorizer(_rights)
        return connection

    def _tick(self) -> int:
        self._late = time.monotonic() > self._until
        return int(self._late)

    def _execute(self, connection: sqlite3.Connection, statement: str, seconds: float) -> bytes:
        self._until, self._late = time.monotonic() + seconds, False
        try:
            cursor = connection.execute(statement)
            if cursor.description is None:
                return _encode({"affected": max(cursor.rowcount, 0)})
            return self._result(cursor)
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            return _encode({"error": str(error) or "out of memory", "late": self._late})

    def _result(self, cursor: sqlite3.Cursor) -> bytes:
        """Encoded batch by batch, as the size of the text is what counts."""
        pieces: list[bytes] = []
        left, room, cut, special = self._rows, self._size, False, False
        while not cut and (batch := cursor.fetchmany(min(_BATCH, left + 1))):
            piece, flagged = _rows(batch)
            if len(batch) > left or len(piece) > room:
                piece, cut = _fitting(batch[:left], room), True
            pieces += [piece] if piece else []
            left, room, special = left - len(batch), room - len(piece), special or flagged
        head = {"columns": [column[0] for column in cursor.description], "cut": cut, "bytes": special}
        cursor.close()
        return _encode(head)[:-1] + b', "rows": [' + b",".join(pieces) + b"]}"


def _rows(batch: list[tuple[Any, ...]]) -> tuple[bytes, bool]:
    """The rows as JSON without the outer brackets, and whether there are bytes among the values."""
    try:
        return json.dumps(batch)[1:-1].encode(), False
    except TypeError:
        return json.dumps([[_plain(value) for value in row] for row in batch])[1:-1].encode(), True


def _fitting(batch: list[tuple[Any, ...]], room: int) -> bytes:
    pieces: list[bytes] = []
    for row in batch:
        piece, _ = _rows([row])
        room -= len(piece) + 1
        if room < 0:
            break
        pieces.append(piece)
    return b",".join(pieces)


def _plain(value: Any) -> Any:
    return {"b": value.hex()} if isinstance(value, bytes) else value


def _encode(reply: dict[str, Any]) -> bytes:
    return json.dumps(reply).encode()


def _rights(action: int, first: str | None, second: str | None, db: str | None, trigger: str | None) -> int:
    if action in (_ATTACH, _DETACH):
        return sqlite3.SQLITE_DENY
    if action == _PRAGMA:
        name = (first or "").lower()
        allowed = name in SETTING or (name in TELLING and _asks(name, second))
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
    if action == _FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _asks(name: str, value: str | None) -> bool:
    """Whether a pragma is read, not set: those that name a table take an argument."""
    return value is None or name.startswith(("table_", "index_", "foreign_key_", "integrity_", "quick_"))


def serve(line: socket.socket, server: Server) -> None:
    while data := line.recv(1 << 16):
        reply = server.answer(json.loads(_rest(line, data)))
        line.sendall(HEADER.pack(len(reply)) + reply)


def _rest(line: socket.socket, data: bytes) -> bytes:
    """A request's body; most often it came whole."""
    while len(data) < HEADER.size or len(data) - HEADER.size < HEADER.unpack_from(data)[0]:
        more = line.recv(1 << 20)
        if not more:
            sys.exit()
        data += more
    return data[HEADER.size :]


def main(place: str, path: str, rows: str, size: str) -> None:
    server = Server(place, int(rows), int(size))
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(1)
        line, _ = door.accept()
        serve(line, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
