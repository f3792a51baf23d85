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
from asking import do, gold, make, rows
from families import wait_until
from orchard import ENDLESS, kill_server, servers_below, servers_of, skip_unless_there

from intercode.engines import Databases, Engine, mariadbd
from intercode.engines.mariadb import MariadbEngine
from intercode.errors import SandboxDied, SandboxError


def stopped(pid: int) -> bool:
    """Every thread of it: the one that answers may be the last."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def assert_works(engine: Engine) -> None:
    engine.open("garden_1")
    assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_a_server_that_dies_is_told_and_replaced(own: Engine) -> None:
    do(own, "DELETE FROM plant")
    kill_server(own)
    with pytest.raises(SandboxDied, match="server died") as caught:
        own.run("SELECT 1", seconds=5)
    assert not caught.value.by_agent
    assert_works(own)

    kill_server(own)  # between two episodes
    assert_works(own)

    kill_server(own)
    with pytest.raises(SandboxDied):
        own.run_gold("vault", "SELECT 1")
    assert gold(own, "vault", "SELECT 1") == [(1,)]


def test_a_server_that_is_stuck_or_whose_wall_dies_is_replaced_and_closing_leaves_no_process(own: Engine) -> None:
    """A stopped one neither answers nor ends, as one that is stuck in the kernel."""
    (pid,) = servers_of(own)
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: stopped(pid))
    began = time.monotonic()
    with contextlib.suppress(SandboxDied):
        assert own.run("SELECT 1", seconds=0.2).lost
    assert time.monotonic() - began < 3
    assert_works(own)

    (pid,) = servers_of(own)
    sandbox = own._server.sandbox if own.dialect == "mysql" else own._sandbox  # type: ignore[attr-defined]
    os.kill(sandbox._wall.wall._process.pid, signal.SIGKILL)
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(SandboxDied):
        own.run("SELECT 1", seconds=1)
    assert_works(own)

    (pid,) = servers_of(own)
    own.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_a_mariadb_that_cannot_start_leaves_no_process(sources: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a process more each time, so that its start breaks off in one place after another, `df` beside it among them."""
    skip_unless_there("mariadb")
    monkeypatch.setattr(mariadbd, "_PATIENCE", 1.0)  # at first it does not end either
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
    """30 deaths between any two instructions, every second one amid a statement: only `SandboxDied` is seen."""
    chance = random.Random(7)
    with make(name, sources) as engine:
        engine.open("garden_1")
        for turn in range(30):
            (pid,) = servers_of(engine)
            killer = threading.Timer(chance.uniform(0, 0.05), os.kill, [pid, signal.SIGKILL])
            killer.start()
            with contextlib.suppress(SandboxDied):  # `open` may mend it unseen
                while turn % 2 and killer.is_alive():
                    engine.open("garden_1")
                    engine.run_gold("vault", "SELECT * FROM secret")
                    do(engine, "DELETE FROM plant", "CREATE TABLE extra (a INT)")
            if not turn % 2:
                with pytest.raises(SandboxDied):
                    engine.run(ENDLESS[name], seconds=30)
            killer.join()
            assert_works(engine)
