"""Database engines. Each environment has one private database server. An engine is independent of
tasks and rewards.

    Databases (read-only) ──► open(db) ──► run, run, … ──► open(db) ──► … ──► close
                                 ▲             │
                                 └─────────────┘
                                 nothing from the last episode is left: content, session, locks,
                                 accounts

    run        as the agent: all privileges in its own database, none elsewhere
    run_gold   as the grader: reads any database in its original state

A failing statement returns an answer (`Answer.error`), as for any client. Methods raise
`UsageError` (an unknown database, a closed engine) and `SandboxDied` (the server died; `open`
starts a new one).

`--engine NAME` selects an engine: one of `ENGINES`, or your own class. Derive it from `Engine`, or
from `EmbeddedEngine` (embedded.py) if the database is a library that Python can import.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from intercode.doors import part
from intercode.envs.sql.dialect import Dialect
from intercode.errors import DataError, SandboxDied, SandboxError, SandboxUnavailable, UsageError
from intercode.plugins import load_plugin
from intercode.types import ExecResult, Table
from intercode_sandbox import cache
from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.pod import usual_provider
from intercode_sandbox.template import Template, hash_of

ENGINES = {
    "sqlite": "intercode.envs.sql.engines.sqlite:SqliteEngine",
    "mariadb": "intercode.envs.sql.engines.mariadb:MariadbEngine",
}
"""The default is the first engine that can load the databases."""
Kind = Literal["mysql", "portable", "sqlite"]
_KINDS = {"mysql": "a MySQL dump", "portable": "portable SQL", "sqlite": "SQLite files"}
Connection = TypeVar("Connection")
PATIENCE = 20.0
_POLL, _EARLY = 0.001, 1.0
"""Seconds between two attempts to connect to a new server, and until a missing process counts as
dead."""
READ_SECONDS = 60.0
"""The time limit of a statement that reads what an episode left."""
_LOG_LINES = 8
_LOG_BYTES = 2000
"""The last lines and bytes of a dead server's log that an error message shows."""


