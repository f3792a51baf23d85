"""Database engines: one private database server for one environment. An engine knows neither tasks nor rewards.

    Databases (read-only) ──► open(db) ──► run, run, … ──► open(db) ──► … ──► close
                                 ▲             │
                                 └─────────────┘  nothing of the last episode is left: content, session, locks, accounts

    run        as the agent: all rights in its own database, none elsewhere
    run_gold   as the grader: reads any database, as it was before anyone wrote

A statement that fails is an answer (`Answer.error`), as for any client. Methods raise `UsageError` (an unknown database, a
closed engine) and `SandboxDied` (the server is gone; `open` starts a new one).
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import MIB, Sandbox
from intercode.types import Table

ENGINES = ("sqlite", "mariadb")
Kind = Literal["mysql", "portable", "sqlite"]


@dataclass(frozen=True)
class Databases:
    """The content of databases. `scripts`: SQL by database (`mysql`, `portable`); `files`: SQLite files by database."""

    kind: Kind
    digest: str
    scripts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({**self.scripts, **self.files}))


@dataclass(frozen=True, slots=True)
class Caps:
    """The most rows and bytes that one answer holds; the rest stays in the server (`Table.cut`)."""

    rows: int = 100_000
    bytes: int = 8 * MIB


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to one statement.

    `table` is None for a statement without a result set, and after an error. `error` is the server's message. `affected`: rows
    changed. `timed_out`: the statement was stopped. `lost`: the session ended and a new one took its place; commits stand.
    """

    table: Table | None = None
    error: str | None = None
    affected: int = 0
    timed_out: bool = False
    lost: bool = False


class Engine(ABC):
    """A database server. Not thread-safe: use one engine per worker."""

    dialect: str
    """The SQL dialect's name in sqlglot: `mysql` or `sqlite`."""
    databases: Sequence[str]
    """The databases' names, sorted."""

    @abstractmethod
    def open(self, db: str) -> None:
        """Begin an episode on `db`: its original content, a fresh session, the agent's rights."""

    @abstractmethod
    def run(self, statement: str, *, seconds: float) -> Answer:
        """Execute one statement as the agent, and stop it after `seconds`."""

    @abstractmethod
    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        """Execute one read-only statement as the grader, on the original content of `db`.

        Raises `UsageError` if the episode has changed `db` and the original content is not at hand.
        """

    @abstractmethod
    def schema(self, db: str) -> str:
        """Return the CREATE statements of the original `db`, as the server prints them."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return name, version and the settings that decide results; they belong to the run."""

    @abstractmethod
    def close(self) -> None:
        """End the server. May be called twice."""

    def table(self, db: str, statement: str, *, seconds: float = 60.0) -> Table:
        """Return what `run_gold` reads. Raises `DataError` for a statement that gives no rows."""
        answer = self.run_gold(db, statement, seconds=seconds)
        if answer.table is None:
            raise DataError(f"database {db}: {answer.error}; in {statement[:200]}")
        return answer.table

    def name_of(self, db: str) -> str:
        """Return the database's true name; upper and lower case do not count. Raises `UsageError` if there is none."""
        for name in self.databases:
            if name.lower() == db.lower():
                return name
        known = ", ".join(self.databases[:8]) + (" …" if len(self.databases) > 8 else "")
        raise UsageError(f"there is no database {db!r}; there are {known or 'none'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def engine_maker(name: str | None, content: Databases, *, caps: Caps | None = None) -> Callable[[], Engine]:
    """Prepare the databases once, and return a function that makes engines of one kind, each with a server of its own.

    `name` is `sqlite` or `mariadb`. A MySQL dump needs MariaDB, SQLite files need SQLite; portable SQL suits both. Raises
    `UsageError` for another name, or for databases that only the other engine loads, `DataError` for databases that do not
    load, `SandboxUnavailable` where no server is installed.
    """
    name = name or ("mariadb" if content.kind == "mysql" else "sqlite")
    if "://" in name:
        raise UsageError(
            "--engine takes no address of a running server; dump its databases (mariadb-dump --databases NAME… >FILE) and use "
            "--dump FILE"
        )
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}; there are {' and '.join(ENGINES)}")
    if name == "sqlite" and content.kind == "mysql":
        raise UsageError(
            "SQLite does not load a MySQL dump; use --engine mariadb (apt-get install mariadb-server), or give a folder of "
            "SQLite files or of portable SQL"
        )
    if name == "mariadb" and content.kind == "sqlite":
        raise UsageError("MariaDB does not load SQLite files; use --engine sqlite, or give a MySQL dump or portable SQL")
    if name == "sqlite":
        from intercode.envs.sql.engines import sqlite

        files = sqlite.prepare(content)
        return lambda: sqlite.SqliteEngine(files, content, caps=caps)
    from intercode.envs.sql.engines import mariadb, mariadb_server

    template = mariadb_server.prepare(content)
    return lambda: mariadb.MariadbEngine(template, content, caps=caps)


@contextlib.contextmanager
def closed_on_failure(started: Engine | Sandbox) -> Iterator[None]:
    """Close what was started if the rest of its start fails."""
    try:
        yield
    except BaseException:
        started.close()
        raise


_LIMIT_PASSED = "exceeded: all processes were killed"


def server_death(sandbox: Sandbox, message: str, *, last_words: Callable[[], str] = str) -> SandboxDied:
    """Return the error for a server that is gone, with the agent at fault if a limit on memory or processes was reached.

    At its limits a sandbox ends all its processes and says so at the next call. `last_words` returns the end of the server's
    log, where it names its own limit on memory. In both cases the agent's statement was the cause, however a second try goes.
    """
    try:
        report = sandbox.exec("", argv=["true"], cwd="/", timeout=2).output
        full = last_words().rstrip().endswith("MemoryError")
    except SandboxError as error:
        return SandboxDied(message, by_agent=isinstance(error, SandboxDied) and error.by_agent)
    return SandboxDied(": ".join(filter(None, (message, report.strip()))), by_agent=full or _LIMIT_PASSED in report)
