"""Engines for databases that are Python libraries: a small server inside the sandbox
(`embedded_guest.py`) stores the databases as files and accesses them through the engine's driver.

    host ── LocalSandbox.connect ──► /srv/NAME/socket ──► embedded_guest
                       original/ (a cached layer), episode/ (tmpfs) ◄── driver

The host never opens a database file. If the library cannot stop a statement (one endless function
call), the server is replaced, and the new server continues with the same file.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from intercode.envs.sql.engines import (
    PATIENCE,
    READ_SECONDS,
    Answer,
    Databases,
    Engine,
    Read,
    cached_layer,
    embedded_guest,
    run_script,
    wait_for_server,
)
from intercode.errors import DataError, SandboxDied, SandboxError, UsageError
from intercode.types import Table
from intercode_sandbox import template
from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.guest.limit import Limit
from intercode_sandbox.host import guest_python
from intercode_sandbox.identity import identity
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.pod import usual_provider
from intercode_sandbox.template import Template

_BUILD = Limits(seconds=600, memory=4096 * MIB, disk=2048 * MIB, file_size=1024 * MIB)
_GRACE = 0.3
"""Seconds that the server may exceed a statement's limit."""
_LARGEST_ANSWER = 1 << 28
_CHUNK = 1 << 16
_VALUES = {int, float, str, bytes, bool, Decimal, type(None)}


