"""One session with a MySQL or MariaDB server: PyMySQL over a socket that keeps time.

    ask ──► rows, up to the caps ──► Answer
     │ time is up        │ enough
     └─► KILL QUERY ◄────┘      the session lives on
          └─► KILL CONNECTION      it is lost, the server lives on
               └─► Overrun            the server does not react: replace it

PyMySQL's own time-out closes the connection and stops nothing in the server, so the socket that it is given here (`Line`)
watches the time and calls for help. The agent can change each of the server's time limits; this one it cannot reach.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable
from typing import Any

from pymysql import err
from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from intercode.envs.sql.engines.base import Answer, Caps
from intercode.sandbox.guest.limit import Limit
from intercode.types import Table

Stop = Callable[[str, int], None]
"""Stops what a session does: `QUERY` or `CONNECTION`, and the session's number."""

_RESCUES = (("QUERY", 0.2), ("CONNECTION", 0.15))
"""What is killed in turn, and the seconds in which that must have shown."""
_BUFFER = 1 << 16
_FETCHED = 16
"""Rows at once: few, as each may have as many bytes as the server lets into a packet."""
_INTERRUPTED = 1317
_GONE = (0, 1927, 2006, 2013)
"""Errors of the line, and of a session that was killed."""
_UNREAD = (OSError, ValueError, ArithmeticError, LookupError, TypeError, AssertionError, struct.error)
"""What PyMySQL raises for what it cannot read: text that is not UTF-8, numbers in an encoding that the agent chose."""

LOST = "Lost connection to the server during the statement"
"""The answer to a statement that the session ended with."""


class Overrun(Exception):
    """The server does not stop a statement."""


class SessionLost(Exception):
    """The server ended the session, or went itself."""


class Line(io.RawIOBase):
    """What PyMySQL takes for a socket. `arm` sets when time is up; then `rescue` is asked for more, by the number of the call.

    `overdue`: it was. `taken`: bytes that were received since `arm`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._limit = sock, Limit(0.0)
        self._rescue: Callable[[int], float] = _no_rescue
        self._calls = self.taken = 0

    def arm(self, seconds: float, rescue: Callable[[int], float]) -> None:
        self._limit, self._rescue, self._calls, self.taken = Limit(seconds), rescue, 0, 0
        self._sock.settimeout(seconds)

    @property
    def overdue(self) -> bool:
        return self._calls > 0

    def readinto(self, buffer: Any) -> int:
        while True:
            wait = self._limit.wait()
            if wait <= 0:
                self._calls += 1
                self._limit = Limit(self._rescue(self._calls))
                continue
            if wait != self._sock.gettimeout():
                self._sock.settimeout(wait)
            try:
                size = self._sock.recv_into(buffer)
            except TimeoutError:  # at the next look
                continue
            self.taken += size
            return size

    # -- what PyMySQL calls -----------------------------------------------------------------------------------------

    def readable(self) -> bool:
        return True

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self, _BUFFER)

    def settimeout(self, seconds: float | None) -> None:
        """PyMySQL's wish; `arm` decides."""

    def setsockopt(self, *what: Any) -> None:
        self._sock.setsockopt(*what)

    def sendall(self, data: bytes) -> None:
        self._sock.sendall(data)

    def close(self) -> None:
        self._sock.close()
        super().close()


