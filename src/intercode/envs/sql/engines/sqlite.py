"""The SQLite engine: a small server inside the wall (`sqlite_guest.py`) that holds the databases as files.

    host ── LocalSandbox.connect ──► /srv/sqlite/door ──► sqlite_guest ──► pristine/ (a cached layer), played/ (tmpfs)

The host never opens a database file. A statement that SQLite does not let itself be stopped in (one endless function call)
costs the server its life, not the content: a new one goes on with the same file.
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

from intercode.envs.sql.engines import sqlite_guest
from intercode.envs.sql.engines.base import Answer, Caps, Engine, closed_on_failure, died
from intercode.envs.sql.engines.dump import Databases
from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.sandbox import cache, template
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.guest.limit import Limit
from intercode.sandbox.identity import identity
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.sandbox.wall import Bubblewrap, guest_python
from intercode.types import Table

_PLACE = "/srv/sqlite"
_DOOR, _SAID = f"{_PLACE}/door", f"{_PLACE}/said"
_LAYOUT = "1"
_GRACE = 0.3
"""Seconds that the server may take over a statement's own limit."""
_PATIENCE = 20.0
_POLL = 0.001
_LARGEST_ANSWER = 1 << 28
_CHUNK = 1 << 16
_REFUSED = 3
"""The status of `_FILL` for a script that fails."""

_FILL = """
import pathlib, sqlite3, sys
folder = pathlib.Path(sys.argv[1])
for script in sorted(folder.glob("*.sql")):
    connection = sqlite3.connect(folder / (script.stem + ".sqlite"))
    try:
        connection.executescript(script.read_text("utf-8", "surrogateescape"))
    except (sqlite3.Error, ValueError) as error:
        print(f"database {script.stem}: {error}")
        sys.exit(3)
    connection.close()
    script.unlink()
"""


def prepare(databases: Databases) -> Template:
    """The template with these databases (`portable` or `sqlite`) in it. Raises `DataError` for a script that fails."""
    below = template.base(None)
    key = hashlib.sha256("\0".join((_LAYOUT, below.digest, databases.digest)).encode()).hexdigest()[:32]
    return below.over(cache.folder("layers", key, lambda made: _build(below, databases, made)))


class SqliteEngine(Engine):
    """See `Engine`. `prepared` comes from `prepare`; the server starts at once."""

    dialect = "sqlite"

    def __init__(self, prepared: Template, databases: Databases, *, caps: Caps | None = None) -> None:
        self.databases = databases.names
        self._prepared, self._caps = prepared, caps or Caps()
        self._db: str | None = None
        self._broken = self._closed = False
        self._line: socket.socket | None = None
        self._sandbox = self._new_sandbox()
        with closed_on_failure(self._sandbox):
            self._start()
            self._server()

    def open(self, db: str) -> None:
        db = self.name_of(db)
        self._alive()
        try:
            self._enter(db)
        except (SandboxError, DataError):
            self._restart()
            self._enter(db)
        self._db = db

    def _enter(self, db: str) -> None:
        said = self._ask({"op": "open", "db": db}, wait=_PATIENCE)
        if "unreadable" in said:
            raise DataError(f"the database {db} cannot be read: {said['unreadable']}; is its file whole?")

    def run(self, statement: str, *, seconds: float) -> Answer:
        if self._db is None or self._broken:
            raise UsageError("no database is open; call open(db) first")
        server = self._server()
        try:
            return answer(exchange(server, {"op": "run", "statement": statement, "seconds": seconds}, seconds + _GRACE))
        except TimeoutError:  # a new server on the files of this one
            self._hang_up()
            self._start(f"kill -9 $(cat {_PLACE}/pid)")
            return Answer(error="interrupted", timed_out=True, lost=True)
        except (OSError, ValueError, EOFError) as error:
            raise self._failed("a statement", error) from None

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        db = self.name_of(db)
        self._alive()
        head = {"op": "gold", "db": db, "statement": statement, "seconds": seconds}
        server = self._server()
        try:
            return answer(exchange(server, head, seconds + _GRACE))
        except TimeoutError:  # in a function that SQLite does not let be stopped: the next `open` needs another server
            self._broken = True
            return Answer(error="interrupted", timed_out=True, lost=True)
        except (OSError, ValueError, EOFError) as error:
            raise self._failed("a gold", error) from None

    def schema(self, db: str) -> str:
        made = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        return ";\n\n".join(str(text) for (text,) in self.table(db, made).rows) + ";"

    def facts(self) -> dict[str, Any]:
        version = self._ask({"op": "facts"}, wait=_PATIENCE)["version"]
        return {"engine": "sqlite", "version": version, "max_rows": self._caps.rows}

    def close(self) -> None:
        if not self._closed:
            self._closed, self._db = True, None
            self._hang_up()
            self._sandbox.close()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _new_sandbox(self) -> LocalSandbox:
        """With room for a copy of the largest database, and for as much again."""
        files = (self._prepared.layers[-1] / template.TREE).glob(f"{_PLACE[1:]}/pristine/*.sqlite")
        room = 512 * MIB + 2 * max((file.stat().st_size for file in files), default=0)
        limits = Limits(memory=room + 1024 * MIB, disk=room, file_size=room, processes=16)
        return LocalSandbox(self._prepared, limits=limits, session="stateless")

    def _start(self, first: str = "true") -> None:
        """The server begins while its caller goes on; `_server` waits for it."""
        self._line = None
        self._sandbox.write(f"{_PLACE}/server.py", Path(sqlite_guest.__file__).read_bytes())
        python, _ = guest_python()
        words = [python, "-I", "-S", f"{_PLACE}/server.py", _PLACE, _DOOR, str(self._caps.rows), str(self._caps.bytes)]
        command = f"{first}; rm -f {_DOOR}; exec >{_SAID} 2>&1; {' '.join(words)} & echo $! >{_PLACE}/pid"
        self._sandbox.exec("", argv=["bash", "-c", command], cwd="/")

    def _server(self) -> socket.socket:
        """The line to the server; one that took another's place finds the database as that one left it."""
        until = time.monotonic() + _PATIENCE
        while self._line is None:
            try:
                self._line = self._sandbox.connect(_DOOR)
            except OSError:
                if time.monotonic() > until:
                    raise SandboxDied(f"the SQLite server does not start; it said: {self._said()}") from None
                time.sleep(_POLL)
                continue
            if self._db is not None:
                self._ask({"op": "resume", "db": self._db}, wait=_PATIENCE)
        return self._line

    def _said(self) -> str:
        """The end of what the server printed."""
        try:
            return self._sandbox.read(_SAID).decode(errors="replace")[-2000:]
        except OSError:
            return ""

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()

    def _restart(self) -> None:
        self._hang_up()
        try:
            self._sandbox.reset()
        except SandboxError:  # the wall has gone as well
            self._sandbox.close()
            self._sandbox = self._new_sandbox()
        self._db, self._broken = None, False
        self._start()

    def _alive(self) -> None:
        if self._closed:
            raise UsageError("the engine is closed")
        if self._broken:
            self._restart()

    def _ask(self, head: dict[str, Any], *, wait: float) -> dict[str, Any]:
        """For what is no statement: a server that does not reply in time is as good as dead."""
        try:
            return exchange(self._server(), head, wait)
        except (OSError, ValueError, EOFError) as error:
            raise self._failed(head["op"], error) from None

    def _failed(self, when: str, error: Exception) -> SandboxError:
        """The server's death, or an answer that the host cannot read: that may be the host's own mistake, so no agent pays."""
        self._broken = True
        if isinstance(error, ValueError):
            return SandboxError(f"the SQLite server's answer to {when} cannot be read ({error}); please report the statement")
        how = "it does not answer" if isinstance(error, TimeoutError) else str(error) or "its end of the line closed"
        return died(self._sandbox, f"the SQLite server died during {when} ({how})", words=self._said)