@dataclass(frozen=True)
class Databases:
    """The content of databases. `scripts`: by database, the scripts and statements to execute in
    turn (kinds `mysql` and `portable`); `files`: SQLite files by database; `left_out`: the names of
    files that could not be read."""

    kind: Kind
    digest: str
    scripts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @classmethod
    def of_scripts(cls, kind: Kind, scripts: Mapping[str, Sequence[str]]) -> Self:
        """Return the databases that these scripts create. The digest covers all statements and the
        names."""
        digest = hash_of(json.dumps([kind, sorted(scripts.items())]))
        return cls(kind, digest, scripts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({**self.scripts, **self.files}))


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to one statement.

    `table` is None for a statement without a result set, and after an error. `error` is the
    server's message. `affected`: rows changed. `timed_out`: the statement was stopped. `lost`: the
    session ended and was replaced by a new one; committed changes remain.
    """

    table: Table | None = None
    error: str | None = None
    affected: int = 0
    timed_out: bool = False
    lost: bool = False


Read = Callable[[str], Answer]
"""Executes a statement."""


class Engine(AbstractContextManager["Engine"]):
    """A database server in a sandbox. The constructor starts it. Not thread-safe: use one engine
    per worker.

    `prepared` is the template with the databases, made by `prepare`. A derived class sets `name`,
    `dialect` and `loads`, and implements the abstract methods.
    """

    name: ClassVar[str]
    """The engine's name in a run's record, and on the command line if it is in `ENGINES`."""
    dialect: ClassVar[Dialect]
    loads: ClassVar[tuple[Kind, ...]] = ("portable",)
    """The kinds of databases that the engine loads; variant data are of the first kind."""
    databases: Sequence[str]
    """The databases' names, sorted."""
    max_rows = 100_000
    max_bytes = 8 * MIB
    """The most rows and bytes in one answer; the rest is not fetched (`Table.cut`)."""
    max_statement = 16 * MIB - 1024
    """The most bytes in a statement: MariaDB ends the session if it is longer."""

    @classmethod
    def missing(cls) -> str | None:
        """Return why no server can start on this machine; None if one can."""
        return None

    @classmethod
    @abstractmethod
    def prepare(cls, databases: Databases) -> Template:
        """Return a template with these databases, from the cache if possible. Their kind must be in
        `loads`. Raises `DataError` for databases that cannot be loaded."""

    @classmethod
    def attacks(cls) -> Sequence[Any]:
        """Return the attacks on this engine only (`intercode.redteam.sql.Attack`), which
        `intercode attack` tries after the attacks on all engines."""
        attacks: Mapping[str, Sequence[Any]] = part("engine_attacks")
        return attacks.get(cls.name, ())

    def __init__(self, prepared: Template, databases: Databases) -> None:
        self.databases, self._content, self.prepared = databases.names, databases, prepared
        self.left_out = databases.left_out
        self._db: str | None = None
        self._broken = self._closed = False
        self.sandbox = self.new_sandbox()
        try:
            self.start_server()
        except BaseException:
            self.sandbox.close()
            raise

    def open(self, db: str) -> None:
        """Begin an episode on `db`: original content, a new session, the agent's privileges."""
        db = self.name_of(db)
        self.require_server()
        try:
            self.begin_episode(db)
        except (SandboxError, DataError):  # dead, out of space, or the content cannot be restored
            self._restart()
            self.begin_episode(db)

    @abstractmethod
    def run(self, statement: str, *, seconds: float) -> Answer:
        """Execute one statement as the agent, and stop it after `seconds`."""

    @abstractmethod
    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        """Execute one read-only statement as the grader, on the original content of `db`.

        Raises `UsageError` if the episode has changed `db` and no original copy is available.
        """

    def reading(self) -> AbstractContextManager[Read]:
        """Replace the agent's session with a new one, and give a function that reads the content
        that the episode has committed.

        Uncommitted changes, temporary tables and settings of the session are lost.
        """
        raise UsageError(f"the engine {self.name} cannot compare what a gold writes")

    def schema(self, db: str) -> str:
        """Return the CREATE statements of the original `db`, as the server prints them."""
        tables, _, after = self.dialect.creation(lambda query: self.table(db, query).rows, db)
        return "\n\n".join(f"{create};" for create in (*tables.values(), *after))

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return `engine` (the name), `version`, and the settings that affect results, for the
        run's record."""

    def close(self) -> None:
        """End the server. May be called twice."""
        if not self._closed:
            self._closed = True
            self._db = None
            self.disconnect()
            self.sandbox.close()

    def table(self, db: str, statement: str, *, seconds: float = 60.0) -> Table:
        """Return the result of `run_gold`. Raises `DataError` if it is not a table."""
        return read_table(partial(self.run_gold, db, seconds=seconds), db, statement)

    def name_of(self, db: str) -> str:
        """Return the exact name of a database, found without regard to case. Raises `UsageError` if
        there is none."""
        for name in self.databases:
            if name.lower() == db.lower():
                return name
        names = ", ".join(self.databases[:8]) or "none"
        if len(self.databases) > 8:
            names += " …"
        raise UsageError(f"there is no database {db!r}; there are {names}")

    def __exit__(self, *failure: object) -> None:
        self.close()

    def too_long(self, statement: str) -> Answer | None:
        """Return an error answer for a statement that is too long; None for any other."""
        size = len(statement.encode("utf-8", "surrogatepass"))
        if size <= self.max_statement:
            return None
        return Answer(error=f"the statement has {size} bytes; the limit is {self.max_statement}")

    # -- the server --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def log(self) -> str:
        """Return the path of the server's log in the sandbox."""

    @property
    def limits(self) -> Limits:
        """Return the sandbox limits that the server needs."""
        return Limits()

    @abstractmethod
    def start_server(self) -> None:
        """Start a server in the fresh `sandbox` and connect to it. Raises `SandboxDied` if it does
        not start."""

    @abstractmethod
    def begin_episode(self, db: str) -> None:
        """Begin an episode on the running server. Raises `SandboxError`, or `DataError` for
        unreadable content."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close all open connections."""

    def require_server(self) -> None:
        """Replace a server that has died. Raises `UsageError` if the engine is closed."""
        if self._closed:
            raise UsageError("the engine is closed")
        if self._broken:
            self._restart()

    def new_sandbox(self) -> LocalSandbox:
        """Return a sandbox with the original databases, in which no server runs yet."""
        return usual_provider().sandbox(self.prepared, limits=self.limits, session="stateless")

    def _restart(self) -> None:
        """Replace the server with a new one on the original content."""
        self.disconnect()
        try:
            self.sandbox.reset()
        except SandboxError:  # the sandbox is dead as well
            self.sandbox.close()
            self.sandbox = self.new_sandbox()
        self._db = None
        self._broken = False
        self.start_server()

    def death(self, message: str) -> SandboxDied:
        """Return the error for a server that has died, with the end of its log, and with the agent
        at fault if a limit was exceeded.

        A sandbox that exceeds a limit kills all its processes, and the next call reports `killed`.
        A server in Python that reaches its own memory limit logs `MemoryError`. In both cases the
        agent's statement was the cause, whether or not a second try succeeds.
        """
        self._broken = True
        try:
            report = self.sandbox.exec("", argv=["true"], cwd="/", timeout=2)
        except SandboxError as error:
            return SandboxDied(message, by_agent=isinstance(error, SandboxDied) and error.by_agent)
        parts = [message, report.output.strip()]
        log = ""
        with suppress(OSError, SandboxError):
            log = self.sandbox.read(self.log).decode(errors="replace").rstrip()[-_LOG_BYTES:]
        if log:
            parts.append("its log ends:\n" + "\n".join(log.splitlines()[-_LOG_LINES:]))
        return SandboxDied(
            "; ".join(filter(None, parts)),
            by_agent=report.killed or log.endswith("MemoryError"),
        )


