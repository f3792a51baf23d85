"""A MariaDB server inside the sandbox's wall: how it is prepared, started, and reached.

    this machine's userland ◄── layer: mariadb-install-db, then the databases' statements      cached by content
              └── overlay ──► mariadbd on the layer's files; what it writes is copied up to tmpfs
    host ── LocalSandbox.connect ──► its Unix socket

It has no network, no file that matters, and no durability: nothing in it outlives the sandbox. A start takes about a tenth of a
second, of which copying files is the smallest part, since the overlay copies only those that the server opens for writing.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from pymysql.err import MySQLError

from intercode.envs.sql.engines.base import closed_on_failure
from intercode.envs.sql.engines.dump import Databases, statements
from intercode.envs.sql.engines.quoting import quoted
from intercode.envs.sql.engines.session import Session, SessionLost
from intercode.errors import DataError, SandboxDied, SandboxError, SandboxUnavailable
from intercode.sandbox import cache, template
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.sandbox.wall import Bubblewrap

SQL_MODE = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""MySQL 8's default less ONLY_FULL_GROUP_BY: MariaDB's check of that knows no functional dependence."""

LIMITS = Limits(memory=1024 * MIB, disk=768 * MIB, file_size=512 * MIB, processes=128, open_files=1024)
_BUILD = Limits(seconds=600, memory=4096 * MIB, disk=4096 * MIB, file_size=4096 * MIB, processes=256, open_files=4096)
SOCKET = "/run/mariadb.sock"
_DATA = "/var/lib/mariadb"
LOGS = "/var/log/mariadb"
_LAYOUT = "2"
"""Part of the cache's key: raise it when the preparation changes."""
_PATIENCE = 20.0
_POLL = 0.002
_EARLY = 1.0
_LARGEST = "1G"
"""Of the statements in a dump, in bytes. An agent's may be shorter, as what a function returns has the same bound."""
_FAREWELL = b"Shutdown complete"
"""The last line of a server that has written everything."""

_INSTALL = """
set -e
mkdir -p {data} {logs} /srv/exchange
mariadb-install-db --no-defaults --user=root --datadir={data} --auth-root-authentication-method=normal \
  --lower-case-table-names=1 --skip-test-db --skip-name-resolve --innodb-log-file-size=4M --innodb-use-native-aio=0 2>&1
"""
_OPTIONS = {
    "user": "root",
    "datadir": _DATA,
    "socket": SOCKET,
    "tmpdir": "/tmp",
    "skip-networking": "1",
    "skip-name-resolve": "1",
    "lower-case-table-names": "1",
    "character-set-server": "utf8mb4",
    "collation-server": "utf8mb4_general_ci",
    # nothing beside the databases: no files, no clock-driven work, no statistics that outlive an episode
    "local-infile": "0",
    "symbolic-links": "0",
    "secure-file-priv": "/srv/exchange",
    "event-scheduler": "OFF",
    "innodb-stats-persistent": "0",
    "use-stat-tables": "NEVER",
    "log-bin-trust-function-creators": "1",
    "query-cache-type": "0",
    "query-cache-size": "0",
    # temporary tables in files, where a row's place is its number: in memory it is an address, and rows that tie under ORDER BY
    # … LIMIT would come in another order from each server
    "tmp-memory-table-size": "0",
    # a throwaway: small, and never waiting for a disk (loose: another version may lack one)
    "loose-performance-schema": "0",
    "loose-innodb-use-native-aio": "0",
    "loose-innodb-flush-method": "nosync",
    "loose-innodb-flush-log-at-trx-commit": "0",
    "loose-innodb-doublewrite": "0",
    "loose-innodb-log-file-size": "4M",
    "loose-innodb-buffer-pool-size": "24M",
    "loose-innodb-autoextend-increment": "4",
    "loose-innodb-temp-data-file-path": "ibtmp1:2M:autoextend",
    "loose-innodb-buffer-pool-dump-at-shutdown": "0",
    "loose-innodb-buffer-pool-load-at-startup": "0",
    "loose-innodb-read-io-threads": "1",
    "loose-innodb-write-io-threads": "1",
    "loose-innodb-purge-threads": "1",
    "loose-innodb-lock-wait-timeout": "5",
    "loose-aria-pagecache-buffer-size": "4M",
    "loose-key-buffer-size": "1M",
    "loose-thread-cache-size": "4",
    "loose-max-connections": "16",
    "loose-skip-stack-trace": "1",
}
_BINLOG = {"log-bin": f"{LOGS}/log", "server-id": "1", "binlog-format": "ROW", "max-binlog-size": "1G", "sync-binlog": "0"}


