"""The SQLite engine: a small server inside the sandbox (`sqlite_guest.py`) that holds the databases
as files.

    host ── LocalSandbox.connect ──► /srv/sqlite/socket ──► sqlite_guest
                                                              ├─► original/ (a cached layer)
                                                              └─► episode/ (tmpfs)

The host never opens a database file. If SQLite does not stop a statement (one endless function
call), the server is replaced, and the new one goes on with the same file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from itertools import chain
from pathlib import Path
from typing import Any

from intercode.envs.sql.engines import Answer, Databases, Engine, sqlite_guest
from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox import cache, template
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.guest.limit import Limit
from intercode.sandbox.host import guest_python
from intercode.sandbox.identity import identity
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.pod import usual_provider
from intercode.sandbox.template import Template
from intercode.types import Table

_FOLDER = "/srv/sqlite"
_SOCKET, _LOG = f"{_FOLDER}/socket", f"{_FOLDER}/log"
_LAYOUT = "2"
"""Part of the cache's key: raise it when the preparation changes."""
_GRACE = 0.3
"""Seconds that the server may take over a statement's own limit."""
_PATIENCE = 20.0
_POLL = 0.001
_LARGEST_ANSWER = 1 << 28
_CHUNK = 1 << 16
_VALUES = {int, float, str, bytes, type(None)}

_FILL = """
import pathlib, sqlite3, sys
folder = pathlib.Path(sys.argv[1])
for script in sorted(folder.glob("*.sql")):
    connection = sqlite3.connect(folder / (script.stem + ".sqlite"))
    try:
        connection.executescript(script.read_text("utf-8", "surrogateescape"))
    except (sqlite3.Error, ValueError) as error:
        sys.exit(f"database {script.stem}: {error}")
    connection.close()
    script.unlink()
"""


def prepare(databases: Databases) -> Template:
    """Return the template with these databases (`portable` or `sqlite`). Raises `DataError` for a
    script that fails."""
    below = template.base(None)
    key = hashlib.sha256("\0".join((_LAYOUT, below.digest, databases.digest)).encode()).hexdigest()[
        :32
    ]
    return below.over(cache.folder("layers", key, lambda made: _build(below, databases, made)))


def _build(below: Template, databases: Databases, made: Path) -> None:
    if databases.kind == "sqlite":
        folder = template.new_tree(made)
        original = folder / _FOLDER[1:] / "original"
        original.mkdir(parents=True)
        for name, file in databases.files.items():
            shutil.copyfile(file, original / f"{name}.sqlite")
            (original / f"{name}.sqlite").chmod(0o644)
        for path in folder.rglob("*"):
            identity().own(path)
        return
    made.chmod(0o755)
    limits = Limits(seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB)
    with usual_provider().sandbox(
        below, limits=limits, session="stateless", export=made
    ) as sandbox:
        for name, texts in databases.scripts.items():
            sandbox.write(
                f"{_FOLDER}/original/{name}.sql", "".join(texts).encode("utf-8", "surrogateescape")
            )
        python, _ = guest_python()
        result = sandbox.exec("", argv=[python, "-c", _FILL, f"{_FOLDER}/original"], cwd="/")
        output = result.output.strip()[-1000:]
        if result.exit_code == 1:
            raise DataError(
                f"{output}; SQL that only MySQL or MariaDB reads needs --engine mariadb"
            )
        if result.exit_code != 0:
            raise SandboxDied(
                f"SQLite died while databases were being loaded (status {result.exit_code}:"
                f" {output}); start again"
            )
        sandbox.export(made)


