"""The MariaDB engine: a server of its own, an account for each database, and a watch on what was written.

    open(db) ── end the last session ── marks changed? ──yes──► db counts as written
       └─ was `db` written? ──yes──► drop it and run its statements again ── a new session for the agent

A write is noticed by what the server counts itself: the binary log's position, and the counters of rows that were handed to a
table, also by transactions that were rolled back (they move AUTO_INCREMENT), and of the few statements that neither shows. The
agent cannot switch off or reset any of them. A written database is rebuilt when it is next needed.

It leaves out what the dump does not hold: a rebuilt database has the content of the dump, not the bytes of the first files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pymysql.err import MySQLError, OperationalError

from intercode.envs.sql.engines import mariadbd
from intercode.envs.sql.engines.base import Answer, Caps, Engine, closed_on_failure, died
from intercode.envs.sql.engines.mariadbd import Prepared, Server
from intercode.envs.sql.engines.quoting import quoted
from intercode.envs.sql.engines.session import LOST, Overrun, Session, SessionLost
from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import MIB

_COUNTERS = (
    "Handler_write",
    "Handler_update",
    "Handler_delete",
    "Com_xa_prepare",
    "Com_analyze",
    "Com_optimize",
    "Com_repair",
)
_MARK = (
    "SELECT @@gtid_binlog_pos, GROUP_CONCAT(variable_value ORDER BY variable_name) "
    f"FROM information_schema.global_status WHERE variable_name IN {_COUNTERS}"
)
_KILL = 0.25
"""Seconds for a KILL, which a healthy server answers at once."""
_PATIENCE = 200
"""Looks at a session that was told to end."""
_ROOM = 96 * MIB
"""What a server may have grown by, in bytes, before it is replaced rather than mended: a file of InnoDB's never shrinks."""
_ACCESS_DENIED = 1045


_Mark = tuple[Any, ...]
"""What the server has counted. Two equal ones: nothing was written between them."""