def missing() -> str | None:
    """Why no MariaDB can start here; None if one can."""
    for program in ("mariadbd", "mariadb-install-db"):
        if _program(program) is None:
            return f"{program} is not installed; mend it with: apt-get install mariadb-server"
    return None


@dataclass(frozen=True)
class Prepared:
    """What a server starts from."""

    template: Template
    databases: Databases


def prepare(databases: Databases) -> Prepared:
    """The template with these databases loaded (`mysql` or `portable`). Raises `DataError` for one that does not load."""
    if why := missing():
        raise SandboxUnavailable(why)
    below = template.base(None)
    said = subprocess.run(
        [str(_program("mariadbd")), "--no-defaults", "--version"], capture_output=True, text=True, check=False
    )
    words = (_LAYOUT, below.digest, said.stdout.strip(), databases.digest, SQL_MODE)
    key = hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]
    layer = cache.folder("layers", key, lambda made: _build(below, databases, made))
    return Prepared(below.over(layer), databases)


class Server:
    """A running server. `admin` is the host's own session; its password is drawn anew with each start."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.sandbox = self._sandbox()
        with closed_on_failure(self.sandbox):
            self._start()

    def restart(self) -> None:
        """A new server on pristine content, for one that died or does not listen."""
        self.admin.close()
        try:
            self.sandbox.reset()
        except SandboxError:  # the wall has gone as well
            self.sandbox.close()
            self.sandbox = self._sandbox()
        self._start()

    def session(self, user: str, *, db: str | None = None, many: bool = False) -> Session:
        """A login. Raises `SandboxDied` if nobody listens, and pymysql's errors if the login is refused."""
        try:
            sock = self.sandbox.connect(SOCKET)
        except OSError as error:
            raise SandboxDied(f"the database server does not listen ({error.strerror})") from None
        try:
            return Session(sock, user=user, password=self.password, db=db, many=many)
        except SessionLost as error:
            raise SandboxDied(f"the database server died at a login ({error})") from None

    def close(self) -> None:
        self.sandbox.close()

    def _sandbox(self) -> LocalSandbox:
        return LocalSandbox(self.prepared.template, limits=LIMITS, session="stateless")

    def _start(self) -> None:
        _launch(self.sandbox, {**_OPTIONS, **_BINLOG, "sql-mode": SQL_MODE})
        self.password = secrets.token_hex(16)
        secret = f"localhost = PASSWORD('{self.password}')"
        try:
            first = _first_session(self.sandbox)
            first.query(f"SET sql_log_bin = 0; SET PASSWORD FOR gold@{secret}; SET PASSWORD FOR root@{secret}")
            first.close()
            self.admin = self.session("root", many=True)
            self.admin.query(f"SET tmp_memory_table_size = {MIB}")  # looks at the server's counters do not make files
        except (SessionLost, MySQLError) as error:
            raise SandboxDied(f"the database server died at its start ({error})") from None


def _program(name: str) -> str | None:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/libexec")


def _launch(sandbox: LocalSandbox, options: dict[str, str]) -> None:
    words = " ".join(f"--{name}={value}" for name, value in options.items())
    command = f"exec >{LOGS}/said 2>&1; mariadbd --no-defaults {words} &"
    sandbox.exec("", argv=["bash", "-c", command], cwd="/")