class SqliteEngine(Engine):
    """Run one SQLite server; see `Engine`."""

    dialect, _log = "sqlite", _LOG
    _connection: socket.socket | None = None

    def run(self, statement: str, *, seconds: float) -> Answer:
        if self._db is None or self._broken:
            raise UsageError("no database is open; call open(db) first")
        if too_long := self._too_long(statement):
            return too_long
        answer = self._execute({"op": "run", "statement": statement}, seconds)
        if answer.lost:  # a new server on the files of this one
            self._disconnect()
            self._launch(f"kill -9 $(cat {_FOLDER}/pid)")
        return answer

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        db = self.name_of(db)
        self._require_server()
        if too_long := self._too_long(statement):
            return too_long
        answer = self._execute({"op": "gold", "db": db, "statement": statement}, seconds)
        self._broken = answer.lost  # the next `open` needs another server
        return answer

    def _execute(self, request: dict[str, Any], seconds: float) -> Answer:
        """Return the answer to a statement; `lost` if the statement is in a function that SQLite
        does not stop."""
        server = self._connect()
        try:
            return read_answer(exchange(server, {**request, "seconds": seconds}, seconds + _GRACE))
        except TimeoutError:
            return Answer(error="interrupted", timed_out=True, lost=True)
        except (OSError, ValueError, EOFError) as error:
            raise self._failure(request["op"], error) from None

    def schema(self, db: str) -> str:
        creates = (
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%'"
            " ESCAPE '\\'"
        )
        return ";\n\n".join(str(text) for (text,) in self.table(db, creates).rows) + ";"

    def facts(self) -> dict[str, Any]:
        return {
            "engine": "sqlite",
            "version": self._request({"op": "facts"})["version"],
            "max_rows": self.max_rows,
        }

    # -- inside ------------------------------------------------------------------------------------

    def _new_sandbox(self) -> LocalSandbox:
        """Return a sandbox with room for a copy of the largest database, and for as much again."""
        files = (self._prepared.layers[-1] / template.TREE).glob(f"{_FOLDER[1:]}/original/*.sqlite")
        room = 512 * MIB + 2 * max((file.stat().st_size for file in files), default=0)
        limits = Limits(memory=room + 1024 * MIB, disk=room, file_size=room, processes=16)
        return usual_provider().sandbox(self._prepared, limits=limits, session="stateless")

    def _begin(self, db: str) -> None:
        reply = self._request({"op": "open", "db": db})
        if "unreadable" in reply:
            raise DataError(
                f"the database {db} cannot be read: {reply['unreadable']}; is its file whole?"
            )
        self._db = db

    def _start(self) -> None:
        self._launch()
        self._connect()

    def _launch(self, first: str = "true") -> None:
        """Start a server in the background, after the command `first`; `_connect` waits for the
        server."""
        self._sandbox.write(f"{_FOLDER}/server.py", Path(sqlite_guest.__file__).read_bytes())
        python, _ = guest_python()
        words = [
            python,
            "-I",
            "-S",
            f"{_FOLDER}/server.py",
            _FOLDER,
            _SOCKET,
            str(self.max_rows),
            str(self.max_bytes),
        ]
        command = (
            f"{first}; rm -f {_SOCKET}; exec >{_LOG} 2>&1; {' '.join(words)} & echo $!"
            f" >{_FOLDER}/pid"
        )
        self._sandbox.exec("", argv=["bash", "-c", command], cwd="/")

    def _connect(self) -> socket.socket:
        """Return the connection to the server; a new server goes on with the database as the last
        server left it."""
        until = time.monotonic() + _PATIENCE
        while self._connection is None:
            try:
                self._connection = self._sandbox.connect(_SOCKET)
            except OSError:
                if time.monotonic() > until:
                    raise SandboxDied(
                        f"the SQLite server does not start; its log ends: {self._log_end()}"
                    ) from None
                time.sleep(_POLL)
                continue
            if self._db is not None:
                self._request({"op": "resume", "db": self._db})
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a request that executes no statement. A server that does not reply in
        time counts as dead."""
        try:
            return exchange(self._connect(), request, _PATIENCE)
        except (OSError, ValueError, EOFError) as error:
            raise self._failure(request["op"], error) from None

    def _failure(self, when: str, error: Exception) -> SandboxError:
        """Return the error for a dead server, or for an unreadable reply: the host may be at fault
        there, so no agent pays."""
        if isinstance(error, ValueError):
            self._broken = True
            return SandboxError(
                f"the SQLite server's answer to {when} cannot be read ({error}); please report the"
                " statement"
            )
        how = (
            "it does not answer"
            if isinstance(error, TimeoutError)
            else str(error) or "its end of the line closed"
        )
        return self._death(f"the SQLite server died during {when} ({how})")


def exchange(connection: socket.socket, request: dict[str, Any], wait: float) -> dict[str, Any]:
    """Send a request and return the reply, within `wait` seconds.

    Raises `TimeoutError` for silence, `EOFError` and `OSError` where the other end is gone, and
    `ValueError` for bytes that are no reply: a server that the agent took over may send anything.
    """
    limit, data = Limit(wait), bytearray()
    connection.settimeout(wait)
    connection.sendall(json.dumps(request).encode() + b"\n")
    while not data.endswith(b"\n"):
        left = limit.wait()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        try:
            piece = connection.recv(_CHUNK)
        except TimeoutError:  # at the next look
            continue
        if not piece:
            raise EOFError
        data += piece
        if len(data) > _LARGEST_ANSWER:
            raise ValueError("an answer that is too large")
    try:
        reply = json.loads(
            data,
            object_hook=lambda found: bytes.fromhex(found["b"]) if found.keys() == {"b"} else found,
        )
    except (TypeError, RecursionError) as error:
        raise ValueError(repr(error)) from None
    if not isinstance(reply, dict):
        raise ValueError("no reply")
    return reply


def read_answer(reply: dict[str, Any]) -> Answer:
    """Return the answer in a statement's reply. Raises `ValueError` if the reply has another
    form."""
    match reply:
        case {"columns": [*columns], "rows": [*rows], "cut": bool(cut)} if all(
            isinstance(name, str) for name in columns
        ):
            if (
                all(type(row) is list and len(row) == len(columns) for row in rows)
                and {*map(type, chain(*rows))} <= _VALUES
            ):
                return Answer(Table(tuple(columns), tuple(map(tuple, rows)), cut))
        case {"error": str(error), "late": bool(late)}:
            return Answer(error=error, timed_out=late)
        case {"affected": int(affected)}:
            return Answer(affected=affected)
    raise ValueError(f"no answer: {str(reply)[:200]}")
