"""Databases for the engine that cannot load them: read by the one that can, written for the other, cached by content.

MySQL dump ──► for_sqlite            SQLite files ──► for_mariadb            portable SQL goes to both as it is
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from intercode.engines import mariadbd, sqlite, tables
from intercode.engines.base import Caps, Engine
from intercode.engines.dump import Databases
from intercode.engines.mariadb import MariadbEngine
from intercode.errors import UsageError
from intercode.sandbox import cache

_LAYOUT = "4"
_LEFT = "left.json"
_EVERYTHING = Caps(rows=20_000_000, bytes=1 << 29)


def for_sqlite(content: Databases) -> Databases:
    """Raises `UsageError` where a MySQL dump would have to be read by a MariaDB that is not there."""
    if content.kind != "mysql":
        return content
    if why := mariadbd.missing():
        raise UsageError(f"a MySQL dump is read by MariaDB: {why}, or give a folder of SQLite files or portable SQL")
    return _converted(content, "sqlite")


def for_mariadb(content: Databases) -> Databases:
    return _converted(content, "mysql") if content.kind == "sqlite" else content


def _converted(content: Databases, dialect: str) -> Databases:
    """Scripts in the dialect of the engine that is to load them; a line on stderr names the views that are missing there."""
    key = hashlib.sha256("\0".join((_LAYOUT, content.digest, dialect, mariadbd.version())).encode()).hexdigest()[:32]
    folder = cache.folder("databases", key, lambda made: _write(content, dialect, made))
    if left := json.loads((folder / _LEFT).read_text("ascii")):
        print(f"views are not converted for {dialect}, golds that name them fail: {', '.join(left)}", file=sys.stderr)
    texts = {file.stem: (file.read_text("utf-8"),) for file in sorted(folder.glob("*.sql"))}
    return Databases("portable", key, texts)


def _write(content: Databases, dialect: str, made: Path) -> None:
    left: list[str] = []
    with _reader(content) as engine:
        for name in engine.databases:
            left += [f"{name}.{view}" for view in tables.views(engine, name)]
            (made / f"{name}.sql").write_text(tables.write(tables.read(engine, name), dialect), "utf-8")
    (made / _LEFT).write_text(json.dumps(left), "ascii")


def _reader(content: Databases) -> Engine:
    if content.kind == "sqlite":
        return sqlite.SqliteEngine(sqlite.prepare(content), content, caps=_EVERYTHING)
    return MariadbEngine(mariadbd.prepare(content), caps=_EVERYTHING)
