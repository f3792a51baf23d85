"""The server of an embedded engine inside the sandbox: one process, one client, one statement at a
time. Standard library only; `driver` is the engine's own module (`EmbeddedEngine.driver`).

    FOLDER/original/NAME.sqlite   read-only, for the grader
    FOLDER/episode/NAME.sqlite    the agent's copy, on tmpfs

Each request and each reply is one line of JSON:

    {"op": "run" | "gold", "statement", "seconds", …}  ──►  {"columns", "rows", "cut"},
                                                            {"affected"} or {"error", "late"}
    {"op": "open" | "resume" | "facts", …}  ──►  the result of the method of that name

Bytes are {"b": hex}, a decimal number is {"d": text}, and other values are text; text that is not
UTF-8 is sent with surrogates. A copy counts as written when its `stamp` has changed, and is then
made again at the next `open`. The driver is a module with

    VERSION, ERRORS           a text; the exceptions that are answers, not faults
    ENDINGS                   the suffixes of a database's file names, "" first
    load(path, script)        creates a database
    copy(original, copy)
    stamp(path)               a value that changes with each write to a closed database
    connect(path, clock, *, reads)    a connection: `execute(statement)` returns a cursor with
                              `description`, `rowcount`, `fetchmany` and `close`; `clock.tick()` is
                              called regularly, and stops the statement when it returns true; with
                              `reads` the connection is read-only
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import socket
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

REFUSED = 3
_MOST = 1.0
"""The most seconds that count between two checks; `intercode_sandbox.guest.limit` explains why."""
_BATCH = 16
"""Rows fetched at once: few, since each row may be as large as the database's largest value."""


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"b": value.hex()}
    return {"d": str(value)} if isinstance(value, Decimal) else str(value)


_json = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


class Clock:
    """The time limit of a statement. `tick` returns whether it has passed; `late` is the result of
    the last check."""

    _left = _looked = 0.0
    late = False

    def start(self, seconds: float) -> None:
        self._left, self._looked, self.late = seconds, time.monotonic(), False

    def tick(self) -> bool:
        now = time.monotonic()
        self._left -= min(now - self._looked, _MOST)
        self._looked = now
        self.late = self._left < 0
        return self.late


class Server:
    """Answer requests, each a method with arguments. `rows` and `size` (bytes) limit an answer."""

    def __init__(self, driver: Any, folder: str, rows: int, size: int) -> None:
        self._driver = driver
        self._folder = folder
        self._max_rows = rows
        self._max_bytes = size
        self._agent = None
        self._db = ""
        self._stamp_at_open = None
        self._clock = Clock()
        os.makedirs(f"{folder}/episode", exist_ok=True)

    def answer(self, request: bytes) -> str:
        arguments = json.loads(request)
        reply: str = getattr(self, arguments.pop("op"))(**arguments)
        return reply

    def open(self, db: str) -> str:
        """Start a session on the original content. The last session's copy is reused if it is a
        copy of `db` and was not written."""
        copy = self._path("episode", db)
        if self._agent is not None:
            self._agent.close()
            self._agent = None
            if self._db != db or self._driver.stamp(copy) != self._stamp_at_open:
                for ending in self._driver.ENDINGS:
                    Path(self._path("episode", self._db) + ending).unlink(missing_ok=True)
        try:
            if not os.path.exists(copy):
                self._driver.copy(self._path("original", db), copy)
            self._start_session(db, copy)
        except self._driver.ERRORS as error:
            return _json({"unreadable": str(error)})
        return "{}"

    def resume(self, db: str) -> str:
        """Start a new session on the copy as it is."""
        if self._agent is not None:
            self._agent.close()
        self._start_session(db, self._path("original", db))
        return "{}"

    def run(self, statement: str, seconds: float) -> str:
        return self._execute(self._agent, statement, seconds)

    def gold(self, db: str, statement: str, seconds: float) -> str:
        try:
            connection = self._driver.connect(self._path("original", db), self._clock, reads=True)
        except self._driver.ERRORS as error:
            return _json({"error": f"the database {db} cannot be read: {error}", "late": False})
        try:
            return self._execute(connection, statement, seconds)
        finally:
            connection.close()

    def facts(self) -> str:
        return _json({"version": self._driver.VERSION})

    def _path(self, folder: str, db: str) -> str:
        return f"{self._folder}/{folder}/{db}.{os.path.basename(self._folder)}"

    def _start_session(self, db: str, unwritten: str) -> None:
        """Connect the agent to its copy, which counts as written once its stamp differs from the
        stamp of the file `unwritten`."""
        self._db = db
        self._stamp_at_open = self._driver.stamp(unwritten)
        self._agent = self._driver.connect(self._path("episode", db), self._clock, reads=False)

    def _execute(self, connection: Any, statement: str, seconds: float) -> str:
        self._clock.start(seconds)
        try:
            cursor = connection.execute(statement)
            if cursor.description is None:
                return _json({"affected": max(cursor.rowcount, 0)})
            columns = _json([column[0] for column in cursor.description])
            rows, cut = self._rows(cursor)
            return f'{{"columns":{columns},"cut":{_json(cut)},"rows":[{",".join(rows)}]}}'
        except (*self._driver.ERRORS, TimeoutError, ValueError, MemoryError) as error:
            return _json({"error": str(error) or "out of memory", "late": self._clock.late})

    def _rows(self, cursor: Any) -> tuple[list[str], bool]:
        """Return the rows within the limits, as JSON, and whether there are more."""
        rows = []
        count = self._max_rows
        room = self._max_bytes
        while batch := cursor.fetchmany(min(_BATCH, count + 1)):
            text = _json(batch)[1:-1]
            if len(batch) > count or len(text) > room:
                for row in batch[:count]:
                    text = _json(row)
                    room -= len(text)
                    if room < 0:
                        break
                    rows.append(text)
                cursor.close()
                return rows, True
            rows.append(text)
            count -= len(batch)
            room -= len(text)
            if self._clock.tick():
                raise TimeoutError("interrupted")
        return rows, False


def load(driver: Any, folder: str) -> None:
    """Create a database from each script in FOLDER/original. If one fails, print the reason and
    exit with status `REFUSED`."""
    for script in sorted(Path(folder, "original").glob("*.sql")):
        path = script.with_suffix(f".{os.path.basename(folder)}")
        try:
            driver.load(str(path), script.read_text("utf-8", "surrogateescape"))
        except (*driver.ERRORS, ValueError) as error:
            print(f"database {script.stem}: {error}")
            sys.exit(REFUSED)
        script.unlink()


def serve(driver: Any, folder: str, path: str, rows: str, size: str, memory: str) -> None:
    if int(memory):
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        room = int(memory) if most == resource.RLIM_INFINITY else min(most, int(memory))
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    server = Server(driver, folder, int(rows), int(size))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        client, _ = listener.accept()
        for request in client.makefile("rb"):
            client.sendall(server.answer(request).encode() + b"\n")


if __name__ == "__main__":
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/packages"]
    own_driver = importlib.import_module("driver")
    (serve if len(sys.argv) > 2 else load)(own_driver, *sys.argv[1:])
