"""Databases that do not load, and a server that is killed while they load: a clear error, and no
template is left."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from asking import gold, make
from families import wait_until
from orchard import orchard_databases, servers_below, skip_unless_there

from intercode.envs.sql.databases import read_databases
from intercode.errors import DataError, SandboxError

pytestmark = pytest.mark.slow

BROKEN = [
    ("sqlite", "INSERT INTO nowhere VALUES (1)", "database odd: no such table: nowhere"),
    ("mariadb", "CREATE TABEL u (a INT)", r"database odd: .*TABEL"),
    ("mariadb", "KILL CONNECTION_ID()", r"database odd: .*in the statement 'KILL"),
]


@pytest.mark.parametrize(("engine", "statement", "message"), BROKEN)
def test_a_script_that_fails_is_the_datas_fault(
    tmp_path: Path, engine: str, statement: str, message: str
) -> None:
    (tmp_path / "odd.sql").write_text(f"CREATE TABLE t (a INT); {statement};")
    with pytest.raises(DataError, match=message):
        make(engine, read_databases(tmp_path))


@pytest.mark.slow
def test_a_server_killed_while_it_loads_leaves_no_template(empty_cache: Path) -> None:
    """Its last second of work would be missing there. The blow falls when the databases' own files
    are there."""
    skip_unless_there("mariadb")
    content = orchard_databases()

    def loading() -> list[int]:
        files = {
            pid: f"/proc/{pid}/root/var/lib/mariadb/orchard/picking.ibd"
            for pid in servers_below(os.getpid())
        }
        return [pid for pid, file in files.items() if os.path.exists(file)]

    def strike() -> None:
        assert wait_until(loading, 30)
        for pid in loading():
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(SandboxError, match="loaded"):
        make("mariadb", content)
    thread.join()
    with make("mariadb", content) as engine:
        assert gold(engine, "orchard", "SELECT COUNT(*) > 0 FROM picking") == [(1,)]
