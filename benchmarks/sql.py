"""What the SQL environment costs: a SELECT step against the same statement without it, resets, and
all golds of Spider.

    .venv/bin/python benchmarks/sql.py [--json] [--engine sqlite|mariadb]

**Steps.** `env.step(statement)` against the plainest way there is to the same rows, side by side:

    MariaDB   PyMySQL, a plain cursor's `execute` and `fetchall`, on a connection of its own to the
              same server
    SQLite    the module `sqlite3` in this process, `execute` and `fetchall`, on an open connection
              to a copy of the file

A step compiles a statement, executes it, fetches all rows, and says what the agent will see. Each
sample carries a comment with a number of its own, since an agent's statement is new each time: with
the same text over and over `sqlite3` would look up the compiled statement in a cache. That figure
stands in the table as well, without a bound ("a text seen before"). Bounds hold for the median over
the statements' ratios *and* for the times of all statements together; the spread is that of the
ratios, from the tenth to the ninetieth percentile.

Three sets of statements: the starter set's golds; on MariaDB Spider's golds, at most eight a
database, where the public data is there (`$INTERCODE_DATA`, or `../shared/data`); and scans and
joins over 5,000 rows of a ledger, which is made up here, as agents write them. Both sides take
turns in a shuffled order, seven times a statement. That is done in five blocks, over all statements
each; a statement's time is its median in that block in which both sides together took least time
for it, so that it is the machine's quiet moments that count, judged by both.

**Resets** are timed by the clock: after a SELECT, and after a write, which makes the engine
rebuild. A database's time is the median of five in a row, in the quickest of five such rows; the
figure is the median over the databases. They are Spider's on MariaDB, where they are there
(`world_1`, the largest, is shown alone and without a bound), the starter's else. All templates are
in the cache before.

**Golds**: all of Spider's played by two workers under the paper's reward, from the first server's
start to the last one's end, in a setting of its own, where none has been executed yet.

Exit status 1 if a bound is missed. `--json` prints a list of {what, ours, against, ratio}, times in
seconds: a bound that is a time stands as `against`; a ratio of steps is `ours`, against 1.
"""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from fidelity import data
from measuring.clock import quietest, timed
from measuring.rows import Row, command, finish, skip

from intercode.agents.baselines import gold
from intercode.envs import prepare
from intercode.envs.sql.engines.mariadb import SOCKET, MariadbEngine
from intercode.envs.sql.env import SqlEnv
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode.types import Task

BLOCKS, ROUNDS, RESETS, PER_DATABASE = 5, 7, 5, 8
BOUNDS = {"sqlite": 5.0, "mariadb": 1.3}
RIVALS = {"sqlite": "sqlite3", "mariadb": "PyMySQL"}
UNWRITTEN, WRITTEN, GOLDS = 1.5e-3, 45e-3, 60.0
"""Seconds."""
APART = "world_1"
SCANS = (
    "SELECT * FROM entry",
    "SELECT * FROM entry LIMIT 1000",
    "SELECT * FROM customer",
    "SELECT day, amount FROM entry WHERE amount > 50 ORDER BY day, id",
    "SELECT customer_id, SUM(amount) FROM entry GROUP BY customer_id ORDER BY SUM(amount) DESC",
    (
        "SELECT c.name, COUNT(*) FROM customer c JOIN entry e ON e.customer_id = c.id GROUP BY"
        " c.id, c.name HAVING COUNT(*) > 12"
    ),
    (
        "SELECT e.day, c.name, e.amount FROM entry e JOIN customer c ON c.id = e.customer_id ORDER"
        " BY e.id"
    ),
    "SELECT note FROM entry WHERE note LIKE '%oak%'",
    "SELECT COUNT(DISTINCT note) FROM entry",
    "SELECT name FROM customer WHERE id NOT IN (SELECT customer_id FROM entry WHERE amount > 99)",
    (
        "WITH month AS (SELECT SUBSTR(day, 1, 7) AS m, amount FROM entry) SELECT m, COUNT(*),"
        " AVG(amount) FROM month GROUP BY m"
    ),
)

Run = Callable[[str], object]
Sides = Mapping[str, Run]
Samples = dict[str, dict[str, list[float]]]
"""Seconds by statement and side."""
_numbers = itertools.count()


# -- steps -----------------------------------------------------------------------------------------


@contextmanager
def raw_sqlite(env: SqlEnv, db: str) -> Iterator[Sides]:
    """On the very file that the engine copies for an episode."""
    content = env.world.engine.sandbox.read(f"/srv/sqlite/original/{db}.sqlite", limit=1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "copy").write_bytes(content)
        with closing(sqlite3.connect(Path(folder) / "copy", isolation_level=None)) as connection:

            def run(statement: str) -> object:
                return connection.execute(statement).fetchall()

            yield {"raw": lambda statement: run(new(statement)), "seen": run}


