"""Database engines: one private database server for one environment. An engine knows neither tasks
nor rewards.

    Databases (read-only) ──► open(db) ──► run, run, … ──► open(db) ──► … ──► close
                                 ▲             │
                                 └─────────────┘
                                 nothing of the last episode is left: content, session, locks,
                                 accounts

    run        as the agent: all rights in its own database, none elsewhere
    run_gold   as the grader: reads any database, as it was before anyone wrote

A statement that fails is an answer (`Answer.error`), as for any client. Methods raise `UsageError`
(an unknown database, a closed engine) and `SandboxDied` (the server is gone; `open` starts a new
one).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import MIB
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.types import Table

ENGINES = {"sqlite": "SqliteEngine", "mariadb": "MariadbEngine"}
"""Modules of this package, each with a function `prepare`, and the engine's class there."""
Kind = Literal["mysql", "portable", "sqlite"]
_LIMIT_PASSED = "exceeded: all processes were killed"


@dataclass(frozen=True)
class Databases:
    """The content of databases. `scripts`: SQL by database (`mysql`, `portable`); `files`: SQLite
    files by database."""

    kind: Kind
    digest: str
    scripts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of_scripts(cls, kind: Kind, scripts: Mapping[str, Sequence[str]]) -> Self:
        """Return the databases that these scripts make; the digest covers all that is executed, the
        names as well."""
        text = json.dumps([kind, sorted((name, list(lines)) for name, lines in scripts.items())])
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return cls(kind, digest, {name: tuple(lines) for name, lines in scripts.items()})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({**self.scripts, **self.files}))


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to one statement.

    `table` is None for a statement without a result set, and after an error. `error` is the
    server's message. `affected`: rows changed. `timed_out`: the statement was stopped. `lost`: the
    session ended and a new one took its place; commits stand.
    """

    table: Table | None = None
    error: str | None = None
    affected: int = 0
    timed_out: bool = False
    lost: bool = False


class Engine(ABC):
    """A database server in a sandbox, which starts at once. Not thread-safe: use one engine per
    worker.

    `prepared` is the template with the databases: the module's `prepare` makes it.
    """

    dialect: str
    """The SQL dialect's name in sqlglot: `mysql` or `sqlite`."""
    databases: Sequence[str]
    """The databases' names, sorted."""
    _log: str
    max_rows, max_bytes = 100_000, 8 * MIB
    """The most rows and bytes that one answer holds; the rest stays in the server (`Table.cut`)."""
    max_statement = 16 * MIB - 1024
    """The most bytes of a statement: MariaDB ends the session of a longer one."""

    def __init__(self, prepared: Template, databases: Databases) -> None:
        self.databases, self._content, self._prepared = databases.names, databases, prepared
        self._db: str | None = None
        self._broken = self._closed = False
        self._sandbox = self._new_sandbox()
        try:
            self._start()
        except BaseException:
            self._sandbox.close()
            raise

    def open(self, db: str) -> None:
        """Begin an episode on `db`: its original content, a fresh session, the agent's rights."""
        db = self.name_of(db)
        self._require_server()
        try:
            self._begin(db)
        except (SandboxError, DataError):  # dead, out of space, or the content cannot be restored
            self._restart()
            self._begin(db)

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

    def close(self) -> None:
        """End the server. May be called twice."""
        if not self._closed:
            self._closed, self._db = True, None
            self._disconnect()
            self._sandbox.close()

    def table(self, db: str, statement: str, *, seconds: float = 60.0) -> Table:
        """Return what `run_gold` reads. Raises `DataError` for a statement that gives no rows."""
        answer = self.run_gold(db, statement, seconds=seconds)
        if answer.table is None:
            raise DataError(f"database {db}: {answer.error}; in {statement[:200]}")
        return answer.table

    def name_of(self, db: str) -> str:
        """Return the database's true name; upper and lower case do not count. Raises `UsageError`
        if there is none."""
        for name in self.databases:
            if name.lower() == db.lower():
                return name
        known = ", ".join(self.databases[:8]) + (" …" if len(self.databases) > 8 else "")
        raise UsageError(f"there is no database {db!r}; there are {known or 'none'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def machine_facts(self) -> dict[str, str]:
        """Return those of the sandbox (see `Sandbox.machine_facts`)."""
        return self._sandbox.machine_facts()

    def _too_long(self, statement: str) -> Answer | None:
        """Return the answer to a statement that no engine takes; None for any other."""
        size = len(statement.encode("utf-8", "surrogatepass"))
        return (
            Answer(error=f"the statement has {size} bytes; {self.max_statement} are taken")
            if size > self.max_statement
            else None
        )

    # -- the server --------------------------------------------------------------------------------

    @abstractmethod
    def _new_sandbox(self) -> LocalSandbox:
        """Return a sandbox with room for the server."""

    @abstractmethod
    def _start(self) -> None:
        """Start a server in the fresh sandbox, and connect with it."""

    @abstractmethod
    def _begin(self, db: str) -> None:
        """Begin an episode on the running server. Raises `SandboxError`, or `DataError` for content
        that cannot be read."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close all connections, as far as there are any."""

    def _require_server(self) -> None:
        if self._closed:
            raise UsageError("the engine is closed")
        if self._broken:
            self._restart()

    def _restart(self) -> None:
        """Replace the server by a new one on the original content."""
        self._disconnect()
        try:
            self._sandbox.reset()
        except SandboxError:  # the sandbox is dead as well
            self._sandbox.close()
            self._sandbox = self._new_sandbox()
        self._db, self._broken = None, False
        self._start()

    def _log_end(self) -> str:
        """Return the end of the server's log, where it names its own limit on memory."""
        try:
            return self._sandbox.read(self._log).decode(errors="replace")[-2000:]
        except OSError:
            return ""

    def _death(self, message: str) -> SandboxDied:
        """Return the error for a server that is gone, with the agent at fault if a limit on memory
        or processes was reached.

        At its limits a sandbox ends all its processes and says so at the next call. The agent's
        statement was the cause, however a second try goes.
        """
        self._broken = True
        try:
            report = self._sandbox.exec("", argv=["true"], cwd="/", timeout=2).output
            by_agent = self._log_end().rstrip().endswith("MemoryError") or _LIMIT_PASSED in report
        except SandboxError as error:
            return SandboxDied(message, by_agent=isinstance(error, SandboxDied) and error.by_agent)
        return SandboxDied(": ".join(filter(None, (message, report.strip()))), by_agent=by_agent)


def engine_maker(name: str | None, content: Databases) -> Callable[[], Engine]:
    """Prepare the databases once, and return a function that makes engines of one kind, each with a
    server of its own.

    `name` is `sqlite` or `mariadb`. A MySQL dump needs MariaDB, SQLite files need SQLite; portable
    SQL suits both. Raises `UsageError` for another name, or for databases that only the other
    engine loads, `DataError` for databases that do not load, `SandboxUnavailable` where no server
    is installed.
    """
    name = name or ("mariadb" if content.kind == "mysql" else "sqlite")
    if name not in ENGINES:  # show only what comes before a colon: an address may hold a password
        raise UsageError(
            f"there is no engine {name.partition(':')[0]!r}; there are {' and '.join(ENGINES)}; of"
            " a running server, dump the databases (mariadb-dump --databases NAME… >FILE) and use"
            " --dump FILE"
        )
    if (name, content.kind) == ("sqlite", "mysql"):
        raise UsageError(
            "the databases are a MySQL dump, which SQLite does not load: use --engine mariadb in"
            " place of --engine sqlite (needs: apt-get install mariadb-server)"
        )
    if (name, content.kind) == ("mariadb", "sqlite"):
        raise UsageError(
            "MariaDB does not load SQLite files; use --engine sqlite, or give a MySQL dump or"
            " portable SQL"
        )
    module = import_module(f"{__name__}.{name}")
    template, engine = module.prepare(content), getattr(module, ENGINES[name])
    return lambda: engine(template, content)
