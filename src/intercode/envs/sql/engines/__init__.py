"""Database engines: private servers on which an agent's SQL runs. `engine_maker` chooses one; `base.py` has the contract.

databases(path) ──► Databases ──► engine_maker("sqlite" | "mariadb", databases) ──► () -> Engine
             a MySQL dump is for MariaDB, SQLite files for SQLite; portable SQL is for both
"""

from __future__ import annotations

from collections.abc import Callable

from intercode.envs.sql.engines.base import Answer, Caps, Engine
from intercode.envs.sql.engines.dump import Databases, databases
from intercode.envs.sql.variants import second_databases
from intercode.errors import UsageError

__all__ = ["Answer", "Caps", "Databases", "Engine", "databases", "engine_maker", "second_databases"]

ENGINES = ("sqlite", "mariadb")


def engine_maker(name: str | None, content: Databases, *, caps: Caps | None = None) -> Callable[[], Engine]:
    """What makes engines of one kind, each with a server of its own; the databases are prepared here, once.

    `name` is `sqlite` or `mariadb`. Raises `UsageError` for another one, or for databases that only the other engine loads,
    `DataError` for databases that do not load, `SandboxUnavailable` where no server is installed.
    """
    name = name or ("mariadb" if content.kind == "mysql" else "sqlite")
    if "://" in name:
        raise UsageError(
            "--engine takes no address of a running server; dump its databases (mariadb-dump --databases NAME… >FILE) and use "
            "--dump FILE"
        )
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}; there are {' and '.join(ENGINES)}")
    if name == "sqlite" and content.kind == "mysql":
        raise UsageError(
            "SQLite does not load a MySQL dump; use --engine mariadb (apt-get install mariadb-server), or give a folder of "
            "SQLite files or of portable SQL"
        )
    if name == "mariadb" and content.kind == "sqlite":
        raise UsageError("MariaDB does not load SQLite files; use --engine sqlite, or give a MySQL dump or portable SQL")
    if name == "sqlite":
        from intercode.envs.sql.engines import sqlite

        files = sqlite.prepare(content)
        return lambda: sqlite.SqliteEngine(files, content, caps=caps)
    from intercode.envs.sql.engines import mariadbd
    from intercode.envs.sql.engines.mariadb import MariadbEngine

    prepared = mariadbd.prepare(content)
    return lambda: MariadbEngine(prepared, caps=caps)
