"""The MariaDB engine: a server of its own, an account for each database, and a watch on writes.

    open(db) ── end the last session ── counters moved? ──yes──► db counts as written
       └─ was `db` written? ──yes──► drop it and run its statements again ── a new session for the agent

The server's own counters show a write: the binary log's position, the number of rows handed to a table, which counts
transactions that were rolled back too (they move AUTO_INCREMENT), and the number of the few statements that neither shows. The
agent cannot switch off or reset any of them. A written database is rebuilt when it is next needed.

Left out: a rebuilt database has the content of the dump, not the bytes of the first files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pymysql.err import MySQLError, OperationalError

from intercode.envs.sql.engines import Answer, Caps, Databases, Engine, closed_on_failure, mariadb_server, server_death
from intercode.envs.sql.engines.mariadb_server import LOST, Overrun, Server, Session, SessionLost
from intercode.envs.sql.text import quote_name
from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox.base import MIB
from intercode.sandbox.template import Template

_COUNTERS = ("Handler_write", "Handler_update", "Handler_delete", "Com_xa_prepare", "Com_analyze", "Com_optimize", "Com_repair")
_COUNT = (
    "SELECT @@gtid_binlog_pos, GROUP_CONCAT(variable_value ORDER BY variable_name) "
    f"FROM information_schema.global_status WHERE variable_name IN {_COUNTERS}"
)
_OPTIONS = ("version", "sql_mode", "lower_case_table_names", "collation_server", "default_storage_engine")
_KILL = 0.25
"""Seconds for a KILL, which a healthy server answers at once."""
_PATIENCE = 200
"""Looks at a session that was killed."""
_ROOM = 96 * MIB
"""Bytes by which a server's files may grow before the server is replaced: a file of InnoDB's never shrinks."""
_ACCESS_DENIED = 1045

_Count = tuple[Any, ...]
"""The values of the server's counters. If two are equal, nothing was written between them."""


