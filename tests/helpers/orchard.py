"""The small data set of the SQL attacks, `intercode.redteam.sql`, and environments on it, on
both engines."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from families import alive, family, wait_until
from kept import needs_bwrap

import intercode
from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import ENGINES, Databases, engine_class
from intercode.factory import EnvFactory
from intercode.redteam.sql import ATTACKS, CELLAR, GOLDS, ORCHARD, TASKS, write_data

__all__ = [
    "CELLAR",
    "CONSTANT",
    "DUCKDB",
    "ENDLESS",
    "ENGINES",
    "GOLDS",
    "ORCHARD",
    "TASKS",
    "Pool",
    "pool",
    "prepared",
    "write_data",
]

CONSTANT = next(attack.answer for attack in ATTACKS if attack.name == "constant")
"""The result of the gold of `weights` on the original contents, as a query."""
DUCKDB = "duckdb_engine:DuckDB"
"""The example of an own engine, in examples/duckdb."""
ENDLESS = {
    "sqlite": (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r"
    ),
    "mariadb": "SELECT SLEEP(60)",
}
"""Statements of which no test sees the end."""


def skip_unless_there(engine: str) -> None:
    needs_bwrap()
    if engine == DUCKDB:
        pytest.importorskip("duckdb")
    if why := engine_class(engine).missing():
        pytest.skip(why)


def orchard_databases() -> Databases:
    with tempfile.TemporaryDirectory() as folder:
        return read_databases(write_data(Path(folder) / "orchard") / "databases")


@functools.cache
def _prepared(engine: str, options: str, cache: str | None) -> EnvFactory:
    with tempfile.TemporaryDirectory() as folder:
        return intercode.prepare(
            "sql",
            data=str(write_data(Path(folder) / "orchard")),
            engine=engine,
            **json.loads(options),
        )


def prepared(engine: str, **options: Any) -> EnvFactory:
    """`prepare`, done once for equal options; `reward` may be a function. Skips where the engine is
    not installed."""
    skip_unless_there(engine)
    if callable(options.get("reward")):
        with tempfile.TemporaryDirectory() as folder:
            return intercode.prepare(
                "sql", data=str(write_data(Path(folder) / "orchard")), engine=engine, **options
            )
    return _prepared(engine, json.dumps(options, sort_keys=True), os.environ.get("INTERCODE_CACHE"))


class Pool:
    """Environments that tests use one after the other; each may use what an earlier one has
    left."""

    def __init__(self, new: Callable[..., Any], engine: str = "") -> None:
        self._new, self.engine = new, engine
        self._made: list[tuple[str, Any]] = []

    def lent(self) -> Callable[..., Any]:
        """A maker of environments, none of them given twice; with a task it has begun, and taken
        the actions."""
        free = list(self._made)

        def make(task: str | None = None, *actions: str, **options: Any) -> Any:
            key = repr(sorted(options.items()))
            pair = next((pair for pair in free if pair[0] == key), None)
            if pair:
                free.remove(pair)
            else:
                pair = key, self._new(**options)
                self._made.append(pair)
            env = pair[1]
            if task is not None:
                env.reset(seed=0, options={"task": task})
            for action in actions:
                env.step(action)
            return env

        return make

    def close(self) -> None:
        for _, env in self._made:
            env.close()


@contextlib.contextmanager
def pool(engine: str) -> Iterator[Pool]:
    skip_unless_there(engine)
    with contextlib.closing(Pool(lambda **options: prepared(engine, **options)(), engine)) as made:
        yield made


def servers_below(pid: int) -> list[int]:
    """The database servers among a process's descendants."""
    marks = ("mariadbd --no-defaults", "/server.py /srv/")
    found = []
    for child, _ in alive(family(pid)):
        with contextlib.suppress(OSError):
            line = (
                Path(f"/proc/{child}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
            )
            if any(mark in line for mark in marks) and "bash -c" not in line:
                found.append(child)
    return found


def servers_of(engine: Any) -> list[int]:
    """The processes of an engine's server, as this machine numbers them: one, or none just now."""
    return servers_below(engine.sandbox.host._process.pid)


def server_of(engine: Any) -> int:
    """0 if there is none just now."""
    return next(iter(servers_of(engine)), 0)


def kill_server(engine: Any) -> int:
    """And wait until it has gone; gives the process that it was."""
    pid = server_of(engine)
    assert pid, "no server to kill"
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: server_of(engine) != pid)
    return pid


def plays(env: Any, task: str, *actions: str) -> Any:
    """The score of an episode with these actions and a submission; None if it ended before."""
    env.reset(options={"task": task})
    for action in actions:
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info.get("score")
    return env.step("submit")[4]["score"]
