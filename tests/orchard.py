"""A small data set for SQL: two databases of our own, and environments on them, on both engines.

orchard   trees, what was picked from them, and what the marks of a picking mean (one has to look)
cellar    another database, to be reached for in vain
"""

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
from intercode.engines import Databases, databases, mariadbd
from intercode.env import Setting
from intercode.envs.sql import SqlEnv

ENGINES = ("sqlite", "mariadb")
ORCHARD = """
CREATE TABLE tree (
  id INTEGER NOT NULL, kind VARCHAR(20) NOT NULL, line_no INTEGER NOT NULL, planted INTEGER,
  PRIMARY KEY (id));
INSERT INTO tree VALUES (1, 'apple', 1, 1990), (2, 'apple', 1, 1991), (3, 'pear', 2, 1990), (4, 'plum', 2, NULL),
  (5, 'quince', 3, 2001), (6, 'apple', 3, 2003), (7, 'pear', 3, 2004);
CREATE TABLE picking (
  id INTEGER NOT NULL, tree_id INTEGER NOT NULL, kilos INTEGER NOT NULL, mark VARCHAR(4) NOT NULL,
  PRIMARY KEY (id), FOREIGN KEY (tree_id) REFERENCES tree (id));
INSERT INTO picking VALUES (1, 1, 40, 'K'), (2, 1, 12, 'R'), (3, 2, 31, 'K'), (4, 3, 25, 'Z'), (5, 4, 9, 'R'),
  (6, 6, 77, 'K'), (7, 7, 18, 'Z'), (8, 5, 6, 'R');
CREATE TABLE mark (code VARCHAR(4) NOT NULL, meaning VARCHAR(60) NOT NULL, PRIMARY KEY (code));
INSERT INTO mark VALUES ('K', 'for the cellar'), ('R', 'given away'), ('Z', 'left under the tree, lost');
"""
CELLAR = """
CREATE TABLE cask (id INTEGER NOT NULL, word VARCHAR(20) NOT NULL, PRIMARY KEY (id));
INSERT INTO cask VALUES (1, 'sesame'), (2, 'cinnamon');
"""
TASKS: list[dict[str, Any]] = [
    {"id": "count", "query": "How many trees are there?", "gold": "SELECT COUNT(*) FROM tree", "hardness": "easy"},
    {
        "id": "kinds",
        "query": "Print the kinds of trees with their number, the most frequent first.",
        "gold": "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC",
        "hardness": "medium",
    },
    {
        "id": "oldest",
        "query": "Print number and year of one of the oldest trees.",
        "gold": "SELECT id, planted FROM tree WHERE planted IS NOT NULL ORDER BY planted LIMIT 1",
        "hardness": "medium",
    },
    {
        "id": "weights",
        "query": "Print what was picked of each kind, in kilos. It must also work on other contents.",
        "gold": "SELECT t.kind, SUM(p.kilos) AS total FROM tree t JOIN picking p ON p.tree_id = t.id GROUP BY t.kind",
        "hardness": "hard",
        "general": True,
    },
    {
        "id": "lost",
        "query": "Which pickings were lost? Print their numbers.",
        "gold": "SELECT id FROM picking WHERE mark = 'Z'",
        "hardness": "easy",
    },
    {"id": "none", "query": "Which trees are younger than 2050?", "gold": "SELECT id FROM tree WHERE planted > 2050"},
    {"id": "words", "db": "cellar", "query": "Print the words.", "gold": "SELECT word FROM cask ORDER BY id"},
]
GOLDS = {task["id"]: task["gold"] for task in TASKS}

ENDLESS = {
    "sqlite": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
    "mariadb": "SELECT SLEEP(60)",
}
"""Statements of which no test sees the end."""
CONSTANT = "SELECT 'apple', 160 UNION SELECT 'pear', 43 UNION SELECT 'plum', 9 UNION SELECT 'quince', 6"
"""What the gold of `weights` returns on the first contents."""


def write(folder: Path, tasks: list[dict[str, Any]] | None = None) -> Path:
    """The data folder; tasks are played on `orchard` unless they say otherwise."""
    (folder / "databases").mkdir(parents=True)
    (folder / "databases" / "orchard.sql").write_text(ORCHARD)
    (folder / "databases" / "cellar.sql").write_text(CELLAR)
    records = [{"db": "orchard", **task} for task in tasks or TASKS]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def skip_unless_there(engine: str) -> None:
    needs_bwrap()
    if engine == "mariadb" and (why := mariadbd.missing()):
        pytest.skip(why)


def orchard_databases() -> Databases:
    with tempfile.TemporaryDirectory() as folder:
        return databases(write(Path(folder) / "orchard") / "databases")


@functools.cache
def _prepared(engine: str, options: str) -> Setting:
    with tempfile.TemporaryDirectory() as folder:
        return intercode.prepare("sql", data=str(write(Path(folder) / "orchard")), engine=engine, **json.loads(options))


def prepared(engine: str, **options: Any) -> Setting:
    """`prepare`, done once for equal options; `reward` may be a function. Skips where the engine is not installed."""
    skip_unless_there(engine)
    if callable(options.get("reward")):
        with tempfile.TemporaryDirectory() as folder:
            return intercode.prepare("sql", data=str(write(Path(folder) / "orchard")), engine=engine, **options)
    return _prepared(engine, json.dumps(options, sort_keys=True))


class Pool:
    """Environments on one engine; each test may use what an earlier one has left."""

    def __init__(self, engine: str) -> None:
        skip_unless_there(engine)
        self.engine = engine
        self._made: list[tuple[str, SqlEnv]] = []

    def lent(self) -> Callable[..., Any]:
        """A maker of environments, none of them given twice; with a task it has begun, and taken the actions."""
        free = list(self._made)

        def make(task: str | None = None, *actions: str, **options: Any) -> Any:
            key = repr(sorted(options.items()))
            pair = next((pair for pair in free if pair[0] == key), None) or self._new(key, options)
            if pair in free:
                free.remove(pair)
            env: Any = pair[1]
            if task is not None:
                env.reset(seed=0, options={"task": task})
            for action in actions:
                env.step(action)
            return env

        return make

    def _new(self, key: str, options: dict[str, Any]) -> tuple[str, SqlEnv]:
        env: Any = prepared(self.engine, **options)()
        self._made.append((key, env))
        return self._made[-1]

    def close(self) -> None:
        for _, env in self._made:
            env.close()


@contextlib.contextmanager
def pool(engine: str) -> Iterator[Pool]:
    made = Pool(engine)
    yield made
    made.close()


def servers_below(pid: int) -> list[int]:
    """The database servers among a process's descendants."""
    marks = ("mariadbd --no-defaults", "/srv/sqlite/server.py")
    found = []
    for child, _ in alive(family(pid)):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if any(mark in line for mark in marks) and "bash -c" not in line:
                found.append(child)
    return found


def servers_of(engine: Any) -> list[int]:
    """The processes of an engine's server, as this machine numbers them: one, or none just now."""
    sandbox = engine._server.sandbox if engine.dialect == "mysql" else engine._sandbox
    return servers_below(sandbox._wall.wall._process.pid)


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