class MariadbEngine(Engine):
    """Run one MariaDB server; see `Engine`. `prepared` comes from `mariadb_server.prepare`; the server starts at once."""

    dialect = "mysql"
    _count_at_open: _Count

    def __init__(self, prepared: Template, databases: Databases, *, caps: Caps | None = None) -> None:
        self.databases = databases.names
        self._content, self._caps = databases, caps or Caps()
        self._server = Server(prepared)
        self._session: Session | None = None
        self._db: str | None = None
        self._closed = False
        with closed_on_failure(self), self._server_errors("at its start"):
            self._forget()

    def open(self, db: str) -> None:
        db = self.name_of(db)
        self._require_server()
        try:
            self._begin(db, self._end_episode())
        except (SandboxError, SessionLost, DataError, MySQLError):  # dead, out of space, or not to be rebuilt
            with self._server_errors("at a new start"):
                self._restart()
                self._begin(db, None)

    def run(self, statement: str, *, seconds: float) -> Answer:
        session = self._session
        if session is None or self._broken:
            raise UsageError("no database is open; call open(db) first")
        with self._server_errors("during a statement"):
            try:
                return session.execute(statement, seconds, self._caps, self._kill)
            except SessionLost:
                return self._replace_session(session)

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        db = self.name_of(db)
        self._require_server()
        with self._server_errors("during a gold"):
            if db == self._db and self._count() != self._count_at_open:
                raise UsageError(f"{db} was changed in this episode; run golds before the agent acts")
            if db in self._written:
                changed = self._count() != self._count_at_open
                self._rebuild(db)
                self._count_at_open = () if changed else self._count()
            with contextlib.closing(self._server.session("gold", db=db)) as session:
                try:
                    return session.execute(statement, seconds, self._caps, self._kill)
                except SessionLost:
                    self._server.admin.query("DO 0")
                    return Answer(error=LOST, timed_out=session.overdue, lost=True)

    def schema(self, db: str) -> str:
        names = [quote_name(str(name), "mysql") for name, _ in self.table(db, "SHOW FULL TABLES").rows]
        texts = [self.table(db, f"SHOW CREATE TABLE {name}").rows[0][1] for name in names]
        return "".join(f"{text};\n\n" for text in texts).strip()

    def facts(self) -> dict[str, Any]:
        with self._server_errors("while its settings were read"):
            values = self._server.admin.query("SELECT " + ", ".join("@@global." + name for name in _OPTIONS))[0]
        return {"engine": "mariadb", "max_rows": self._caps.rows, **dict(zip(_OPTIONS, values, strict=True))}

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._end_session()
            self._server.admin.close()
            self._server.close()

    # -- an episode's beginning and end -----------------------------------------------------------------------------

    def _begin(self, db: str, count: _Count | None) -> None:
        """Start an episode on `db`; `count` holds the counters if they cannot have moved since they were read."""
        changed = self._rebuild(db) | self._account(db)
        self._db = db
        if changed or count is None:
            self._count_at_open = self._count()
        self._session = self._server.session(self._user(db), db=db)

    def _end_episode(self) -> _Count | None:
        """End the last session and note whether it wrote; return the counters if it did not."""
        self._end_session()
        count = self._settled_count()
        db, self._db = self._db, None
        if db is None or count == self._count_at_open:
            return count
        self._written.add(db)
        self._accounts.discard(db)
        for form, length, branch, name in self._server.admin.query("XA RECOVER"):  # these outlive a session, with their locks
            data = name.encode() if isinstance(name, str) else bytes(name)
            xid = f"X'{data[:length].hex()}', X'{data[length : length + branch].hex()}', {form}"
            with contextlib.suppress(MySQLError):  # it says that it was rolled back
                self._server.admin.query(f"XA ROLLBACK {xid}")
        if self._disk_used() > self._disk_at_start + _ROOM:
            raise SessionLost("the server has grown")
        return None

    def _rebuild(self, db: str) -> bool:
        """Rebuild a database that was written; tell whether it was."""
        if db not in self._written:
            return False
        with contextlib.closing(self._server.session("root", many=True)) as session:
            session.query(f"SET sql_log_bin = 0, lock_wait_timeout = 2; DROP DATABASE IF EXISTS {quote_name(db, 'mysql')}")
            mariadb_server.load(session, self._content, db)
        self._written.discard(db)
        return True

    def _settled_count(self) -> _Count:
        """Return the counters after the server has ended the last session, with its locks and its transaction."""
        for _ in range(_PATIENCE):
            sessions = self._server.admin.query("SHOW PROCESSLIST", seconds=10)
            agents = [number for number, user, *_ in sessions if str(user).startswith("agent_")]
            if not agents:
                return self._count()
            for number in agents:
                self._kill("CONNECTION", number)
        raise SessionLost("a session does not end")

    def _user(self, db: str) -> str:
        return f"agent_{self.databases.index(db)}"

    def _account(self, db: str) -> bool:
        """Make the agent's account anew if an episode may have changed it; tell whether that was so."""
        if db in self._accounts:
            return False
        pattern, user = db.replace("_", "\\_").replace("%", "\\%"), self._user(db)
        self._server.admin.query(
            f"SET sql_log_bin = 0; CREATE OR REPLACE USER {user}@localhost IDENTIFIED BY '{self._server.password}'; "
            f"GRANT ALL ON {quote_name(pattern, 'mysql')}.* TO {user}@localhost; SET sql_log_bin = 1"
        )
        self._accounts.add(db)
        return True

    # -- faults -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _server_errors(self, when: str) -> Iterator[None]:
        """Raise `SandboxDied` if the server dies inside the block or refuses the admin; a lost session alone is no death."""
        try:
            yield
        except (SessionLost, Overrun, SandboxDied, MySQLError) as error:
            self._broken = True
            message = f"the database server died {when} ({str(error) or 'it does not stop'})"
            raise server_death(self._server.sandbox, message) from None

    def _replace_session(self, lost: Session) -> Answer:
        """Start a new session after one was killed. Raises `SessionLost` if the server itself is gone."""
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
        self._forget()

    def _forget(self) -> None:
        """Reset what is known of the server, which has just started."""
        self._written: set[str] = set()
        self._accounts: set[str] = set()
        self._db, self._broken = None, False
        self._disk_at_start = self._disk_used()
        self._count_at_open = self._count()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _require_server(self) -> None:
        if self._closed:
            raise UsageError("the engine is closed")
        if self._broken:
            self._restart()

    # -- the admin's session ----------------------------------------------------------------------------------------

    def _count(self) -> _Count:
        return self._server.admin.query(_COUNT, seconds=10)[0]

    def _kill(self, what: str, number: int) -> None:
        with contextlib.suppress(MySQLError):  # it has ended meanwhile
            self._server.admin.query(f"KILL {what} {number}", seconds=_KILL)

    def _disk_used(self) -> int:
        """Return the bytes used on the sandbox's disk."""
        result = self._server.sandbox.exec("", argv=["df", "--output=used", "-B1", "/"], cwd="/", timeout=60)
        if result.exit_code != 0:
            raise SandboxError(f"df failed beside the server: {result.output[-1000:].strip()}")
        return int(result.output.split()[-1])
