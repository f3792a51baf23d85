"""Databases that do not load, and servers that are killed while they load: a clear error, and no template is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import gold, make
from families import family, wait_until
from orchard import ENDLESS, orchard_databases, servers_below, skip_unless_there

from intercode.engines import databases
from intercode.errors import DataError, SandboxError

BROKEN = [
    ("sqlite", "INSERT INTO nowhere VALUES (1)", "database odd: no such table: nowhere"),
    ("mariadb", "CREATE TABEL u (a INT)", r"database odd: .*TABEL"),
    ("mariadb", "KILL CONNECTION_ID()", r"database odd: .*in the statement 'KILL"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "statement", "message"), BROKEN)
def test_a_script_that_fails_is_the_datas_fault(
    empty_cache: Path, tmp_path: Path, engine: str, statement: str, message: str
) -> None:
    (tmp_path / "odd.sql").write_text(f"CREATE TABLE t (a INT); {statement};")
    with pytest.raises(DataError, match=message):
        make(engine, databases(tmp_path))


@pytest.mark.slow
def test_a_server_killed_while_it_loads_leaves_no_template(empty_cache: Path) -> None:
    """Its last second of work would be missing there. The blow falls when the databases' own files are there."""
    content = orchard_databases()
    skip_unless_there("mariadb")
    with pytest.raises(SandboxError, match="loaded"):
        struck(loading, lambda: make("mariadb", content))
    with make("mariadb", content) as engine:
        assert gold(engine, "orchard", "SELECT COUNT(*) > 0 FROM picking") == [(1,)]


def test_a_sqlite_that_is_killed_while_it_loads_is_not_the_datas_fault(empty_cache: Path, tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    (tmp_path / "slow.sql").write_text(ENDLESS["sqlite"] + ";")
    with pytest.raises(SandboxError, match="SQLite died while databases were being loaded"):
        struck(fillers, lambda: make("sqlite", databases(tmp_path)))


def struck(victims: Callable[[], list[int]], load: Callable[[], Any]) -> None:
    """Load, and kill the victims as soon as there are some."""

    def strike() -> None:
        assert wait_until(victims, 30)
        for pid in victims():
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        load()
    finally:
        thread.join()


def fillers() -> list[int]:
    """The processes of ours that run SQLite's scripts, as soon as they are Python."""
    return [pid for pid, _ in family(os.getpid()) if words(pid)[1:2] == ["-c"] and words(pid)[-1:] == ["/srv/sqlite/pristine"]]


def words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def loading() -> list[int]:
    """The MariaDB servers of ours that have begun to write the database's last table."""
    found = servers_below(os.getpid())
    return [pid for pid in found if os.path.exists(f"/proc/{pid}/root/var/lib/mariadb/orchard/picking.ibd")]
