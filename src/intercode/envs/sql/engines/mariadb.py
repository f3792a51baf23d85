"""The MariaDB engine: a server inside the sandbox, an account for each database, and detection of
writes.

    this machine's userland ◄── layer (cached): mariadb-install-db, then the databases' statements
              └── overlay ──► mariadbd on the layer's files; written files are copied up to tmpfs
    host ── LocalSandbox.connect ──► its Unix socket ──► Session

    execute ──► rows, up to the caps ──► Answer
       │ time is up        │ enough
       └─► KILL QUERY ◄────┘          the session survives
            └─► KILL CONNECTION       the session is lost, the server survives
                 └─► SandboxDied      the server does not react: replace it

    open(db) ── end the last session ── counters moved? ──yes──► db counts as written
       └─ was `db` written? ──yes──► drop it and run its statements again
       └─ a new session for the agent

The server has no network, no valuable files, and no durability: its data end with the sandbox. A
start takes about a tenth of a second. PyMySQL's own timeout only closes the connection and stops
nothing in the server, so a socket of ours (`TimedSocket`) checks the time and has the statement
killed. The agent can change each of the server's time limits, but not this one.

The server's counters reveal writes: the binary log's position; the number of rows passed to tables,
which includes transactions that were rolled back (they advance AUTO_INCREMENT); and the number of
the few statements that neither shows. The agent cannot disable or reset any of them. A written
database is rebuilt when it is next needed.

Left out: a rebuilt database has the content of the dump, but its files are not identical.
"""

from __future__ import annotations

import io
import re
import secrets
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pymysql import err
from pymysql.connections import Connection
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.cursors import SSCursor

from intercode.envs.sql.dialect import Creation, Dialect, Query
from intercode.envs.sql.engines import (
    PATIENCE,
    READ_SECONDS,
    Answer,
    Databases,
    Engine,
    Read,
    SessionLost,
    cached_layer,
    is_alive,
    run_script,
    wait_for_server,
)
from intercode.envs.sql.text import split_statements
from intercode.errors import DataError, SandboxDied, SandboxError, SandboxUnavailable, UsageError
from intercode.types import Digits, Table
from intercode_sandbox import template
from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.guest.limit import Limit
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.pod import usual_provider
from intercode_sandbox.template import Template

Row = tuple[Any, ...]
SQL_MODE = (
    "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION"
)
"""MySQL 8's default without ONLY_FULL_GROUP_BY, which MariaDB checks without regard to functional
dependence."""

_RUN = Limits(
    memory=1024 * MIB, disk=768 * MIB, file_size=512 * MIB, processes=128, open_files=1024
)
_BUILD = Limits(
    seconds=600,
    memory=4096 * MIB,
    disk=4096 * MIB,
    file_size=4096 * MIB,
    processes=256,
    open_files=4096,
)
_FLOAT_DIGITS, _ALL_DECIMALS = 6, 31
"""Significant digits that the server prints for a FLOAT; and the number of decimals in the protocol
from which a number is printed in full."""
SOCKET = "/run/mariadb.sock"
_DATA = "/var/lib/mariadb"
_PATH = "/usr/sbin:/usr/bin:/usr/libexec"
LOGS = "/var/log/mariadb"
_PID = f"{LOGS}/pid"
_LOG = f"{LOGS}/output"
_LAYOUT = "3"
"""Part of the cache key: increase it when the preparation changes."""
_LARGEST = "1G"
"""The longest statement in a dump, in bytes. The limit for an agent's statements is lower, since it
also bounds the results of functions."""
_AT_LEAST, _SLOWEST = 60.0, 50_000
"""Seconds for a statement while loading, plus one per `_SLOWEST` characters loaded so far, since an
index may cover all of them."""
_FAREWELL = b"Shutdown complete"
"""The last line in the log of a server that has flushed all its data."""

