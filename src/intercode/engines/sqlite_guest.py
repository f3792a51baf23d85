"""The SQLite server inside the sandbox: one process, one client, one statement at a time. Standard library only.

    PLACE/pristine/NAME.sqlite   read-only, for the referee
    PLACE/played/NAME.sqlite     the agent's copy, on tmpfs

A frame is its length (4 bytes) and what its first byte says:

    request   R  the seconds as a double, and a statement of the agent's       {  {"op": "open" | "gold" | "changed", …}
    reply     [  [columns, rows]: a small table, whole                         {  {"affected"}, {"error", "late"}, …
              #  some rows by column (`packed`); more frames follow, the last {"columns", "cut"} or {"error", "late"}
              !  forget the rows so far, they come again

Text that is not UTF-8 crosses as surrogates. A copy counts as written when the change counter in its header has moved, and is
made anew at the next `open`.

The authorizer is what the agent is held by: no other file, no extension, and of the pragmas only those that tell.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import select
import shutil
import socket
import sqlite3
import struct
import sys
import time
import urllib.parse
from array import array
from collections.abc import Iterator
from typing import Any

HEADER, SECONDS = struct.Struct("!I"), struct.Struct("!d")
RUN, SOME, AGAIN = b"R", b"#", b"!"
_TELLING = """
table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check database_list
collation_list function_list pragma_list compile_options encoding user_version application_id data_version freelist_count
page_count page_size schema_version integrity_check quick_check
"""
TELLING = frozenset(_TELLING.split())
SETTING = frozenset(("foreign_keys", "recursive_triggers", "case_sensitive_like", "reverse_unordered_selects"))
"""Pragmas of the session, which may be set as well."""
_PRAGMAS = ("synchronous=OFF", "temp_store=MEMORY", "trusted_schema=OFF", "cell_size_check=ON", "locking_mode=EXCLUSIVE")
"""Nobody else reads the file, and to lock it anew for each statement would take longer than most statements."""
_FORBIDDEN_FUNCTIONS = frozenset(("load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"))
_ATTACH, _DETACH, _PRAGMA, _FUNCTION = 24, 25, 19, 31
_WATCHED = frozenset((_ATTACH, _DETACH, _PRAGMA, _FUNCTION))
_STEPS = 2000
"""Instructions of SQLite's machine between two looks at the clock."""
_MOST = 1.0
"""Seconds that count of what passed between two looks; `Limit` says why."""
_FEW, _BATCH = 64, 512
"""Rows that are asked for at first, and then."""
_LIMIT_LENGTH, _LONGEST = 0, 64 << 20
_KEPT = 128 << 20
"""Bytes of copies that are kept for the next time."""
_MEMORY = 768 << 20
"""Bytes of this process: below what its sandbox is ended at, so that a greedy statement gets an error."""
_MOMENT, _MOST_ASLEEP = 60e-6, 64
_as_text = functools.partial(str, encoding="utf-8", errors="surrogateescape")
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Server:
    def __init__(self, place: str, rows: int, size: int) -> None:
        self._place, self._rows, self._size = place, rows, size
        self._agent: sqlite3.Connection | None = None
        self._db = ""
        self._seen = -1
        self._left = self._looked = 0.0
        self._late = False
        os.makedirs(f"{place}/played", exist_ok=True)

    def answer(self, request: bytes) -> Iterator[bytes]:
        """The frames, without their lengths."""
        if request[:1] == RUN:
            assert self._agent is not None
            (seconds,) = SECONDS.unpack_from(request, 1)
            return self._execute(self._agent, request[1 + SECONDS.size :].decode("utf-8", "surrogatepass"), seconds)
        words = json.loads(request)
        if words["op"] == "gold":
            return self.gold(words["db"], words["statement"], words["seconds"])
        return iter([_encode(getattr(self, words.pop("op"))(**words))])

    # -- requests ---------------------------------------------------------------------------------------------------

    def open(self, db: str) -> dict[str, Any]:
        """A fresh session on the pristine content."""
        self._leave()
        made = not os.path.exists(self._copy(db))
        try:
            if made:
                self._make_room(os.path.getsize(self._pristine(db)))
                shutil.copyfile(self._pristine(db), self._copy(db))
                _end_wal(self._copy(db))
            self._enter(db, self._counter(self._copy(db)))
        except sqlite3.DatabaseError as error:
            return {"unreadable": str(error)}
        return {"made": made}

    def resume(self, db: str) -> dict[str, Any]:
        """A fresh session on what the last server left."""
        self._enter(db, self._counter(self._pristine(db)))
        return {}

    def gold(self, db: str, statement: str, seconds: float) -> Iterator[bytes]:
        try:
            connection = self._connect(f"file:{urllib.parse.quote(self._pristine(db))}?mode=ro&immutable=1")
        except sqlite3.DatabaseError as error:
            yield _encode({"error": f"the database {db} cannot be read: {error}", "late": False})
            return
        try:
            yield from self._execute(connection, statement, seconds)
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
        return f"{self._place}/played/{db}.sqlite"

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
        names = [name for name in os.listdir(f"{self._place}/played") if name.endswith(".sqlite")]
        if size + sum(os.path.getsize(f"{self._place}/played/{name}") for name in names) > _KEPT:
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
        for pragma in _PRAGMAS:
            connection.execute("PRAGMA " + pragma)
        if hasattr(connection, "setlimit"):  # since Python 3.11
            connection.setlimit(_LIMIT_LENGTH, _LONGEST)
        connection.set_progress_handler(self._tick, _STEPS)
        connection.set_authorizer(_rights)
        return connection

    def _tick(self) -> int:
        now = time.monotonic()
        self._left -= min(now - self._looked, _MOST)
        self._looked, self._late = now, self._left < 0
        return int(self._late)

    def _execute(self, connection: sqlite3.Connection, statement: str, seconds: float) -> Iterator[bytes]:
        """A SELECT changes nothing: it is run as if all text were UTF-8, which is quicker, and once more if some is not."""
        self._left, self._looked, self._late = seconds, time.monotonic(), False
        twice = statement.lstrip()[:6].upper() == "SELECT"
        for text in (str, _as_text) if twice else (_as_text,):
            connection.text_factory = text
            try:
                yield from self._result(connection.execute(statement))
                return
            except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
                if text is _as_text or "decode to UTF-8" not in str(error):
                    yield _encode({"error": str(error) or "out of memory", "late": self._late})
                    return
            yield AGAIN

    def _result(self, cursor: sqlite3.Cursor) -> Iterator[bytes]:
        if cursor.description is None:
            yield _encode({"affected": max(cursor.rowcount, 0)})
            return
        columns = [column[0] for column in cursor.description]
        asked = min(_FEW, self._rows + 1)
        batch = cursor.fetchmany(asked)
        whole = _small(columns, batch) if len(batch) < asked else b""
        if whole and len(whole) <= self._size:
            yield whole
        else:
            yield from self._stream(columns, cursor, batch)

    def _stream(self, columns: list[str], cursor: sqlite3.Cursor, batch: list[tuple[Any, ...]]) -> Iterator[bytes]:
        """Rows as they come, so that the client reads the first while the next are fetched."""
        left, room, cut = self._rows, self._size, False
        while batch and not cut:
            piece = packed(batch)
            if len(batch) > left or len(piece) > room:
                batch, cut = _fitting(batch[:left], room), True
                piece = packed(batch)
            yield piece
            left, room = left - len(batch), room - len(piece)
            if self._tick():
                raise sqlite3.OperationalError("interrupted")
            batch = [] if cut else cursor.fetchmany(min(_BATCH, left + 1))
        cursor.close()
        yield _encode({"columns": columns, "cut": cut})