def _first_session(sandbox: LocalSandbox) -> Session:
    """Once the server listens; it does so a moment before it answers."""
    began = time.monotonic()
    while True:
        try:
            return Session(sandbox.connect(SOCKET), user="root", password="", many=True, seconds=_PATIENCE)
        except (OSError, SessionLost):
            waited = time.monotonic() - began
            if waited > _PATIENCE or (waited > _EARLY and not _alive(sandbox)):
                said = sandbox.read(f"{LOGS}/said").decode(errors="replace")
                raise SandboxDied(f"mariadbd does not start; it said:\n{said[-2000:]}") from None
            time.sleep(_POLL)


def _alive(sandbox: LocalSandbox) -> bool:
    return sandbox.exec("", argv=["bash", "-c", "grep -qsx mariadbd /proc/[0-9]*/comm"]).exit_code == 0


def _build(below: Template, databases: Databases, made: Path) -> None:
    made.chmod(0o755)
    with LocalSandbox.inside(Bubblewrap(below, _BUILD, "stateless", export=made), _BUILD) as sandbox:
        result = sandbox.exec("", argv=["bash", "-c", _INSTALL.format(data=_DATA, logs=LOGS)], cwd="/")
        if result.exit_code != 0:
            raise SandboxUnavailable(f"mariadb-install-db failed: {result.output[-2000:].strip()}")
        _launch(sandbox, {**_OPTIONS, "sql-mode": SQL_MODE, "max-allowed-packet": _LARGEST})
        try:
            with closing(_first_session(sandbox)) as session:
                for name in databases.names:
                    load(session, databases, name)
                session.query("CREATE USER gold@localhost; GRANT SELECT, SHOW VIEW ON *.* TO gold@localhost")
                session.query("SET GLOBAL innodb_fast_shutdown = 0; SHUTDOWN")
        except SessionLost as error:
            with suppress(OSError, SessionLost):
                Session(sandbox.connect(SOCKET), user="root", password="").close()
                raise DataError(f"{error}; the server does not take it: make it several statements") from None
            raise SandboxDied(f"mariadbd died while databases were being loaded ({error}); start again") from None
        _shut(sandbox)
        sandbox.export(made)


def load(session: Session, databases: Databases, name: str) -> None:
    """Run the statements that make a database. Raises `DataError` with the one that fails, and `SessionLost` with the one that
    the session ended at."""
    named, lines = quoted(name, "mysql"), databases.scripts[name]
    if databases.kind == "portable":
        lines = (f"CREATE DATABASE {named}", f"USE {named}", *(line for text in lines for line in statements(text)))
    session.query("SET foreign_key_checks = 0, unique_checks = 0")
    loaded = 0
    for statement in lines:
        loaded += len(statement)
        try:
            session.query(statement, seconds=_AT_LEAST + loaded / _SLOWEST)
        except MySQLError as error:
            raise DataError(f"database {name}: {error.args[-1]}; in the statement {statement[:200]!r}") from error
        except SessionLost as error:
            raise SessionLost(f"database {name}: {error}; in the statement {statement[:200]!r}") from None
    # The statistics of the filling differ from those of a first look, and plans with them, so that a rebuilt database would
    # give rows that tie in another order than a fresh one.
    if tables := session.query(f"SHOW FULL TABLES FROM {named} WHERE table_type = 'BASE TABLE'"):
        session.query("ANALYZE TABLE " + ", ".join(f"{named}.{quoted(table, 'mysql')}" for table, _ in tables))


_AT_LEAST, _SLOWEST = 60.0, 50_000
"""Seconds that a statement of a load has, and characters a second beside: an index may be over all that came before."""


def _shut(sandbox: LocalSandbox) -> None:
    until = time.monotonic() + 120
    while _alive(sandbox):
        if time.monotonic() > until:
            raise SandboxUnavailable("mariadbd does not shut down")
        time.sleep(0.02)
    if _FAREWELL not in sandbox.read(f"{LOGS}/said"):  # it was killed, and the last second of what was loaded is lost
        raise SandboxDied("mariadbd was killed while databases were being loaded; start again")
    sandbox.exec("", argv=["bash", "-c", f"rm -f {SOCKET} {LOGS}/* /tmp/*"], cwd="/")
