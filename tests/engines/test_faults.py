"""Servers that die, engines that end: a clear error, a working engine after, and no process left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from asking import do, rows
from conftest import make

from intercode.engines import Databases, Engine, mariadbd, sqlite
from intercode.engines.mariadb import MariadbEngine
from intercode.errors import SandboxDied, SandboxError

LONG = {
    "mariadb": "SELECT SLEEP(60)",
    "sqlite": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
}


def servers(word: str) -> set[int]:
    """Database servers of any engine on this machine, by their command lines."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word in (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " "):
                found.add(int(folder.name))
        except OSError:
            continue
    return found


def word(engine: Engine) -> str:
    return "mariadbd --no-defaults" if engine.dialect == "mysql" else "/srv/sqlite/server.py"


def below(pids: set[int], parent: int) -> set[int]:
    """Those of `pids` that descend from a process of ours: other sessions run servers too."""
    return {pid for pid in pids if parent in ancestors(pid)}


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        found.append(pid)
    return found


def stopped(pid: int) -> bool:
    """Every thread of it: the one that answers may be the last."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


@pytest.fixture
def victim(own: Engine) -> tuple[Engine, int]:
    """An engine, and its server's process as the machine numbers it."""
    sandbox = own._server.sandbox if own.dialect == "mysql" else own._sandbox  # type: ignore[attr-defined]
    wall = sandbox._wall.wall._bwrap.pid
    mine = below(servers(word(own)), wall)
    assert len(mine) == 1, mine
    return own, mine.pop()


def test_a_killed_server_is_told_and_replaced(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    do(engine, "DELETE FROM plant")
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(SandboxDied, match="server died"):
        engine.run("SELECT 1", seconds=5)
    assert time.monotonic() - began < 2
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_a_server_killed_between_episodes_is_replaced(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.05)
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_a_server_killed_before_a_gold_is_told_and_replaced(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxDied):
        engine.run_gold("vault", "SELECT 1")
    table = engine.run_gold("vault", "SELECT 1").table
    assert table is not None
    assert table.rows == ((1,),)


def test_a_stopped_server_is_replaced(victim: tuple[Engine, int]) -> None:
    """It neither answers nor ends, as one that is stuck in the kernel."""
    engine, pid = victim
    os.kill(pid, signal.SIGSTOP)
    while not stopped(pid):
        time.sleep(0.001)
    began = time.monotonic()
    try:
        answer = engine.run("SELECT 1", seconds=0.2)
        assert answer.lost
    except SandboxDied:
        pass
    assert time.monotonic() - began < 3
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


@pytest.mark.parametrize("what", ["facts", "fork"])
def test_a_stopped_sqlite_is_told_by_forks_and_facts(
    what: str, own_sqlite: sqlite.SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pid,) = below(servers(word(own_sqlite)), own_sqlite._sandbox._wall.wall._bwrap.pid)
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.3)
    os.kill(pid, signal.SIGSTOP)
    while not stopped(pid):
        time.sleep(0.001)
    with pytest.raises(SandboxDied, match="does not answer"):
        getattr(own_sqlite, what)()
    monkeypatch.undo()
    own_sqlite.open("garden_1")
    assert rows(own_sqlite, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_the_wall_itself_may_die(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    sandbox = engine._server.sandbox if engine.dialect == "mysql" else engine._sandbox  # type: ignore[attr-defined]
    os.kill(sandbox._wall.wall._bwrap.pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    with pytest.raises(SandboxDied):
        engine.run("SELECT 1", seconds=1)
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_closing_leaves_no_process(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    engine.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_a_mariadb_that_cannot_start_leaves_no_process(sources: Databases) -> None:
    """With a process more each time, so that its start breaks off in one place after another, `df` beside it among them."""
    if why := mariadbd.missing():
        pytest.skip(why)
    prepared, name = mariadbd.prepare(sources), "mariadbd --no-defaults"
    others = below(servers(name), os.getpid())
    failed: dict[str, set[int]] = {}
    for processes in range(8, 24):
        try:
            MariadbEngine(prepared, limits=replace(mariadbd.LIMITS, processes=processes)).close()
            break
        except SandboxError as error:
            failed[str(error)] = below(servers(name), os.getpid()) - others
    assert failed
    assert not any(failed.values()), failed


@pytest.mark.soak
@pytest.mark.parametrize("name", ["mariadb", "sqlite"])
def test_a_server_killed_at_random_moments(name: str, sources: Databases) -> None:
    """30 deaths between any two instructions, every second one amid a statement.

    Only `SandboxDied` is seen, and the content is whole each time.
    """
    chance = random.Random(7)
    with make(name, sources) as engine:
        engine.open("garden_1")
        for turn in range(30):
            sandbox = engine._server.sandbox if engine.dialect == "mysql" else engine._sandbox  # type: ignore[attr-defined]
            alive = below(servers(word(engine)), sandbox._wall.wall._bwrap.pid)
            assert alive
            killer = threading.Timer(chance.uniform(0, 0.05), end, [alive])
            killer.start()
            if turn % 2:
                episodes(engine, killer)
            else:
                with pytest.raises(SandboxDied):
                    engine.run(LONG[name], seconds=30)
            killer.join()
            engine.open("garden_1")
            assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def end(pids: set[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def episodes(engine: Engine, killer: threading.Timer) -> None:
    """Writing episodes until the blow has fallen, which is seen unless `open` mended it."""
    with contextlib.suppress(SandboxDied):
        while killer.is_alive():
            engine.open("garden_1")
            engine.run_gold("vault", "SELECT * FROM secret")
            engine.run("DELETE FROM plant", seconds=5)
            engine.run("CREATE TABLE extra (a INT)", seconds=5)