class SessionLost(SandboxError):
    """The server ended the session, or died itself."""


def read_table(read: Read, db: str, statement: str) -> Table:
    answer = read(statement)
    if answer.table is None:
        raise DataError(f"database {db}: {answer.error}; in {statement[:200]}")
    return answer.table


def run_script(sandbox: LocalSandbox, script: str) -> ExecResult:
    return sandbox.exec("", argv=["bash", "-c", script], cwd="/")


def is_alive(sandbox: LocalSandbox, pid_file: str) -> bool:
    return run_script(sandbox, f"kill -0 $(cat {pid_file})").exit_code == 0


def wait_for_server(
    sandbox: LocalSandbox, pid_file: str, connect: Callable[[], Connection]
) -> Connection | None:
    """Return the connection as soon as a new server accepts it; None if the server does not
    start."""
    began = time.monotonic()
    while True:
        try:
            return connect()
        except (OSError, SessionLost):
            waited = time.monotonic() - began
            if waited > PATIENCE or (waited > _EARLY and not is_alive(sandbox, pid_file)):
                return None
            time.sleep(_POLL)


def cached_layer(below: Template, words: Sequence[str], build: Callable[[Path], None]) -> Template:
    """Return a template with one more layer, which `build` makes from what `words` say."""
    return below.over(cache.folder("layers", hash_of(*words), build))


_loaded: dict[str, type[Engine]] = {}


def engine_class(name: str) -> type[Engine]:
    """Return the engine called `name`: one of `ENGINES`, `module:Class` or `path.py:Class`.

    Raises `UsageError` for an unknown name, or a class that is not an engine.
    """
    path = ENGINES.get(name, name)
    if not all(path.partition(":")) or "://" in path:  # a URL may contain a password
        raise UsageError(
            f"there is no engine {name.partition(':')[0]!r}; there are {', '.join(ENGINES)},"
            " module:Class and path.py:Class; for a running server, dump the databases"
            " (mariadb-dump --databases NAME… >FILE) and use --dump FILE"
        )
    if name in _loaded:
        return _loaded[name]
    engine = load_plugin(path, "engine")
    base = f"{Engine.__module__}.Engine"
    if not (isinstance(engine, type) and issubclass(engine, Engine)):
        raise UsageError(f"{name} is not a database engine; name a class derived from {base}")
    undeclared = [word for word in ("name", "dialect") if not hasattr(engine, word)]
    if lacking := [*undeclared, *sorted(engine.__abstractmethods__)]:
        raise UsageError(f"{name} lacks {', '.join(lacking)}; see {base}")
    _loaded[name] = engine
    return engine


def dialects() -> list[Dialect]:
    """Return the dialects of `ENGINES` and of all other loaded engines."""
    for name in ENGINES:
        engine_class(name)
    return list({engine.dialect.name: engine.dialect for engine in _loaded.values()}.values())


def engine_maker(name: str | None, content: Databases) -> Callable[[], Engine]:
    """Prepare the databases once, and return a function that makes engines, each with its own
    server.

    `name` is as for `engine_class`; the default is the first of `ENGINES` that loads the databases.
    Raises `UsageError` for an unknown name, or for databases that only other engines load,
    `DataError` for databases that cannot be loaded, `SandboxUnavailable` if no server is installed.
    """
    able = (other for other in ENGINES if content.kind in engine_class(other).loads)
    name = name or next(able)
    engine = engine_class(name)
    if content.kind not in engine.loads:
        loads = " or ".join(_KINDS[kind] for kind in engine.loads)
        raise UsageError(
            f"the databases are {_KINDS[content.kind]}, and {name} loads {loads}: use --engine"
            f" {' or '.join(able)}"
        )
    if why := engine.missing():
        raise SandboxUnavailable(why)
    return partial(engine, engine.prepare(content), content)