def _end_wal(path: str) -> None:
    """In this mode, which is the file's own, the header would not count what is written."""
    with open(path, "rb") as file:
        mode = file.read(20)[18:]
    if mode == b"\2\2":
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()


def _small(columns: list[str], rows: list[tuple[Any, ...]]) -> bytes:
    """Empty if there are bytes among the values."""
    try:
        return _json([columns, rows]).encode("utf-8", "surrogateescape")
    except TypeError:
        return b""


def packed(rows: list[tuple[Any, ...]]) -> bytes:
    """SOME, [[kind, size, places of NULLs], …] by column, a line feed, and each column's values without the NULLs.

    Kinds: q, d as `array` has them; t texts with NUL characters between; j JSON, with bytes as {"b": hex}.
    """
    heads, pieces = [], []
    for column in zip(*rows):  # noqa: B905 (Python 3.9 runs this)
        nulls = [place for place, value in enumerate(column) if value is None] if None in column else []
        kind, data = _column([value for value in column if value is not None] if nulls else column)
        heads.append([kind, len(data), nulls])
        pieces.append(data)
    return SOME + _json(heads).encode() + b"\n" + b"".join(pieces)


def _column(values: Any) -> tuple[str, bytes]:
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is int or kind is float:
        code = "q" if kind is int else "d"
        return code, array(code, values).tobytes()
    if kind is str:
        text = "\0".join(values)
        if text.count("\0") == len(values) - 1:
            return "t", text.encode("utf-8", "surrogateescape")
    return "j", _json([_plain(value) for value in values]).encode("utf-8", "surrogateescape")