_INSTALL = f"""
set -e
mkdir -p {_DATA} {LOGS} /srv/exchange
mariadb-install-db --no-defaults --user=root --datadir={_DATA} \
--auth-root-authentication-method=normal \
  --lower-case-table-names=1 --skip-test-db --skip-name-resolve --innodb-log-file-size=4M \
--innodb-use-native-aio=0 2>&1
"""
_OPTIONS = f"""
--user=root --datadir={_DATA} --socket={SOCKET} --tmpdir=/tmp --sql-mode={SQL_MODE}
--character-set-server=utf8mb4 --collation-server=utf8mb4_general_ci --lower-case-table-names=1
--skip-networking --skip-name-resolve --local-infile=0 --symbolic-links=0 \
--secure-file-priv=/srv/exchange
--event-scheduler=OFF --log-bin-trust-function-creators=1 --max-recursive-iterations=4294967295
--innodb-stats-persistent=0 --use-stat-tables=NEVER --query-cache-type=0 --query-cache-size=0 \
--tmp-memory-table-size=0
--loose-performance-schema=0 --loose-skip-stack-trace=1 --loose-thread-cache-size=4 \
--loose-max-connections=16
--loose-innodb-use-native-aio=0 --loose-innodb-flush-method=nosync \
--loose-innodb-flush-log-at-trx-commit=0
--loose-innodb-doublewrite=0 --loose-innodb-log-file-size=4M --loose-innodb-buffer-pool-size=24M
--loose-innodb-autoextend-increment=4 --loose-innodb-temp-data-file-path=ibtmp1:2M:autoextend
--loose-innodb-buffer-pool-dump-at-shutdown=0 --loose-innodb-buffer-pool-load-at-startup=0
--loose-innodb-read-io-threads=1 --loose-innodb-write-io-threads=1 --loose-innodb-purge-threads=1
--loose-innodb-lock-wait-timeout=5 --loose-aria-pagecache-buffer-size=4M --loose-key-buffer-size=1M
"""
"""No network, no file access, no scheduled work, no statistics that outlive an episode; small, and
never waiting for a disk.

Temporary tables are in files, where a row's position is its number. In memory it is an address, and
rows that tie under ORDER BY … LIMIT would come in a different order from each server. Recursion is
stopped by the time limit, as on SQLite; by default MariaDB cuts it silently after 1,000 steps.
`loose`: other versions may lack the option.
"""
_BINLOG = (
    f"--log-bin={LOGS}/log --server-id=1 --binlog-format=ROW --max-binlog-size=1G --sync-binlog=0"
)

_KILLS = (("QUERY", 0.2), ("CONNECTION", 0.15))
"""KILL commands, tried in turn, and the seconds within which each must take effect."""
_BUFFER = 1 << 16
_FETCHED = 16
"""Rows fetched at once: few, since each row may be as large as the server's largest packet."""
_INTERRUPTED = 1317
_GONE = (0, 1927, 2006, 2013)
"""Error codes for a lost connection and for a killed session."""
_UNREAD = (
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AssertionError,
    struct.error,
)
"""PyMySQL's exceptions for bytes that it cannot decode: text that is not UTF-8, numbers in an
encoding that the agent selected."""
LOST = "Lost connection to the server during the statement"
"""The answer to a statement that ended its session."""


_COUNTERS = (
    "Handler_write",
    "Handler_update",
    "Handler_delete",
    "Com_xa_prepare",
    "Com_analyze",
    "Com_optimize",
    "Com_repair",
)
_COUNT = (
    "SELECT @@gtid_binlog_pos, GROUP_CONCAT(variable_value ORDER BY variable_name) "
    f"FROM information_schema.global_status WHERE variable_name IN {_COUNTERS}"
)
_SETTINGS = (
    "version",
    "sql_mode",
    "lower_case_table_names",
    "collation_server",
    "default_storage_engine",
)
_KILL = 0.25
"""Seconds for a KILL, which a healthy server answers at once."""
_LOOKS = 200
"""How often to check whether a killed session has ended."""
_ROOM = 96 * MIB
"""Bytes by which a server's files may grow before the server is replaced, since InnoDB's files
never shrink."""