class EmbeddedEngine(Engine):
    """Run one server with the driver for a library; see `Engine`. A derived class sets `name`,
    `dialect` and `driver`."""

    driver: ClassVar[Path]
    """The file of the module that the server imports in the sandbox; its contents are described in
    `embedded_guest.py`. Import that module on the host too, so that a run records its digest and
    nodes receive it."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The installed packages that the driver needs, by their names in pip. Their files are copied
    into the sandbox, which must have the same Python version."""
    memory: ClassVar[int] = 0
    """The most bytes of the server's address space, so that a greedy statement gets an error. It
    must be below the sandbox's limit. 0 if the library enforces a limit itself."""
    processes: ClassVar[int] = 16
    """The most processes and threads in the sandbox."""
    _connection: socket.socket | None = None

    @classmethod
    def missing(cls) -> str | None:
        for name in cls.packages:
            try:
                distribution(name)
            except PackageNotFoundError:
                return f"{name} is not installed; run: pip install {name}"
        return None

    @classmethod
    def folder(cls) -> str:
        """Return the server's folder in the sandbox."""
        return f"/srv/{cls.name}"

    @classmethod
    def prepare(cls, databases: Databases) -> Template:
        below = cls._with_packages(template.base(None))
        server = Path(embedded_guest.__file__).read_text("utf-8")
        words = (cls.name, below.digest, databases.digest, server, cls.driver.read_text("utf-8"))
        build = cls._copy if databases.files else cls._load
        return cached_layer(below, words, partial(build, below, databases))

    @classmethod
    def _with_packages(cls, below: Template) -> Template:
        """Return the template with a layer of the packages that the driver imports."""
        installed = [distribution(name) for name in cls.packages]
        if not installed:
            return below

        def build(layer: Path) -> None:
            target = template.new_tree(layer) / cls.folder()[1:] / "packages"
            for dist in installed:
                for file in dist.files or ():
                    if {"..", template.PYTHON_CACHE}.isdisjoint(file.parts):
                        (target / file).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(str(file.locate()), target / file)
            _own(layer)

        versions = [f"{dist.name} {dist.version} {dist.locate_file('')}" for dist in installed]
        return cached_layer(below, [cls.name, *versions], build)

    @classmethod
    def _copy(cls, below: Template, databases: Databases, layer: Path) -> None:
        original = template.new_tree(layer) / cls.folder()[1:] / "original"
        original.mkdir(parents=True)
        for name, file in databases.files.items():
            Path(shutil.copyfile(file, original / f"{name}.{cls.name}")).chmod(0o644)
        _own(layer)

    @classmethod
    def _load(cls, below: Template, databases: Databases, layer: Path) -> None:
        layer.chmod(0o755)
        with usual_provider().sandbox(
            below, limits=_BUILD, session="stateless", export=layer
        ) as sandbox:
            for name, texts in databases.scripts.items():
                script = ";\n".join(texts).encode("utf-8", "surrogateescape")
                sandbox.write(f"{cls.folder()}/original/{name}.sql", script)
            cls._write_server(sandbox)
            result = sandbox.exec("", argv=cls._server_words(), cwd="/")
            output = result.output.strip()[-1000:]
            if result.exit_code == embedded_guest.REFUSED:
                raise DataError(
                    f"{output}; if the SQL is another engine's, name that with --engine"
                )
            if result.exit_code != 0:
                raise SandboxDied(
                    f"{cls.name} died while databases were being loaded (status"
                    f" {result.exit_code}); its output ends:\n{output}"
                )
            sandbox.export(layer)

    @classmethod
    def _write_server(cls, sandbox: LocalSandbox) -> None:
        sandbox.write(f"{cls.folder()}/server.py", Path(embedded_guest.__file__).read_bytes())
        sandbox.write(f"{cls.folder()}/driver.py", cls.driver.read_bytes())

    @classmethod
    def _server_words(cls) -> list[str]:
        return [guest_python()[0], "-I", "-S", f"{cls.folder()}/server.py", cls.folder()]

    def run(self, statement: str, *, seconds: float) -> Answer:
        if self._db is None or self._broken:
            raise UsageError("no database is open; call open(db) first")
        answer = self._execute("run", statement, seconds)
        if answer.lost:  # start a new server on the same files
            self.disconnect()
            self._launch(f"kill -9 $(cat {self.folder()}/pid)")
        return answer

    def run_gold(self, db: str, statement: str, *, seconds: float = 60.0) -> Answer:
        db = self.name_of(db)
        self.require_server()
        answer = self._execute("gold", statement, seconds, db=db)
        self._broken = answer.lost  # the next `open` needs another server
        return answer

    @contextmanager
    def reading(self) -> Iterator[Read]:
        self._request("resume", db=self._db)
        yield partial(self.run, seconds=READ_SECONDS)

    def _execute(self, op: str, statement: str, seconds: float, **arguments: str) -> Answer:
        """Return the answer to a statement; `lost` if the statement calls a function that the
        library cannot stop."""
        if too_long := self.too_long(statement):
            return too_long
        request = {"op": op, "statement": statement, "seconds": seconds, **arguments}
        server = self._connect()
        try:
            return read_answer(exchange(server, request, seconds + _GRACE))
        except TimeoutError:
            return Answer(error="interrupted", timed_out=True, lost=True)
        except (OSError, ValueError, EOFError) as error:
            raise self._failure(op, error) from None

    def facts(self) -> dict[str, Any]:
        version = self._request("facts")["version"]
        return {"engine": self.name, "version": version, "max_rows": self.max_rows}

    # -- inside ------------------------------------------------------------------------------------

    @property
    def log(self) -> str:
        return f"{self.folder()}/log"

    @property
    def limits(self) -> Limits:
        """Return limits with room for a copy of the largest database and the same amount again."""
        originals = self.prepared.layers[-1] / template.TREE / self.folder()[1:] / "original"
        largest = max((file.stat().st_size for file in originals.iterdir()), default=0)
        room = 512 * MIB + 2 * largest
        return Limits(memory=room + 1024 * MIB, disk=room, file_size=room, processes=self.processes)

    def begin_episode(self, db: str) -> None:
        if why := self._request("open", db=db).get("unreadable"):
            raise DataError(f"the database {db} cannot be read: {why}; is its file complete?")
        self._db = db

    def start_server(self) -> None:
        self._launch()
        self._connect()

    def _launch(self, first: str = "true") -> None:
        """Execute the command `first`, then start a server in the background; `_connect` waits for
        the server."""
        self._write_server(self.sandbox)
        folder = self.folder()
        run_script(
            self.sandbox,
            f"{first}; rm -f {folder}/socket; exec >{self.log} 2>&1;"
            f" {' '.join(self._server_words())} {folder}/socket"
            f" {self.max_rows} {self.max_bytes} {self.memory} & echo $! >{folder}/pid",
        )

    def _connect(self) -> socket.socket:
        """Return the connection to the server. A new server continues with the database as the last
        server left it."""
        if self._connection is None:
            connect = partial(self.sandbox.connect, f"{self.folder()}/socket")
            connection = wait_for_server(self.sandbox, f"{self.folder()}/pid", connect)
            if connection is None:
                raise self.death(f"the {self.name} server does not start")
            self._connection = connection
            if self._db is not None:
                self._request("resume", db=self._db)
        return self._connection

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, op: str, **arguments: str | None) -> dict[str, Any]:
        """Return the reply to a request that does not execute a statement. A server that does not
        reply in time counts as dead."""
        try:
            return exchange(self._connect(), {"op": op, **arguments}, PATIENCE)
        except (OSError, ValueError, EOFError) as error:
            raise self._failure(op, error) from None

    def _failure(self, when: str, error: Exception) -> SandboxError:
        """Return the error for a dead server, or for an unreadable reply. The host may be at fault
        for the latter, so the agent is not blamed."""
        if isinstance(error, ValueError):
            self._broken = True
            return SandboxError(
                f"the {self.name} server's answer to {when} cannot be read ({error}); please"
                " report the statement"
            )
        how = str(error) or "it closed the connection"
        if isinstance(error, TimeoutError):
            how = "it does not answer"
        return self.death(f"the {self.name} server died during {when} ({how})")


