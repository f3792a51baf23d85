"""Any MySQL or MariaDB server that the user names: read, never written.

    run ── one reading statement? ── START TRANSACTION READ ONLY ── statement ── ROLLBACK

Two locks on one door. The transaction refuses every change to a table; but some statements end it or do not care for it
(COMMIT, SET PASSWORD, a compound block), so only statements that begin as a query do are sent at all. Nothing is written, so
nothing has to be rebuilt. Left out: TLS (use a tunnel), and `fork` of what a session holds.
"""

from __future__ import annotations

import contextlib
import re
import socket
from typing import Any
from urllib.parse import unquote, urlsplit

from intercode.engines.base import Answer, Caps, Engine, closed_on_failure
from intercode.engines.session import LOST, Overrun, Session, SessionLost
from intercode.engines.session import schema as schema_of
from intercode.errors import SandboxDied, SandboxError, SandboxUnavailable, UsageError

_FORM = "mysql://USER:PASSWORD@HOST:PORT/"
_PORT = 3306
_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
_READING = re.compile(r"(?:SELECT|WITH|SHOW|DESCRIBE|DESC|EXPLAIN|TABLE|VALUES)\b", re.I)
_BLANK = re.compile(r"(?:\s+|\(|--(?=\s)[^\n]*(?:\n|\Z)|#[^\n]*(?:\n|\Z)|/\*(?![!M]).*?\*/)*", re.S)
_FILES = re.compile(r"(?<![a-z_$])(?:OUTFILE|DUMPFILE|LOAD_FILE)(?![\w$])", re.I | re.A)
_STRING = re.compile(r"""'[^']*'|"(?!LOAD_FILE")[^"]*"|`(?!LOAD_FILE`)[^`]*`""", re.I)
"""A function may be called by its name in quotes."""
_COMMENT = re.compile(r"--|#|/\*")
_REFUSED = "Only statements that read are sent to this server, one at a time"
_CONNECT = 10.0


class UrlEngine(Engine):
    """See `Engine`. Raises `UsageError` for a bad URL or a refused login, `SandboxUnavailable` for a server that does not
    answer; one that goes later is a `SandboxError`: no reward, and nobody's wrong usage."""

    dialect = "mysql"

    def __init__(self, url: str, *, caps: Caps | None = None) -> None:
        self._user, self._password, self._host, self._port = _parts(url)
        self._url, self._caps = url, caps or Caps()
        self._session: Session | None = None
        self._db, self._closed = "", False
        try:
            self._admin = self._login(None)
            with closed_on_failure(self):
                listed = [str(name) for (name,) in self._ask("SHOW DATABASES")]
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            raise UsageError(str(error)) from None
        self.databases = sorted(name for name in listed if name.lower() not in _SYSTEM)

    def open(self, db: str) -> None:
        self._leave()
        self._db = self.name_of(db)
        self._session = self._login(self._db)

    def run(self, statement: str, *, seconds: float) -> Answer:
        if self._session is None:
            raise UsageError("no database is open; call open(db) first")
        try:
            return self._guarded(self._session, statement, seconds)
        except SessionLost:
            lost, self._session = self._session, self._login(self._db)
            lost.close()
            return Answer(error=LOST, timed_out=lost.overdue, lost=True)

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        session = self._login(self.name_of(db))
        try:
            return self._guarded(session, statement, seconds)
        except SessionLost:
            self._ask("DO 0")
            return Answer(error=LOST, timed_out=session.overdue, lost=True)
        finally:
            session.close()

    def schema(self, db: str) -> str:
        return schema_of(self, db)

    def fork(self) -> UrlEngine:
        """Nothing can have been written: a second one is the same."""
        self._alive()
        try:
            twin = UrlEngine(self._url, caps=self._caps)
        except UsageError as error:  # it was none the first time
            raise SandboxError(str(error)) from None
        with closed_on_failure(twin):
            if self._session is not None:
                twin.open(self._db)
        return twin

    def facts(self) -> dict[str, Any]:
        version, mode = self._ask("SELECT VERSION(), @@sql_mode")[0]
        kind, server = "mariadb" if "mariadb" in str(version).lower() else "mysql", f"{self._host}:{self._port}"
        return {"engine": kind, "version": version, "max_rows": self._caps.rows, "sql_mode": mode, "server": server}

    def close(self) -> None:
        self._closed = True
        self._leave()
        self._admin.close()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._closed:
            raise UsageError("the engine is closed")

    def _leave(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _guarded(self, session: Session, statement: str, seconds: float) -> Answer:
        if not reads(statement):
            return Answer(error=_REFUSED)
        try:
            self._query(session, "START TRANSACTION READ ONLY")
            answer = session.ask(statement, seconds, self._caps, self._stop)
            self._query(session, "ROLLBACK")
        except Overrun:
            raise SandboxDied(f"the server {self._host} does not stop a statement") from None
        return answer

    def _login(self, db: str | None) -> Session:
        """Raises `SandboxError` if there is none."""
        from pymysql.err import MySQLError

        self._alive()
        try:
            sock = socket.create_connection((self._host, self._port), timeout=_CONNECT)
        except OSError as error:
            raise SandboxUnavailable(f"{self._host}:{self._port} does not answer ({error}); is the server running?") from None
        try:
            return Session(sock, user=self._user, password=self._password, db=db)
        except (MySQLError, RuntimeError, SessionLost) as error:
            raise SandboxError(f"{self._host} refuses the login of {self._user}: {error.args[-1]}") from None

    def _stop(self, what: str, number: int) -> None:
        with contextlib.suppress(SandboxError):  # it has ended meanwhile
            self._ask(f"KILL {what} {number}", seconds=1)

    def _ask(self, statement: str, *, seconds: float = 60.0) -> tuple[tuple[Any, ...], ...]:
        """By the host's own session, which the server ends when it is silent for long."""
        try:
            return self._query(self._admin, statement, seconds)
        except SessionLost:
            self._admin.close()
            self._admin = self._login(None)
        try:
            return self._query(self._admin, statement, seconds)
        except SessionLost as error:
            raise SandboxError(f"{self._host} ends every session ({error}); is the server well?") from None

    def _query(self, session: Session, statement: str, seconds: float = 60.0) -> tuple[tuple[Any, ...], ...]:
        """A statement of the host's own, so that a refusal is nobody else's fault."""
        from pymysql.err import MySQLError

        try:
            return session.query(statement, seconds=seconds)
        except MySQLError as error:
            raise SandboxError(f"{self._host} refuses {statement}: {error.args[-1]}") from None


def reads(statement: str) -> bool:
    """Whether it begins as a query does, comments aside, and names no file of the server's machine."""
    blank = _BLANK.match(statement)
    return _READING.match(statement, blank.end() if blank else 0) is not None and not _names_file(statement)


def _names_file(statement: str) -> bool:
    """Outside of strings; anywhere if a comment or a backslash may move their ends, which the server's settings decide."""
    bare = _STRING.sub("''", statement)
    unsure = "\\" in statement or _COMMENT.search(bare)
    return _FILES.search(statement if unsure else bare) is not None


def _parts(url: str) -> tuple[str, str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError as error:
        raise UsageError(f"the URL of a server is {_FORM}: {error}") from None
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or not parts.username:
        raise UsageError(f"the URL of a server is {_FORM}")
    return unquote(parts.username), unquote(parts.password or ""), parts.hostname, port