# -- the dialect -----------------------------------------------------------------------------------

_DEFINER = re.compile(r"\sDEFINER=\S+@\S+", re.I)


def _write_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def _creation(query: Query, db: str) -> Creation:
    tables = {}
    views = {}
    for title, kind in query("SHOW FULL TABLES"):
        name = str(title)
        create = str(query(f"SHOW CREATE TABLE {DIALECT.quote(name)}")[0][1])
        if kind == "BASE TABLE":
            tables[name] = create
        elif kind == "VIEW":
            views[name] = _DEFINER.sub("", create)
    charset, collation = query("SELECT @@character_set_database, @@collation_database")[0]
    quoted = DIALECT.quote(db)
    after = []
    while views:  # put each view after the views that it names
        ready = []
        for name, create in views.items():
            if not any(other in create for other in views.keys() - {name}):
                ready.append(name)
        for name in ready or [*views]:
            after.append(views.pop(name))
    return Creation(
        tables,
        [
            f"CREATE DATABASE {quoted} DEFAULT CHARACTER SET {charset} COLLATE {collation}",
            f"USE {quoted}",
            "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
            "SET foreign_key_checks = 0",
            *tables.values(),
        ],
        after,
    )


DIALECT = Dialect(
    "mysql",
    "SELECT table_name, column_name, is_nullable = 'YES', column_type, column_default"
    " FROM information_schema.columns WHERE table_schema = DATABASE() AND is_generated = 'NEVER'"
    " ORDER BY table_name, ordinal_position",
    "SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE"
    " table_schema = DATABASE() AND non_unique = 0 ORDER BY table_name, index_name,"
    " seq_in_index",
    "SELECT table_name, constraint_name, referenced_table_name, column_name,"
    " referenced_column_name FROM information_schema.key_column_usage WHERE table_schema ="
    " DATABASE() AND referenced_table_schema = DATABASE() ORDER BY table_name,"
    " constraint_name, ordinal_position",
    _creation,
    mark="`",
    insert="INSERT IGNORE",
    write_text=_write_text,
    indexes="SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE"
    " table_schema = DATABASE() AND non_unique = 1 ORDER BY table_name, index_name, seq_in_index",
    texts="SELECT CONCAT(action_timing, ' ', event_manipulation, ' on ', event_object_table),"
    " trigger_name, action_statement FROM information_schema.triggers WHERE trigger_schema ="
    " DATABASE() UNION ALL SELECT CONCAT_WS(' ', routine_type, dtd_identifier), routine_name,"
    " routine_definition FROM information_schema.routines WHERE routine_schema = DATABASE()"
    " UNION ALL SELECT 'parameter', specific_name, CONCAT_WS(' ', ordinal_position, parameter_mode,"
    " parameter_name, dtd_identifier) FROM information_schema.parameters WHERE specific_schema ="
    " DATABASE() UNION ALL SELECT CONCAT_WS(' ', 'event', interval_value, interval_field, status,"
    " DATE(execute_at)), event_name, event_definition FROM information_schema.events WHERE"
    " event_schema = DATABASE()",
)


# -- sessions --------------------------------------------------------------------------------------


