"""A server that is killed while its databases are being loaded leaves no template behind."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from families import wait_until
from orchard import orchard_databases, servers_below, skip_unless_there

from intercode.engines import engine_maker, mariadbd
from intercode.engines.convert import for_mariadb
from intercode.errors import SandboxError

pytestmark = pytest.mark.slow


def test_a_server_killed_while_it_loads_leaves_no_template(empty_cache: Path) -> None:
    """Its last second of work would be missing there. The blow falls when the databases' own files are there."""
    skip_unless_there("mariadb")
    content = for_mariadb(orchard_databases())
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


def loading(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/root/var/lib/mariadb/orchard/picking.ibd")