def exchange(line: socket.socket, request: dict[str, Any], wait: float) -> dict[str, Any]:
    """Send a request and return the reply, within `wait` seconds.

    Raises `TimeoutError` for silence, `EOFError` and `OSError` where the other end is gone, and `ValueError` for what is no
    reply: a server that was taken over can say anything and do nothing.
    """
    limit, data = Limit(wait), bytearray()
    line.settimeout(wait)
    line.sendall(json.dumps(request).encode() + b"\n")
    while not data.endswith(b"\n"):
        left = limit.wait()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        try:
            piece = line.recv(_CHUNK)
        except TimeoutError:  # at the next look
            continue
        if not piece:
            raise EOFError
        data += piece
        if len(data) > _LARGEST_ANSWER:
            raise ValueError("an answer that is too large")
    try:
        reply = json.loads(data, object_hook=lambda found: bytes.fromhex(found["b"]) if found.keys() == {"b"} else found)
    except (TypeError, RecursionError) as error:
        raise ValueError(repr(error)) from None
    if not isinstance(reply, dict):
        raise ValueError("no reply")
    return reply


_VALUES = {int, float, str, bytes, type(None)}


def answer(reply: dict[str, Any]) -> Answer:
    """What a statement's reply says. Raises `ValueError` for one that is none."""
    match reply:
        case {"columns": [*columns], "rows": [*rows], "cut": bool(cut)} if all(isinstance(name, str) for name in columns):
            if all(type(row) is list and len(row) == len(columns) for row in rows) and {*map(type, chain(*rows))} <= _VALUES:
                return Answer(Table(tuple(columns), tuple(map(tuple, rows)), cut))
        case {"error": str(error), "late": bool(late)}:
            return Answer(error=error, timed_out=late)
        case {"affected": int(affected)}:
            return Answer(affected=affected)
    raise ValueError(f"no answer: {str(reply)[:200]}")


def _build(below: Template, databases: Databases, made: Path) -> None:
    if databases.kind == "sqlite":
        folder = template.new_tree(made)
        for part in Path(_PLACE[1:], "pristine").parts:
            folder /= part
            folder.mkdir()
            identity().own(folder)
        for name, file in databases.files.items():
            shutil.copyfile(file, folder / f"{name}.sqlite")
            (folder / f"{name}.sqlite").chmod(0o644)
            identity().own(folder / f"{name}.sqlite")
        return
    made.chmod(0o755)
    limits = Limits(seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB)
    with LocalSandbox.inside(Bubblewrap(below, limits, "stateless", export=made), limits) as sandbox:
        for name, texts in databases.scripts.items():
            sandbox.write(f"{_PLACE}/pristine/{name}.sql", "".join(texts).encode("utf-8", "surrogateescape"))
        python, _ = guest_python()
        result = sandbox.exec("", argv=[python, "-c", _FILL, f"{_PLACE}/pristine"], cwd="/")
        said = result.output.strip()[-1000:]
        if result.exit_code == _REFUSED:
            raise DataError(said)
        if result.exit_code != 0:
            raise SandboxDied(f"SQLite died while databases were being loaded (status {result.exit_code}: {said}); start again")
        sandbox.export(made)