class TimedSocket(io.RawIOBase):
    """A socket for PyMySQL that enforces a time limit. When time is up, `on_timeout()` acts and
    returns how much longer to wait.

    `timed_out`: the time ran out. `received`: bytes received since `start`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.start(PATIENCE)

    def start(self, seconds: float, on_timeout: Callable[[], float] | None = None) -> None:
        """Start a time limit. Without `on_timeout`, a timeout raises `SessionLost`."""
        self._limit = Limit(seconds)
        self._on_timeout = on_timeout
        self.timed_out = False
        self.received = 0
        self._sock.settimeout(seconds)

    def readinto(self, buffer: Any) -> int:
        while True:
            wait = self._limit.wait()
            if wait <= 0:
                self.timed_out = True
                if self._on_timeout is None:
                    raise SessionLost("no answer in time")
                self._limit = Limit(self._on_timeout())
                continue
            if wait != self._sock.gettimeout():
                self._sock.settimeout(wait)
            try:
                size = self._sock.recv_into(buffer)
            except TimeoutError:  # handled at the top of the loop
                continue
            self.received += size
            return size

    # -- PyMySQL calls these -----------------------------------------------------------------------

    def readable(self) -> bool:
        return True

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self, _BUFFER)

    def settimeout(self, seconds: float | None) -> None:
        """Ignore PyMySQL's limit; `start` sets the limit."""

    def sendall(self, data: bytes) -> None:
        self._sock.sendall(data)

    def close(self) -> None:
        self._sock.close()
        super().close()


