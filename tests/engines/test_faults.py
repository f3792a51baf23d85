"""Servers that die, engines that end: a clear error, a working engine after, and no process
left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import do, gold, rows
from families import wait_until
from orchard import kill_server, servers_of

from intercode.envs.sql.engines import Engine
from intercode.errors import SandboxDied

pytestmark = pytest.mark.slow


def stopped(pid: int) -> bool:
    """Every thread of it: the one that answers may be the last."""
    states = [
        path.read_text().rpartition(")")[2].split()[0]
        for path in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
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


def test_a_server_that_is_stuck_or_whose_wall_dies_is_replaced_and_closing_leaves_no_process(
    own: Engine,
) -> None:
    """A stopped one neither answers nor ends, as one that is stuck in the kernel."""
    (pid,) = servers_of(own)
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: stopped(pid))
    began = time.monotonic()
    with contextlib.suppress(SandboxDied):
        assert own.run("SELECT 1", seconds=0.2).lost
    assert time.monotonic() - began < 30
    assert_works(own)

    (pid,) = servers_of(own)
    os.kill(own.sandbox.host._process.pid, signal.SIGKILL)
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(SandboxDied):
        own.run("SELECT 1", seconds=1)
    assert_works(own)

    (pid,) = servers_of(own)
    own.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("own", ["sqlite"], indirect=True)  # the same code for all
def test_blame_is_read_from_the_sandboxs_report_and_not_from_its_words(
    own: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program inside may print the words, and another version may word them differently."""
    execute, words = own.sandbox.exec, "memory limit of 9 MiB exceeded: all processes were killed"

    def background(command: str) -> None:
        execute("", argv=["bash", "-c", f"(sleep 0.3; {command}) &"], cwd="/")

    background(f"echo '[{words}]'")
    time.sleep(1)
    kill_server(own)
    with pytest.raises(SandboxDied, match=words) as caught:
        own.run("SELECT 1", seconds=5)
    assert not caught.value.by_agent
    assert_works(own)

    def reworded(*words: Any, **options: Any) -> Any:
        return replace(execute(*words, **options), output="none are left")

    background("for i in {1..5}; do head -c 400M /dev/zero | tail -n 1 | sleep 60 & done")
    assert wait_until(lambda: not servers_of(own))
    monkeypatch.setattr(own.sandbox, "exec", reworded)
    with pytest.raises(SandboxDied, match="none are left") as caught:
        own.run("SELECT 1", seconds=5)
    monkeypatch.undo()
    assert caught.value.by_agent
    assert_works(own)
