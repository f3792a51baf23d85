"""Database engines: private servers on which an agent's SQL runs. `engine_maker` chooses one; `base.py` has the contract.

databases(path) ──► Databases ──► engine_maker("sqlite" | "mariadb" | "mysql://…", databases) ──► () -> Engine
                                      └── databases that the engine cannot load are read by the other, and converted
"""

from __future__ import annotations

from collections.abc import Callable

from intercode.engines.base import Answer, Caps, Engine
from intercode.engines.dump import Databases, databases
from intercode.engines.second import second_databases
from intercode.errors import UsageError

__all__ = ["Answer", "Caps", "Databases", "Engine", "databases", "default_engine", "engine_maker", "second_databases"]

ENGINES = ("sqlite", "mariadb")


def default_engine(content: Databases | None) -> str:
    """SQLite, but for a MySQL dump where MariaDB is installed."""
    from intercode.engines import mariadbd

    return "mariadb" if content is not None and content.kind == "mysql" and not mariadbd.missing() else "sqlite"


def engine_maker(name: str | None, content: Databases | None, *, caps: Caps | None = None) -> Callable[[], Engine]:
    """What makes engines of one kind, each with a server of its own; the databases are prepared here, once.

    `name` is `sqlite`, `mariadb` or the URL of a server, which holds its databases itself. Raises `UsageError` for another
    one or without databases, `DataError` for databases that do not load, `SandboxUnavailable` where no server is installed.
    """
    if name is not None and "://" in name:
        return _url(name, caps)
    name = name or default_engine(content)
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}; there are {', '.join(ENGINES)} and mysql://USER:PASSWORD@HOST/")
    if content is None:
        raise UsageError("there are no databases; name them with --dump FILE or --databases DIR")
    return _mariadb(content, caps) if name == "mariadb" else _sqlite(content, caps)


def _url(url: str, caps: Caps | None) -> Callable[[], Engine]:
    from intercode.engines.url import UrlEngine

    return lambda: UrlEngine(url, caps=caps)


def _mariadb(content: Databases, caps: Caps | None) -> Callable[[], Engine]:
    from intercode.engines import mariadbd
    from intercode.engines.convert import for_mariadb
    from intercode.engines.mariadb import MariadbEngine

    prepared = mariadbd.prepare(for_mariadb(content))
    return lambda: MariadbEngine(prepared, caps=caps)


def _sqlite(content: Databases, caps: Caps | None) -> Callable[[], Engine]:
    from intercode.engines import sqlite
    from intercode.engines.convert import for_sqlite

    loadable = for_sqlite(content)
    prepared = sqlite.prepare(loadable)
    return lambda: sqlite.SqliteEngine(prepared, loadable, caps=caps)