class Session:
    """A login. `number` is its id in the server."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        user: str,
        password: str,
        db: str | None = None,
    ) -> None:
        """Log in. Only root may send several statements together. Raises PyMySQL's
        `OperationalError` for a refused login, and `SessionLost` if the server dies meanwhile."""
        self.socket = TimedSocket(sock)
        self._connection = Connection(
            user=user,
            password=password,
            database=db,
            charset="utf8mb4",
            autocommit=None,
            client_flag=CLIENT.MULTI_STATEMENTS if user == "root" else 0,
            ssl_disabled=True,
            defer_connect=True,
        )
        try:
            self._connection.connect(self.socket)
        except (SessionLost, *_UNREAD) as error:
            self.socket.close()
            raise SessionLost(f"no login: {error}") from None
        except err.MySQLError as error:
            self.socket.close()
            if _code(error) in _GONE:
                raise SessionLost(str(error)) from None
            raise
        self.number = self._connection.thread_id()

    def query(self, statement: str, *, seconds: float = 60.0) -> tuple[Row, ...]:
        """Execute the host's own statements and return all rows of the last one. Raises PyMySQL's
        errors, and `SessionLost`."""
        with self._loss(), self._connection.cursor() as cursor:
            self.socket.start(seconds)
            cursor.execute(statement)
            rows = cursor.fetchall()
            while cursor.nextset():
                rows = cursor.fetchall()
            return tuple(rows)

    def execute(self, statement: str, seconds: float, engine: MariadbEngine) -> Answer:
        """Execute one statement of an agent or a gold. Raises `SessionLost`, and `SandboxDied` if
        it does not stop."""

        kills = iter(_KILLS)

        def kill() -> float:
            for command, patience in kills:
                engine.kill(command, self.number)
                return patience
            raise SandboxDied("the statement does not stop")

        try:
            with self._loss():
                self.socket.start(seconds, kill)
                cursor = self._connection.cursor(SSCursor)
                cursor.execute(statement)
                description = cursor.description
                affected = cursor.rowcount
                rows, cut = self._rows(cursor, engine.max_rows, engine.max_bytes)
                try:
                    if cut:
                        engine.kill("QUERY", self.number)
                    while True:  # the remaining rows, and more results of a procedure
                        for _ in cursor.fetchall_unbuffered():
                            pass
                        if not cursor.nextset():
                            break
                    if cut:  # a late error belongs to this statement
                        self._connection.ping(reconnect=False)
                except err.MySQLError as error:
                    if _code(error) != _INTERRUPTED or not cut:
                        raise
        except err.MySQLError as error:
            message = str(error.args[1] if len(error.args) > 1 else error)
            if "/#sql-temptable" in message:  # MariaDB reports a full file as "Index is corrupted"
                message = f"a temporary table outgrew the disk ({message})"
            return Answer(error=message, timed_out=self.socket.timed_out)
        finally:
            # otherwise PyMySQL keeps reading when an unread result is garbage-collected
            if self._connection._result is not None:
                self._connection._result.unbuffered_active = False
        if description is None:
            return Answer(affected=max(affected, 0), timed_out=self.socket.timed_out)
        columns = tuple(column[0] for column in description)
        table = Table(columns, rows, cut, _digits(description))
        return Answer(table, timed_out=self.socket.timed_out)

    def close(self) -> None:
        """Close the socket at once; the server rolls back, unlocks and drops temporary tables when
        it notices."""
        self.socket.close()

    def _rows(self, cursor: Any, most: int, room: int) -> tuple[tuple[Row, ...], bool]:
        """Return the rows within the limits, and whether there are more. A row's size is the size
        of its text, so that the cut does not depend on how the stream was split into packets."""
        rows: list[Row] = []
        while batch := cursor.fetchmany(_FETCHED):
            rows += batch
            if len(rows) > most or self.socket.received > 2 * room + _BUFFER:
                break
        if self.socket.received > room:
            for number, row in enumerate(rows[:most]):
                room -= len(repr(row).encode("utf-8", "replace"))
                if room < 0:
                    return tuple(rows[:number]), True
        return tuple(rows[:most]), len(rows) > most or bool(batch)

    @contextmanager
    def _loss(self) -> Iterator[None]:
        """Raise `SessionLost` for errors from PyMySQL after which the session has ended or cannot
        be read any more."""
        try:
            yield
        except (err.InterfaceError, *_UNREAD) as error:
            raise SessionLost(str(error)) from None
        except err.MySQLError as error:
            if _code(error) in _GONE or not self._connection.open:
                raise SessionLost(str(error)) from None
            raise


def _digits(description: Sequence[Any]) -> tuple[Digits | None, ...]:
    """Return `Table.digits`. A FLOAT is printed with six digits, and a FLOAT or DOUBLE with known
    decimals (of a column, of ROUND, of STDDEV over integers) with at most these."""
    digits: list[Digits | None] = []
    for _, kind, *_, scale, _ in description:
        decimals = scale if scale < _ALL_DECIMALS else None
        printed = None
        if kind == FIELD_TYPE.FLOAT:
            printed = Digits(_FLOAT_DIGITS, decimals)
        elif kind == FIELD_TYPE.DOUBLE and decimals is not None:
            printed = Digits(None, decimals)
        digits.append(printed)
    return tuple(digits) if any(digits) else ()


def _code(error: Any) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


# -- preparation -----------------------------------------------------------------------------------


def _launch(sandbox: LocalSandbox, options: str) -> None:
    # A file that reaches its size limit must only fail the statement; the signal would kill the
    # server.
    run_script(
        sandbox,
        f"trap '' XFSZ; exec >{_LOG} 2>&1; mariadbd --no-defaults"
        f" {' '.join(options.split())} & echo $! >{_PID}",
    )


def _first_session(sandbox: LocalSandbox) -> Session:
    """Log in as root as soon as the server answers, a moment after it begins to listen."""

    def connect() -> Session:
        return Session(sandbox.connect(SOCKET), user="root", password="")

    session = wait_for_server(sandbox, _PID, connect)
    if session is None:
        output = sandbox.read(_LOG).decode(errors="replace")
        raise SandboxDied(f"mariadbd does not start; its log ends:\n{output[-2000:]}")
    return session


def _build(below: Template, databases: Databases, layer: Path) -> None:
    layer.chmod(0o755)
    with usual_provider().sandbox(
        below, limits=_BUILD, session="stateless", export=layer
    ) as sandbox:
        result = run_script(sandbox, _INSTALL)
        if result.exit_code != 0:
            raise SandboxUnavailable(f"mariadb-install-db failed: {result.output[-2000:].strip()}")
        _launch(sandbox, f"{_OPTIONS} --max-allowed-packet={_LARGEST}")
        try:
            with closing(_first_session(sandbox)) as session:
                for name in databases.names:
                    load_database(session, databases, name)
                session.query(
                    "CREATE USER gold@localhost; "
                    "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON *.* TO gold@localhost"
                )
                session.query("SET GLOBAL innodb_fast_shutdown = 0; SHUTDOWN")
        except SessionLost as error:
            with suppress(OSError, SessionLost):
                Session(sandbox.connect(SOCKET), user="root", password="").close()
                raise DataError(
                    f"{error}; the server refuses it: split it into several statements"
                ) from None
            raise SandboxDied(
                f"mariadbd died while databases were being loaded ({error}); start again"
            ) from None
        until = time.monotonic() + 120
        while is_alive(sandbox, _PID):
            if time.monotonic() > until:
                raise SandboxUnavailable("mariadbd does not shut down")
            time.sleep(0.02)
        # else the server was killed, and the last second of loading is lost
        if _FAREWELL not in sandbox.read(_LOG):
            raise SandboxDied("mariadbd was killed while databases were being loaded; start again")
        run_script(sandbox, f"rm -f {SOCKET} {LOGS}/* /tmp/*")
        sandbox.export(layer)


def load_database(session: Session, databases: Databases, name: str) -> None:
    """Execute the statements that create a database. Raises `DataError` with the statement that
    fails, and `SessionLost` with the statement that ended the session."""
    quoted = DIALECT.quote(name)
    lines = databases.scripts[name]
    if databases.kind == "portable":
        statements = chain(*map(split_statements, lines))
        lines = (f"CREATE DATABASE {quoted}", f"USE {quoted}", *statements)
    session.query("SET foreign_key_checks = 0, unique_checks = 0")
    loaded = 0
    for statement in lines:
        loaded += len(statement)
        where = f"; in the statement {statement[:200]!r}"
        try:
            session.query(statement, seconds=_AT_LEAST + loaded / _SLOWEST)
        except err.MySQLError as error:
            raise DataError(f"database {name}: {error.args[-1]}{where}") from error
        except SessionLost as error:
            raise SessionLost(f"database {name}: {error}{where}") from None
    # Statistics gathered while loading differ from later ones, and so do query plans. Without
    # ANALYZE, a rebuilt database would return tied rows in another order than a fresh one.
    tables = session.query(f"SHOW FULL TABLES FROM {quoted} WHERE table_type = 'BASE TABLE'")
    if tables:
        names = [f"{quoted}.{DIALECT.quote(table)}" for table, _ in tables]
        session.query(f"ANALYZE TABLE {', '.join(names)}")


# -- the engine ------------------------------------------------------------------------------------


class MariadbEngine(Engine):
    """Run one MariaDB server; see `Engine`. `_admin` is the host's own session. Each start draws a
    new password."""

    name, dialect = "mariadb", DIALECT
    loads = ("mysql", "portable")
    log = _LOG
    limits = _RUN
    _session: Session | None = None
    _count_at_open: Row

    @classmethod
    def missing(cls) -> str | None:
        for program in ("mariadbd", "mariadb-install-db"):
            if shutil.which(program, path=_PATH) is None:
                return f"{program} is not installed; run: apt-get install mariadb-server"
        return None

    @classmethod
    def prepare(cls, databases: Databases) -> Template:
        below = template.base(None)
        command = [str(shutil.which("mariadbd", path=_PATH)), "--no-defaults", "--version"]
        version = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        words = (_LAYOUT, below.digest, version, databases.digest, _INSTALL, _OPTIONS)
        return cached_layer(below, words, partial(_build, below, databases))

    def run(self, statement: str, *, seconds: float) -> Answer:
        session = self._session
        if session is None or self._broken:
            raise UsageError("no database is open; call open(db) first")
        if too_long := self.too_long(statement):
            return too_long
        with self._server_errors("during a statement"):
            answer = self._execute(session, statement, seconds)
            if answer.lost:
                self._renew_session()
            return answer

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        db = self.name_of(db)
        self.require_server()
        if too_long := self.too_long(statement):
            return too_long
        with self._server_errors("during a gold"):
            changed = self._count() != self._count_at_open
            if db == self._db and changed:
                raise UsageError(
                    f"{db} was changed in this episode; run golds before the agent acts"
                )
            if db in self._written:
                self._rebuild(db)
                self._count_at_open = () if changed else self._count()
            with closing(self._login("gold", db=db)) as session:
                answer = self._execute(session, statement, seconds)
                # opens all tables: `SHOW OPEN TABLES` would tell which the gold reads
                self._admin.query(f"SHOW TABLE STATUS FROM {DIALECT.quote(db)}")
            if not changed:  # temporary tables of window functions advance the counters, too
                self._count_at_open = self._count()
            return answer

    def _execute(self, session: Session, statement: str, seconds: float) -> Answer:
        try:
            return session.execute(statement, seconds, self)
        except SessionLost:
            session.close()
            self._admin.query("DO 0")  # raises if the server itself died
            return Answer(error=LOST, timed_out=session.socket.timed_out, lost=True)

    @contextmanager
    def reading(self) -> Iterator[Read]:
        with self._server_errors("while its content was read"):
            self._end_session()
            self._settled_count()
            with closing(self._login("gold")) as session:
                read = partial(session.execute, seconds=READ_SECONDS, engine=self)
                read(f"USE {DIALECT.quote(str(self._db))}")  # fails if the agent dropped it
                try:
                    yield read
                finally:
                    self._renew_session()

    def schema(self, db: str) -> str:
        creates = []
        for name, _ in self.table(db, "SHOW FULL TABLES").rows:
            shown = self.table(db, f"SHOW CREATE TABLE {DIALECT.quote(str(name))}")
            creates.append(f"{shown.rows[0][1]};")
        return "\n\n".join(creates)

    def facts(self) -> dict[str, Any]:
        with self._server_errors("while its settings were read"):
            values = self._admin.query(f"SELECT @@global.{', @@global.'.join(_SETTINGS)}")[0]
        settings = dict(zip(_SETTINGS, values, strict=True))
        return {"engine": self.name, "max_rows": self.max_rows, **settings}

    # -- an episode's beginning and end ------------------------------------------------------------

    def begin_episode(self, db: str) -> None:
        with self._server_errors("between two episodes"):
            count = self._end_episode()
            changed = self._rebuild(db) | self._account(db)
            self._db = db
            if changed or count is None:
                self._count_at_open = self._count()
            self._session = self._login(self._user(db), db=db)

    def _end_episode(self) -> Row | None:
        """End the last session and record whether it wrote; return the counters if it did not."""
        self._end_session()
        count = self._settled_count()
        db = self._db
        self._db = None
        if db is None or count == self._count_at_open:
            return count
        self._written.add(db)
        self._accounts.discard(db)
        if self._admin.query("XA RECOVER") or self._disk_used() > self._disk_at_start + _ROOM:
            raise SessionLost(
                "the server has grown, or holds a prepared transaction, which outlives its session"
            )
        return None

    def _rebuild(self, db: str) -> bool:
        """Rebuild a database if it was written; return whether it was."""
        if db not in self._written:
            return False
        with closing(self._login("root")) as session:
            session.query(
                "SET sql_log_bin = 0, lock_wait_timeout = 2; DROP DATABASE IF EXISTS"
                f" {DIALECT.quote(db)}"
            )
            load_database(session, self._content, db)
        self._written.discard(db)
        return True

    def _settled_count(self) -> Row:
        """Return the counters once the server has ended the last session, with its locks and its
        transaction."""
        for _ in range(_LOOKS):
            ended = True
            for number, user, *_ in self._admin.query("SHOW PROCESSLIST", seconds=10):
                if str(user).startswith("agent_"):
                    self.kill("CONNECTION", number)
                    ended = False
            if ended:
                return self._count()
        raise SessionLost("a session does not end")

    def _renew_session(self) -> None:
        assert self._db is not None
        user = self._user(self._db)
        try:
            self._session = self._login(user, db=self._db)
        except err.OperationalError:
            # the agent dropped the database; with another password the second login fails, too
            self._session = self._login(user)

    def _user(self, db: str) -> str:
        return f"agent_{self.databases.index(db)}"

    def _account(self, db: str) -> bool:
        """Recreate the agent's account if an episode may have changed it; return whether it was
        recreated."""
        if db in self._accounts:
            return False
        pattern = db.replace("_", "\\_").replace("%", "\\%")
        user = self._user(db)
        self._admin.query(
            f"SET sql_log_bin = 0; CREATE OR REPLACE USER {user}@localhost IDENTIFIED BY"
            f" '{self._password}'; GRANT ALL ON {DIALECT.quote(pattern)}.* TO"
            f" {user}@localhost; SET sql_log_bin = 1"
        )
        self._accounts.add(db)
        return True

    # -- faults ------------------------------------------------------------------------------------

    @contextmanager
    def _server_errors(self, when: str) -> Iterator[None]:
        """Raise `SandboxDied` if the server dies inside the block or refuses the admin. If only the
        agent's session is lost, the block must handle `SessionLost` itself."""
        try:
            yield
        except (SessionLost, SandboxDied, err.MySQLError) as error:
            raise self.death(f"the database server died {when} ({error})") from None

    # -- the server --------------------------------------------------------------------------------

    def start_server(self) -> None:
        self._written: set[str] = set()
        self._accounts: set[str] = set()
        self._password = secrets.token_hex(16)
        secret = f"localhost = PASSWORD('{self._password}')"
        with self._server_errors("at its start"):
            _launch(self.sandbox, _OPTIONS + _BINLOG)
            with closing(_first_session(self.sandbox)) as first:
                first.query(
                    f"SET sql_log_bin = 0; SET PASSWORD FOR gold@{secret}; SET PASSWORD FOR"
                    f" root@{secret}"
                )
            self._admin = self._login("root")
            # so that reading the server's counters makes no files
            self._admin.query(f"SET tmp_memory_table_size = {MIB}")
            self._disk_at_start = self._disk_used()
            self._count_at_open = self._count()

    def disconnect(self) -> None:
        self._end_session()
        self._admin.close()

    def _login(self, user: str, *, db: str | None = None) -> Session:
        """Log in. Raises `SessionLost` if no server listens, and PyMySQL's errors if the login is
        refused."""
        try:
            sock = self.sandbox.connect(SOCKET)
        except OSError as error:
            raise SessionLost(f"the server does not listen: {error.strerror}") from None
        session = Session(sock, user=user, password=self._password, db=db)
        # else `SELECT FOUND_ROWS()` tells what the last session of this server's thread had: a gold
        session.query("SELECT 1 LIMIT 0")
        return session

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _count(self) -> Row:
        """Return the server's counters. If they are equal at two times, nothing was written in
        between."""
        return self._admin.query(_COUNT, seconds=10)[0]

    def kill(self, what: str, number: int) -> None:
        """Stop a session or its statement: `what` is `CONNECTION` or `QUERY`, `number` is the
        session's id."""
        with suppress(err.MySQLError):  # it has ended meanwhile
            self._admin.query(f"KILL {what} {number}", seconds=_KILL)

    def _disk_used(self) -> int:
        """Return the bytes used on the sandbox's disk."""
        result = self.sandbox.exec(
            "", argv=["df", "--output=used", "-B1", "/"], cwd="/", timeout=60
        )
        if result.exit_code != 0:
            raise SandboxError(f"df failed in the sandbox: {result.output[-1000:].strip()}")
        return int(result.output.split()[-1])