@contextmanager
def raw_mariadb(env: SqlEnv, db: str) -> Iterator[Sides]:
    """A plain connection to the engine's own server, so that the two sides differ in nothing
    else."""
    from pymysql.connections import Connection

    engine: Any = env.world.engine
    login = {
        "user": "root",
        "password": engine._password,
        "database": db,
        "charset": "utf8mb4",
        "ssl_disabled": True,
    }
    with closing(Connection(**login, defer_connect=True)) as connection:
        connection.connect(engine.sandbox.connect(SOCKET))

        def run(statement: str) -> object:
            with connection.cursor() as cursor:
                cursor.execute(new(statement))
                return cursor.fetchall()

        yield {"raw": run}


RAW: dict[str, Callable[[SqlEnv, str], Any]] = {"sqlite": raw_sqlite, "mariadb": raw_mariadb}


def new(statement: str) -> str:
    """The same statement, as a text that nobody has seen."""
    return f"{statement} -- {next(_numbers)}"


def runs(run: Run, statement: str) -> bool:
    """Also the first, untimed execution."""
    from pymysql.err import MySQLError

    try:
        run(statement)
    except (sqlite3.Error, MySQLError):
        return False
    return True


def block(env: SqlEnv, kind: str, tasks: Sequence[Task], chance: random.Random) -> Samples:
    samples: Samples = {}
    for db, group in by_database(tasks).items():
        env.reset(options={"task": group[0].id})
        with RAW[kind](env, db) as raw:
            sides = {**raw, "ours": lambda statement: env.step(new(statement))}
            for task in group:
                statement = task.gold.strip().rstrip(";")
                if runs(sides["raw"], statement):
                    samples[task.id] = measure(sides, statement, chance)
    return samples


def measure(sides: Sides, statement: str, chance: random.Random) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {side: [] for side in sides}
    for run in sides.values():
        run(statement)
    for _ in range(ROUNDS):
        for side in chance.sample(sorted(sides), len(sides)):
            found[side].append(timed(lambda: sides[side](statement)))  # noqa: B023 (called at once)
    return found