def _plain(value: Any) -> Any:
    return {"b": value.hex()} if isinstance(value, bytes) else value


def _fitting(rows: list[tuple[Any, ...]], room: int) -> list[tuple[Any, ...]]:
    """The rows that go into the byte cap, by their own sizes."""
    for number, row in enumerate(rows):
        room -= 4 + sum(1 + _room(value) for value in row)
        if room < 0:
            return rows[:number]
    return rows


def _room(value: Any) -> int:
    if isinstance(value, bytes):
        return 2 * len(value) + 8
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else 8


def _encode(reply: dict[str, Any]) -> bytes:
    return _json(reply).encode("utf-8", "surrogateescape")


def _rights(action: int, first: str | None, second: str | None, db: str | None, trigger: str | None) -> int:
    if action not in _WATCHED:
        return sqlite3.SQLITE_OK
    if action == _PRAGMA:
        name = (first or "").lower()
        allowed = name in SETTING or (name in TELLING and _asks(name, second))
    else:
        allowed = action == _FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _asks(name: str, value: str | None) -> bool:
    """Whether a pragma is read, not set: those that name a table take an argument."""
    return value is None or name.startswith(("table_", "index_", "foreign_key_", "integrity_", "quick_"))


class Vigil:
    """Staying awake before a read, on either side: on an idle machine that is cheaper than to be put to sleep and woken.

    It pays only while the other process has a processor to itself, and costs where they share one. So after a wait in vain the
    next ones are taken asleep, twice as many each time.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._ready = select.poll()
        self._ready.register(sock, select.POLLIN)
        self._asleep, self._penalty = 0, 1

    def __call__(self) -> None:
        if self._asleep:
            self._asleep -= 1
        elif self._came():
            self._penalty = 1
        else:
            self._asleep, self._penalty = self._penalty, min(2 * self._penalty, _MOST_ASLEEP)

    def _came(self) -> bool:
        until = time.perf_counter() + _MOMENT
        while time.perf_counter() < until:
            if self._ready.poll(0):
                return True
        return False


def serve(line: socket.socket, server: Server) -> None:
    vigil = Vigil(line)
    while data := line.recv(1 << 16):
        for frame in server.answer(_rest(line, data)):
            line.sendall(HEADER.pack(len(frame)) + frame)
        vigil()


def _rest(line: socket.socket, data: bytes) -> bytes:
    """A request's body; most often it came whole."""
    while len(data) < HEADER.size or len(data) - HEADER.size < HEADER.unpack_from(data)[0]:
        more = line.recv(1 << 20)
        if not more:
            sys.exit()
        data += more
    return data[HEADER.size :]


def _bound_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    room = _MEMORY if most == resource.RLIM_INFINITY else min(most, _MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))


def main(place: str, path: str, rows: str, size: str) -> None:
    _bound_memory()
    server = Server(place, int(rows), int(size))
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(1)
        line, _ = door.accept()
        serve(line, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