def _own(layer: Path) -> None:
    """Make the sandboxes' user the owner of a layer's files."""
    for path in (layer / template.TREE).rglob("*"):
        identity().own(path)


def exchange(connection: socket.socket, request: dict[str, Any], wait: float) -> dict[str, Any]:
    """Send a request and return the reply, within `wait` seconds.

    Raises `TimeoutError` if there is no reply, `EOFError` or `OSError` if the server is gone, and
    `ValueError` for invalid bytes: a server that the agent took over may send anything.
    """
    limit = Limit(wait)
    data = bytearray()
    connection.settimeout(wait)
    connection.sendall(json.dumps(request).encode() + b"\n")
    while not data.endswith(b"\n"):
        wait = limit.wait()
        if wait <= 0:
            raise TimeoutError
        connection.settimeout(wait)
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
        reply = json.loads(data, object_hook=_value)
    except (TypeError, RecursionError, InvalidOperation) as error:
        raise ValueError(repr(error)) from None
    if not isinstance(reply, dict):
        raise ValueError("no reply")
    return reply


def _value(tagged: dict[str, Any]) -> object:
    """Decode a value that JSON cannot represent (see `embedded_guest.py`); return other objects
    unchanged."""
    match tagged:
        case {"b": hexadecimal} if len(tagged) == 1:
            return bytes.fromhex(hexadecimal)
        case {"d": digits} if len(tagged) == 1 and Decimal(digits).is_finite():
            return Decimal(digits)
    return tagged


def read_answer(reply: dict[str, Any]) -> Answer:
    """Return the answer in the reply to a statement. Raises `ValueError` if the reply is
    malformed."""
    match reply:
        case {"columns": [*columns], "rows": [*rows], "cut": bool(cut)} if {
            *map(type, columns)
        } <= {str} and {*map(type, rows)} <= {list}:
            values = {*map(type, chain(*rows))}
            if {*map(len, rows)} <= {len(columns)} and values <= _VALUES:
                return Answer(Table(tuple(columns), tuple(map(tuple, rows)), cut))
        case {"error": str(error), "late": bool(late)}:
            return Answer(error=error, timed_out=late)
        case {"affected": int(affected)}:
            return Answer(affected=affected)
    raise ValueError(f"no answer: {str(reply)[:200]}")
