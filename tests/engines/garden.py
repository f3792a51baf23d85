"""An engine of either kind on given databases."""

from __future__ import annotations

from orchard import skip_unless_there

from intercode.engines import Caps, Databases, Engine, mariadbd, sqlite
from intercode.engines.mariadb import MariadbEngine


def make(name: str, sources: Databases, caps: Caps | None = None) -> Engine:
    """Skips where it is not installed."""
    skip_unless_there(name)
    if name == "sqlite":
        return sqlite.SqliteEngine(sqlite.prepare(sources), sources, caps=caps)
    return MariadbEngine(mariadbd.prepare(sources), caps=caps)