class Session:
    """A login. `number` is the server's for it."""

    def __init__(
        self, sock: socket.socket, *, user: str, password: str, db: str | None = None, many: bool = False, seconds: float = 10.0
    ) -> None:
        """`many`: several statements may go in one piece. Raises pymysql's `OperationalError` for a refused login, and
        `SessionLost` if the server goes meanwhile."""
        self._stop: Stop = lambda what, number: None
        self._line = Line(sock)
        self._line.arm(seconds, _no_rescue)
        self._connection = Connection(
            user=user,
            password=password,
            database=db,
            charset="utf8mb4",
            autocommit=None,
            client_flag=CLIENT.MULTI_STATEMENTS if many else 0,
            ssl_disabled=True,
            defer_connect=True,
        )
        try:
            self._connection.connect(self._line)
        except (Overrun, *_UNREAD) as error:
            self._line.close()
            raise SessionLost(f"no login: {error}") from None
        except err.MySQLError as error:
            self._line.close()
            if _code(error) in _GONE:
                raise SessionLost(str(error)) from None
            raise
        self.number: int = self._connection.thread_id()

    @property
    def overdue(self) -> bool:
        """Whether the last statement's time ran out."""
        return self._line.overdue

    def query(self, statement: str, *, seconds: float = 60.0) -> tuple[tuple[Any, ...], ...]:
        """All rows of the last of a host's own statements. Raises pymysql's errors, and `SessionLost`."""
        try:
            self._line.arm(seconds, _no_rescue)
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                rows = cursor.fetchall()
                while cursor.nextset():
                    rows = cursor.fetchall()
                return tuple(rows)
        except (Overrun, err.InterfaceError, *_UNREAD) as error:
            raise SessionLost(str(error) or "no answer in time") from None
        except err.MySQLError as error:
            if self._gone(error):
                raise SessionLost(str(error)) from None
            raise

    def ask(self, statement: str, seconds: float, caps: Caps, stop: Stop) -> Answer:
        """One statement of a stranger. Raises `SessionLost` and `Overrun`."""
        try:
            self._stop = stop
            self._line.arm(seconds, self._rescue)
            return self._ask(statement, caps)
        except (err.InterfaceError, *_UNREAD) as error:
            raise SessionLost(str(error)) from None
        except err.MySQLError as error:
            if self._gone(error):
                raise SessionLost(str(error)) from None
            message = str(error.args[1]) if len(error.args) > 1 else str(error)
            return Answer(error=message, timed_out=self._line.overdue)
        finally:
            if self._connection._result is not None:  # PyMySQL would read on when a result that is not read out is forgotten
                self._connection._result.unbuffered_active = False

    def close(self) -> None:
        """At once, without a farewell; the server rolls back, unlocks and drops temporary tables when it notices."""
        self._line.close()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _rescue(self, call: int) -> float:
        if call > len(_RESCUES):
            raise Overrun
        what, patience = _RESCUES[call - 1]
        self._stop(what, self.number)
        return patience

    def _ask(self, statement: str, caps: Caps) -> Answer:
        cursor = self._connection.cursor(SSCursor)
        cursor.execute(statement)
        described, affected = cursor.description, cursor.rowcount
        rows, cut = self._rows(cursor, caps)
        try:
            if cut:
                self._stop("QUERY", self.number)
            unread: bool | None = True
            while unread:  # the rows that are left, and a procedure's further results
                for _ in cursor.fetchall_unbuffered():
                    pass
                unread = cursor.nextset()
            if cut:
                self._connection.ping(reconnect=False)  # an error that came late belongs to this statement
        except err.MySQLError as error:
            if _code(error) != _INTERRUPTED or not cut:
                raise
        if described is None:
            return Answer(affected=max(affected, 0), timed_out=self._line.overdue)
        return Answer(Table(tuple(column[0] for column in described), rows, cut), timed_out=self._line.overdue)

    def _rows(self, cursor: Any, caps: Caps) -> tuple[tuple[tuple[Any, ...], ...], bool]:
        """Return the rows that go into the caps, and whether there are more. A row's size is that of its text, so that the cut
        does not depend on how the stream was packed."""
        rows: list[tuple[Any, ...]] = []
        enough = 2 * caps.bytes + _BUFFER
        while some := cursor.fetchmany(_FETCHED):
            rows += some
            if len(rows) > caps.rows or self._line.taken > enough:
                break
        if self._line.taken > caps.bytes:
            room = caps.bytes
            for number, row in enumerate(rows[: caps.rows]):
                room -= len(repr(row).encode("utf-8", "replace"))
                if room < 0:
                    return tuple(rows[:number]), True
        return tuple(rows[: caps.rows]), len(rows) > caps.rows or bool(some)

    def _gone(self, error: Any) -> bool:
        return _code(error) in _GONE or not self._connection.open


def _no_rescue(call: int) -> float:
    raise Overrun


def _code(error: Any) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0