class MariadbEngine(Engine):
    """See `Engine`. `prepared` comes from `mariadbd.prepare`; the server starts at once."""

    dialect = "mysql"
    _began: _Mark

    def __init__(self, prepared: Prepared, *, caps: Caps | None = None) -> None:
        self.databases = prepared.databases.names
        self._prepared, self._caps = prepared, caps or Caps()
        self._server = Server(prepared)
        self._session: Session | None = None
        self._db: str | None = None
        self._closed = False
        with closed_on_failure(self), self._watched("at its start"):
            self._fresh()

    def open(self, db: str) -> None:
        db = self.name_of(db)
        self._alive()
        try:
            self._begin(db, self._leave())
        except (SandboxError, SessionLost, DataError, MySQLError):  # dead, or out of space, or not to be mended
            with self._watched("at a new start"):
                self._restart()
                self._begin(db, None)

    def run(self, statement: str, *, seconds: float) -> Answer:
        session = self._session
        if session is None or self._broken:
            raise UsageError("no database is open; call open(db) first")
        with self._watched("during a statement"):
            try:
                return session.ask(statement, seconds, self._caps, self._stop)
            except SessionLost:
                return self._resumed(session)

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        db = self.name_of(db)
        self._alive()
        with self._watched("during a gold"), contextlib.closing(self._gold_session(db)) as session:
            try:
                return session.ask(statement, seconds, self._caps, self._stop)
            except SessionLost:
                self._server.admin.query("DO 0")
                return Answer(error=LOST, timed_out=session.overdue, lost=True)

    def schema(self, db: str) -> str:
        names = [quoted(str(name), "mysql") for name, _ in self.table(db, "SHOW FULL TABLES").rows]
        texts = [self.table(db, f"SHOW CREATE TABLE {name}").rows[0][1] for name in names]
        return "".join(f"{text};\n\n" for text in texts).strip()

    def facts(self) -> dict[str, Any]:
        options = ("version", "sql_mode", "lower_case_table_names", "collation_server", "default_storage_engine")
        with self._watched("when it was asked for its settings"):
            values = self._server.admin.query("SELECT " + ", ".join("@@global." + name for name in options))[0]
        return {"engine": "mariadb", "max_rows": self._caps.rows, **dict(zip(options, values, strict=True))}

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._end_session()
            self._server.admin.close()
            self._server.close()

    # -- an episode's beginning and end -----------------------------------------------------------------------------

    def _begin(self, db: str, mark: _Mark | None) -> None:
        """`mark`: what was counted last, if nothing happened since."""
        touched = self._pristine(db) | self._account(db)
        self._db = db
        if touched or mark is None:
            self._began = self._mark()
        self._session = self._server.session(self._user(db), db=db)

    def _leave(self) -> _Mark | None:
        """End the last episode: its session, and the innocence of its database if it wrote."""
        self._end_session()
        mark = self._settled()
        db, self._db = self._db, None
        if db is None or mark == self._began:
            return mark
        self._written.add(db)
        self._accounts.discard(db)
        self._end_prepared()
        if self._used() > self._used_first + _ROOM:
            raise SessionLost("the server has grown")
        return None

    def _pristine(self, db: str) -> bool:
        """Rebuild it if it was written; whether that was so."""
        if db not in self._written:
            return False
        with contextlib.closing(self._server.session("root", many=True)) as session:
            session.query(f"SET sql_log_bin = 0, lock_wait_timeout = 2; DROP DATABASE IF EXISTS {quoted(db, 'mysql')}")
            mariadbd.load(session, self._prepared.databases, db)
        self._written.discard(db)
        return True

    def _settled(self) -> _Mark:
        """What is counted once the server has let go of the last session: its locks, its transaction."""
        for _ in range(_PATIENCE):
            listed = self._server.admin.query("SHOW PROCESSLIST", seconds=10)
            agents = [number for number, user, *_ in listed if str(user).startswith("agent_")]
            if not agents:
                return self._mark()
            for number in agents:
                self._stop("CONNECTION", number)
        raise SessionLost("a session does not end")

    def _end_prepared(self) -> None:
        """Prepared transactions outlive their session, with their locks."""
        for form, length, branch, name in self._server.admin.query("XA RECOVER"):
            data = name.encode() if isinstance(name, str) else bytes(name)
            xid = f"X'{data[:length].hex()}', X'{data[length : length + branch].hex()}', {form}"
            with contextlib.suppress(MySQLError):  # it says that it was rolled back
                self._server.admin.query(f"XA ROLLBACK {xid}")

    def _user(self, db: str) -> str:
        return f"agent_{self.databases.index(db)}"

    def _account(self, db: str) -> bool:
        """Make the agent's account unless it is as it was made; whether that was needed."""
        if db in self._accounts:
            return False
        pattern, user = db.replace("_", "\\_").replace("%", "\\%"), self._user(db)
        self._server.admin.query(
            f"SET sql_log_bin = 0; CREATE OR REPLACE USER {user}@localhost IDENTIFIED BY '{self._server.password}'; "
            f"GRANT ALL ON {quoted(pattern, 'mysql')}.* TO {user}@localhost; SET sql_log_bin = 1"
        )
        self._accounts.add(db)
        return True

    def _gold_session(self, db: str) -> Session:
        if db == self._db and self._mark() != self._began:
            raise UsageError(f"{db} was changed in this episode; run golds before the agent acts")
        if db in self._written:
            changed = self._mark() != self._began
            self._pristine(db)
            self._began = () if changed else self._mark()
        return self._server.session("gold", db=db)

    # -- faults -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _watched(self, when: str) -> Iterator[None]:
        """The server's own death, told apart from a session's; also that it refuses the admin."""
        try:
            yield
        except (SessionLost, Overrun, SandboxDied, MySQLError) as error:
            self._broken = True
            raise died(self._server.sandbox, f"the database server died {when} ({str(error) or 'it does not stop'})") from None

    def _resumed(self, lost: Session) -> Answer:
        """A new session in the place of one that was killed; raises `SessionLost` if the server itself is gone."""
        lost.close()
        self._server.admin.query("DO 0")
        assert self._db is not None
        user = self._user(self._db)
        try:
            self._session = self._server.session(user, db=self._db)
        except OperationalError as error:
            if error.args[0] == _ACCESS_DENIED:
                raise SessionLost("the agent changed its password") from None
            self._session = self._server.session(user)
        return Answer(error=LOST, timed_out=lost.overdue, lost=True)

    def _restart(self) -> None:
        self._end_session()
        self._server.restart()
        self._fresh()

    def _fresh(self) -> None:
        """What is known of a server that has just started."""
        self._written: set[str] = set()
        self._accounts: set[str] = set()
        self._db, self._broken = None, False
        self._used_first = self._used()
        self._began = self._mark()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _alive(self) -> None:
        if self._closed:
            raise UsageError("the engine is closed")
        if self._broken:
            self._restart()

    # -- the admin's session ----------------------------------------------------------------------------------------

    def _mark(self) -> _Mark:
        return self._server.admin.query(_MARK, seconds=10)[0]

    def _stop(self, what: str, number: int) -> None:
        with contextlib.suppress(MySQLError):  # it has ended meanwhile
            self._server.admin.query(f"KILL {what} {number}", seconds=_KILL)

    def _used(self) -> int:
        """Bytes of the sandbox's disk."""
        result = self._server.sandbox.exec("", argv=["df", "--output=used", "-B1", "/"], cwd="/", timeout=60)
        if result.exit_code != 0:
            raise SandboxError(f"df failed beside the server: {result.output[-1000:].strip()}")
        return int(result.output.split()[-1])
