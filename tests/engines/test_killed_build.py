"""A server that is killed while its databases are being loaded leaves no template behind."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from families import family, wait_until
from orchard import ENDLESS, orchard_databases, servers_below, skip_unless_there

from intercode.engines import databases, engine_maker, mariadbd, sqlite
from intercode.errors import DataError, SandboxError

pytestmark = pytest.mark.slow


def test_a_server_killed_while_it_loads_leaves_no_template(empty_cache: Path) -> None:
    """Its last second of work would be missing there. The blow falls when the databases' own files are there."""
    skip_unless_there("mariadb")
    content = orchard_databases()
    killed: list[int] = []

    def strike() -> None:
        assert wait_until(lambda: any(loading(pid) for pid in servers_below(os.getpid())), 30)
        for pid in servers_below(os.getpid()):
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(SandboxError, match="loaded"):
        mariadbd.prepare(content)
    thread.join()
    assert killed
    with engine_maker("mariadb", content)() as engine:
        engine.open("orchard")
        before = engine.run("SELECT COUNT(*) FROM picking", seconds=5)
        engine.run("DELETE FROM picking", seconds=5)
        engine.open("orchard")
        assert engine.run("SELECT COUNT(*) FROM picking", seconds=5) == before


def test_a_sqlite_that_is_killed_while_it_loads_is_not_the_datas_fault(empty_cache: Path, tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    (tmp_path / "slow.sql").write_text(ENDLESS["sqlite"] + ";")

    def strike() -> None:
        assert wait_until(lambda: bool(fillers()), 30)
        for pid in fillers():
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(SandboxError, match="SQLite died while databases were being loaded"):
        sqlite.prepare(databases(tmp_path))
    thread.join()


def test_a_script_that_fails_is_the_datas_fault(empty_cache: Path, tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    (tmp_path / "odd.sql").write_text("CREATE TABLE t (a); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(DataError, match="database odd: no such table: nowhere"):
        sqlite.prepare(databases(tmp_path))


def fillers() -> list[int]:
    """The processes of ours that run SQLite's scripts, as soon as they are Python."""
    return [pid for pid, _ in family(os.getpid()) if words(pid)[1:2] == ["-c"] and words(pid)[-1:] == ["/srv/sqlite/pristine"]]


def words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def loading(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/root/var/lib/mariadb/orchard/picking.ibd")
