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
from families import wait_until
from garden import make
from orchard import ENDLESS, servers_below, servers_of

from intercode.engines import Databases, Engine, mariadbd, sqlite
from intercode.engines.mariadb import MariadbEngine
from intercode.errors import SandboxDied, SandboxError


def stopped(pid: int) -> bool:
    """Every thread of it: the one that answers may be the last."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


@pytest.fixture
def victim(own: Engine) -> tuple[Engine, int]:
    """An engine, and its server's process as the machine numbers it."""
    (pid,) = servers_of(own)
    return own, pid


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
    assert wait_until(lambda: not servers_of(engine))
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
    assert wait_until(lambda: stopped(pid))
    began = time.monotonic()
    try:
        answer = engine.run("SELECT 1", seconds=0.2)
        assert answer.lost
    except SandboxDied:
        pass
    assert time.monotonic() - began < 3
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_a_stopped_sqlite_is_told_by_facts(own_sqlite: sqlite.SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    (pid,) = servers_of(own_sqlite)
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.3)
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: stopped(pid))
    with pytest.raises(SandboxDied, match="does not answer"):
        own_sqlite.facts()
    monkeypatch.undo()
    own_sqlite.open("garden_1")
    assert rows(own_sqlite, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_the_wall_itself_may_die(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    sandbox = engine._server.sandbox if engine.dialect == "mysql" else engine._sandbox  # type: ignore[attr-defined]
    os.kill(sandbox._wall.wall._process.pid, signal.SIGKILL)
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(SandboxDied):
        engine.run("SELECT 1", seconds=1)
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_closing_leaves_no_process(victim: tuple[Engine, int]) -> None:
    engine, pid = victim
    engine.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_a_mariadb_that_cannot_start_leaves_no_process(sources: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a process more each time, so that its start breaks off in one place after another, `df` beside it among them.

    At first it does not end either, so that only our patience does.
    """
    monkeypatch.setattr(mariadbd, "_PATIENCE", 2.0)
    if why := mariadbd.missing():
        pytest.skip(why)
    prepared, others = mariadbd.prepare(sources), set(servers_below(os.getpid()))
    failed: dict[str, set[int]] = {}
    for processes in range(8, 24):
        try:
            MariadbEngine(prepared, limits=replace(mariadbd.LIMITS, processes=processes)).close()
            break
        except SandboxError as error:
            failed[str(error)] = set(servers_below(os.getpid())) - others
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
            (pid,) = servers_of(engine)
            killer = threading.Timer(chance.uniform(0, 0.05), os.kill, [pid, signal.SIGKILL])
            killer.start()
            if turn % 2:
                episodes(engine, killer)
            else:
                with pytest.raises(SandboxDied):
                    engine.run(ENDLESS[name], seconds=30)
            killer.join()
            engine.open("garden_1")
            assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def episodes(engine: Engine, killer: threading.Timer) -> None:
    """Writing episodes until the blow has fallen, which is seen unless `open` mended it."""
    with contextlib.suppress(SandboxDied):
        while killer.is_alive():
            engine.open("garden_1")
            engine.run_gold("vault", "SELECT * FROM secret")
            engine.run("DELETE FROM plant", seconds=5)
            engine.run("CREATE TABLE extra (a INT)", seconds=5)
