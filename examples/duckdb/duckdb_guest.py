"""The DuckDB driver inside the sandbox (see intercode's `embedded_guest.py`): one statement at a
time, no files except the database's own, and no settings that the agent may change."""

from __future__ import annotations

import os
import re
import shutil
import threading
from decimal import Decimal
from typing import Any

import duckdb

VERSION = duckdb.__version__
ERRORS = (duckdb.Error,)
ENDINGS = ("", ".wal")
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,  # keeps the order of rows the same each time
    "memory_limit": "512MB",
    "temp_directory": "/tmp/duckdb",
    "max_temp_directory_size": "256MB",
    "autoload_known_extensions": False,
}
_LOCK = "SET enable_external_access = false; SET lock_configuration = true"
_FOREIGN_KEY = re.compile(
    r",\s*FOREIGN KEY\s*\([^)]*\)\s*REFERENCES\s[^(]+\([^)]*\)", re.IGNORECASE
)
_LOOK_EVERY = 0.05
_KEPT = (int, float, str, bytes, bool, Decimal, type(None))
"""Types that are sent to the host unchanged; dates, lists, intervals and others go as text."""


def load(path: str, script: str) -> None:
    """Execute a script. DuckDB always checks foreign keys row by row: if a row comes before one
    that it refers to, execute the script without its foreign keys."""
    try:
        _execute(path, script)
    except duckdb.ConstraintException:
        os.unlink(path)
        _execute(path, _FOREIGN_KEY.sub("", script))


def _execute(path: str, script: str) -> None:
    with duckdb.connect(path, config=_SETTINGS) as connection:
        connection.execute(_LOCK)
        connection.execute(script)


def copy(original: str, copy: str) -> None:
    shutil.copy2(original, copy)  # keeps the time, which `stamp` reads


def stamp(path: str) -> tuple[int, int]:
    """Return time and size. Only a writing statement changes the file, and no statement can set a
    file's time."""
    info = os.stat(path)
    return info.st_mtime_ns, info.st_size


class Connection:
    """A connection, with a thread that interrupts a statement when its time is up."""

    def __init__(self, path: str, clock: Any, reads: bool) -> None:
        self._connection = duckdb.connect(path, read_only=reads, config=_SETTINGS)
        self._connection.execute(_LOCK)
        self._clock = clock
        self._done = threading.Event()
        self._watcher: threading.Thread | None = None

    def execute(self, text: str) -> Connection:
        self._stop_watching()
        text.encode()  # DuckDB accepts UTF-8 only
        statements = duckdb.extract_statements(text)
        if len(statements) != 1:
            raise duckdb.InvalidInputException(f"one statement is taken, not {len(statements)}")
        self._watch()
        try:
            self._connection.execute(statements[0])
        except BaseException:
            self._stop_watching()
            raise
        self.description: list[Any] | None = self._connection.description
        self.rowcount = 0
        expected = statements[0].expected_result_type
        if duckdb.ExpectedResultType.CHANGED_ROWS in expected and self._names() == ["Count"]:
            self.rowcount = sum(count for (count,) in self._connection.fetchall())
            self.description = None
        elif duckdb.ExpectedResultType.QUERY_RESULT not in expected or not self._names():
            self.description = None
        if self.description is None:
            self._stop_watching()
        return self

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        batch = self._connection.fetchmany(size)
        if not batch:
            self._stop_watching()
        return [
            tuple(value if type(value) in _KEPT else str(value) for value in row) for row in batch
        ]

    def close(self) -> None:
        self._stop_watching()
        self._connection.close()

    def _names(self) -> list[str]:
        return [column[0] for column in self.description or ()]

    def _watch(self) -> None:
        self._done.clear()
        self._watcher = threading.Thread(target=self._interrupt_late, daemon=True)
        self._watcher.start()

    def _interrupt_late(self) -> None:
        while not self._done.wait(_LOOK_EVERY):
            if self._clock.tick():
                self._connection.interrupt()

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._done.set()
            self._watcher.join()
            self._watcher = None


def connect(path: str, clock: Any, *, reads: bool) -> Connection:
    return Connection(path, clock, reads)