def by_database(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(str(task.extra.get("db") or task.extra["db_id"]), []).append(task)
    return found


def sample(tasks: Sequence[Task]) -> list[Task]:
    chance = random.Random(0)
    groups = by_database(tasks).values()
    return [
        task for group in groups for task in chance.sample(group, min(len(group), PER_DATABASE))
    ]


def step_rows(factory: EnvFactory, kind: str, name: str, tasks: Sequence[Task]) -> list[Row]:
    chance = random.Random(0)
    with closing(factory()) as env:
        assert isinstance(env, SqlEnv)
        blocks = [block(env, kind, tasks, chance) for _ in range(BLOCKS)]
    medians = [quietest(each[task] for each in blocks) for task in blocks[0]]
    what = f"step, {kind}, {name} ({len(medians)}), against {RIVALS[kind]}"
    rows = compared(what, medians, "raw", BOUNDS[kind])
    return (
        rows
        if kind != "sqlite"
        else [*rows, *compared(f"{what}, a text seen before", medians, "seen", None)]
    )


def compared(
    what: str, medians: Sequence[dict[str, float]], side: str, bound: float | None
) -> list[Row]:
    ratios = sorted(each["ours"] / each[side] for each in medians)
    together = sum(each["ours"] for each in medians) / sum(each[side] for each in medians)
    return [
        Row(
            f"{what}: median", statistics.median(ratios), 1.0, bound, unit="x", note=spread(ratios)
        ),
        Row(f"{what}: all together", together, 1.0, bound, unit="x"),
    ]


def spread(values: Sequence[float]) -> str:
    low, *_, high = statistics.quantiles(values, n=10)
    return f"{low:.2f} to {high:.2f}"


# -- resets and golds ------------------------------------------------------------------------------


def reset_rows(factory: EnvFactory, kind: str, name: str, tasks: Sequence[Task]) -> list[Row]:
    firsts = {db: group[0] for db, group in by_database(tasks).items()}
    with closing(factory()) as env:
        unwritten = {db: reset_after(env, task, "SELECT 1") for db, task in firsts.items()}
        written = {
            db: reset_after(env, task, "CREATE TABLE made_by_the_agent AS SELECT 1 AS a")
            for db, task in firsts.items()
        }
    apart = (
        [Row(f"reset, {kind}, {APART} when written", written.pop(APART))]
        if APART in written
        else []
    )
    return [
        row(
            f"reset, {kind}, {name} ({len(unwritten)} databases), not written", unwritten, UNWRITTEN
        ),
        row(f"reset, {kind}, {name} ({len(written)} databases), written", written, WRITTEN),
        *apart,
    ]


def reset_after(env: Any, task: Task, action: str) -> float:
    """Seconds."""

    def reset() -> None:
        env.reset(options={"task": task.id})

    def once() -> float:
        env.step(action)
        return timed(reset)

    reset()
    return min(statistics.median(once() for _ in range(RESETS)) for _ in range(BLOCKS))


def row(what: str, times: Mapping[str, float], bound: float) -> Row:
    return Row(
        what,
        statistics.median(times.values()),
        bound,
        1,
        note=spread([each * 1e3 for each in times.values()]),
    )


def gold_row(factory: EnvFactory, kind: str) -> Row:
    seconds = timed(lambda: evaluate(factory, gold, tasks=factory.tasks, workers=2))
    return Row(f"golds, {kind}: all {len(factory.tasks)} of Spider, 2 workers", seconds, GOLDS, 1)


# -- what there is to measure ----------------------------------------------------------------------


def made_ledger(folder: Path) -> dict[str, Any]:
    """A database of our own with rows enough to be scanned, and statements over it."""
    chance, words = random.Random(0), ("oak", "tin", "wool", "slate", "rope", "salt")
    customers = [
        f"({n}, '{chance.choice(words)} and {chance.choice(words)} {n}')" for n in range(400)
    ]
    entries = [
        f"({n}, {chance.randrange(400)},"
        f" '2023-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}',"
        f" {chance.randrange(10_000) / 100}, {note(chance, words)})"
        for n in range(5000)
    ]
    script = (
        "CREATE TABLE customer (id INTEGER NOT NULL, name VARCHAR(40) NOT NULL, PRIMARY KEY"
        " (id));\nCREATE TABLE entry (id INTEGER NOT NULL, customer_id INTEGER NOT NULL, day"
        " VARCHAR(10), amount DOUBLE, note VARCHAR(60), PRIMARY KEY (id));\nINSERT INTO customer"
        f" VALUES {', '.join(customers)};\nINSERT INTO entry VALUES {', '.join(entries)};\n"
    )
    (folder / "databases").mkdir()
    (folder / "databases" / "ledger.sql").write_text(script)
    tasks = [
        {"id": f"scan {n}", "query": "look", "gold": each, "db": "ledger"}
        for n, each in enumerate(SCANS)
    ]
    (folder / "scans.json").write_text(json.dumps(tasks))
    return {"data": str(folder / "scans.json"), "databases": str(folder / "databases")}


def note(chance: random.Random, words: Sequence[str]) -> str:
    return "NULL" if chance.random() < 0.1 else f"'{' '.join(chance.choices(words, k=4))}'"


def ready(kind: str, sources: dict[str, Any]) -> EnvFactory:
    return prepare("sql", engine=kind, reward="paper", max_turns=None, **sources)


def engine_rows(kind: str, ledger: dict[str, Any], public: dict[str, Any] | None) -> Iterator[Row]:
    starter, scans = ready(kind, {}), ready(kind, ledger)
    yield from step_rows(starter, kind, "starter golds", starter.tasks)
    yield from step_rows(scans, kind, "scans of 5,000 rows", scans.tasks)
    if public is None or kind == "sqlite":
        yield from reset_rows(starter, kind, "starter", starter.tasks)
        return
    factory = ready(kind, public)
    yield from step_rows(factory, kind, "Spider golds", sample(factory.tasks))
    yield from reset_rows(factory, kind, "Spider", factory.tasks)
    yield gold_row(ready(kind, public), kind)


def show(row: Row) -> None:
    """A line as soon as it is known; what is held to its bound is the value itself."""
    if row.unit == "x":
        value, bound, unit = row.ours, row.bound, "x"
    else:
        scale, unit = (1e3, "ms") if (row.against or row.ours) < 1 else (1.0, "s")
        value, bound = row.ours * scale, row.against and row.against * scale
    limit = f"{bound:8.3g}" if bound else " " * 8
    print(
        f"{row.what:86}{value:8.2f} {unit:2}{limit}  "
        f" {row.note}{'   missed' if row.missed else ''}",
        flush=True,
    )


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--engine", choices=sorted(BOUNDS), help="only this one")
    options = parser.parse_args()
    kinds = [options.engine] if options.engine else sorted(BOUNDS)
    if "mariadb" in kinds and (why := MariadbEngine.missing()):
        skip("mariadb", why)
        kinds.remove("mariadb")
    rows = []
    public = data.spider() if data.playable(["spider"]) else None
    with tempfile.TemporaryDirectory() as folder:
        ledger = made_ledger(Path(folder))
        for row in itertools.chain.from_iterable(
            engine_rows(kind, ledger, public) for kind in kinds
        ):
            rows.append(row)
            if not options.json:
                show(row)
    return finish(options, rows, show=lambda: None)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
