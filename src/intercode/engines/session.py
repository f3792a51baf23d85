"""One session with a MySQL or MariaDB server: PyMySQL over a socket that keeps time.

    ask ──► rows, up to the caps ──► Answer
     │ time is up        │ enough
     └─► KILL QUERY ◄────┘      the session lives on
          └─► KILL CONNECTION      it is lost, the server lives on
               └─► Overrun            the server does not react: replace it

PyMySQL's own time-out closes the connection and stops nothing in the server, so the socket that it is given here (`Line`)
watches the time and calls for help. The agent can change each of the server's time limits; this one it cannot reach.
`rows.py` reads the rows.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from intercode.engines.base import Answer, Caps
from intercode.engines.waiting import Waiting
from intercode.sandbox.guest.limit import Limit
from intercode.types import Table

if TYPE_CHECKING:
    from intercode.engines.rows import Result

Stop = Callable[[str, int], None]
"""Stops what a session does: `QUERY` or `CONNECTION`, and the session's number."""

_RESCUES = (("QUERY", 0.2), ("CONNECTION", 0.15))
"""What is killed in turn, and the seconds in which that must have shown."""
_BUFFER = 1 << 16
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

    `overdue`: it was.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._wait, self._limit = sock, Waiting(sock), Limit(0.0)
        self._rescue: Callable[[int], float] = _no_rescue
        self._calls = 0

    def arm(self, seconds: float, rescue: Callable[[int], float]) -> None:
        self._limit, self._rescue, self._calls = Limit(seconds), rescue, 0
        self._wait.sending(seconds)

    @property
    def overdue(self) -> bool:
        return self._calls > 0

    def readinto(self, buffer: Any) -> int:
        while True:
            try:
                self._wait.receiving(self._limit.wait())
                return self._sock.recv_into(buffer)
            except BlockingIOError:  # at the next look
                continue
            except TimeoutError:
                self._calls += 1
                self._limit = Limit(self._rescue(self._calls))

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
        from pymysql.constants import CLIENT

        from intercode.engines.rows import RowConnection

        self._stop: Stop = lambda what, number: None
        self._line = Line(sock)
        self._line.arm(seconds, _no_rescue)
        self._connection = RowConnection(
            user=user,
            password=password,
            database=db,
            charset="utf8mb4",
            autocommit=None,
            client_flag=CLIENT.MULTI_STATEMENTS if many else 0,
            ssl_disabled=True,
            defer_connect=True,
        )
        self._enter()
        self.number: int = self._connection.thread_id()

    @property
    def overdue(self) -> bool:
        """Whether the last statement's time ran out."""
        return self._line.overdue

    def query(self, statement: str, *, seconds: float = 60.0) -> tuple[tuple[Any, ...], ...]:
        """All rows of the last of a host's own statements. Raises pymysql's errors, and `SessionLost`."""
        from pymysql import err

        try:
            self._line.arm(seconds, _no_rescue)
            return self._query(statement)
        except (Overrun, err.InterfaceError, *_UNREAD) as error:
            raise SessionLost(str(error) or "no answer in time") from None
        except err.MySQLError as error:
            if self._gone(error):
                raise SessionLost(str(error)) from None
            raise

    def ask(self, statement: str, seconds: float, caps: Caps, stop: Stop) -> Answer:
        """One statement of a stranger. Raises `SessionLost` and `Overrun`."""
        from pymysql import err

        try:
            self._stop = stop
            self._line.arm(seconds, self._rescue)
            return self._ask(statement, caps, stop)
        except (err.InterfaceError, *_UNREAD) as error:
            raise SessionLost(str(error)) from None
        except err.MySQLError as error:
            return self._refused(error)

    def close(self) -> None:
        """At once, without a farewell; the server rolls back, unlocks and drops temporary tables when it notices."""
        unread = self._connection._result
        if unread is not None:
            unread.unbuffered_active = False  # PyMySQL would read on when it is forgotten
        self._line.close()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        from pymysql import err

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

    def _rescue(self, call: int) -> float:
        if call > len(_RESCUES):
            raise Overrun
        what, patience = _RESCUES[call - 1]
        self._stop(what, self.number)
        return patience

    def _query(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            rows = cursor.fetchall()
            while cursor.nextset():
                rows = cursor.fetchall()
            return tuple(rows)

    def _ask(self, statement: str, caps: Caps, stop: Stop) -> Answer:
        result = self._connection.ask(statement)
        if result.description is None:
            self._connection.drain(result)
            return Answer(affected=max(result.affected_rows, 0), timed_out=self._line.overdue)
        columns = tuple([column[0] for column in result.description])
        rows, cut = _rows(result, caps)
        if cut:
            stop("QUERY", self.number)
        self._leave(result, killed=cut)
        return Answer(Table(columns, rows, cut), timed_out=self._line.overdue)

    def _leave(self, result: Result, *, killed: bool) -> None:
        """Read away what is left, also a procedure's further results. A killed session gets its error here, or with the next
        statement."""
        from pymysql import err

        try:
            self._connection.drain(result)
            if killed:
                self._connection.ping(reconnect=False)
        except err.MySQLError as error:
            if _code(error) != _INTERRUPTED or not killed:
                raise

    def _refused(self, error: Any) -> Answer:
        """An error of the server's is an answer; one of the line's is not."""
        if self._gone(error):
            raise SessionLost(str(error)) from None
        message = str(error.args[1]) if len(error.args) > 1 else str(error)
        return Answer(error=message, timed_out=self._line.overdue)

    def _gone(self, error: Any) -> bool:
        return _code(error) in _GONE or not self._connection.open


def _no_rescue(call: int) -> float:
    raise Overrun


def _rows(result: Result, caps: Caps) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    rows = result.fetch(caps.rows, 2 * caps.bytes)
    if len(rows) > caps.rows or result.unbuffered_active:
        return _fitting(rows[: caps.rows], caps, cut=True)
    return _fitting(rows, caps, cut=False) if result.taken > caps.bytes else (tuple(rows), False)


def _code(error: Any) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _fitting(rows: list[tuple[Any, ...]], caps: Caps, *, cut: bool) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """The rows that go into the byte cap, by their own sizes: where the cut is must not depend on how the stream was packed."""
    room = caps.bytes
    for number, row in enumerate(rows):
        room -= 4 + sum(1 + _size(value) for value in row)
        if room < 0:
            return tuple(rows[:number]), True
    return tuple(rows), cut


def _size(value: Any) -> int:
    if isinstance(value, bytes):
        return len(value)
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else len(str(value))
