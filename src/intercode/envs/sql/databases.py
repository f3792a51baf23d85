"""What SQL tasks are played on: the databases, engines on them, and the golds' outcomes.

DataSet + options ──► Worlds (makes engines: on the databases, and on their second contents)
task ──► database(), execute_gold() ──► Gold: rows, and what their order means
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from intercode.envs.gold import run_gold
from intercode.envs.sql.compare import Order, free, order_of
from intercode.envs.sql.engines import Answer, Engine, engine_maker, second_databases
from intercode.envs.sql.engines import databases as read_databases
from intercode.envs.sql.text import literals, ordering
from intercode.errors import DataError, UsageError
from intercode.tasks import DataSet
from intercode.tasks.issues import TaskIssue
from intercode.types import Table, Task

_NO_ROWS = Table((), ())


@dataclass(frozen=True)
class Worlds:
    """Makers of engines. `robust`: play every solved task on the second contents, not only the general ones."""

    first: Callable[[], Engine]
    second: Callable[[], Engine] | None
    robust: bool
    digest: str

    def facts(self) -> dict[str, Any]:
        """What decides results: the databases' content and the server."""
        with self.first() as engine:
            found = engine.facts()
        userland = {key: found[key] for key in ("engine", "version") if key in found}
        return {"template": self.digest, "userland": userland, "server": found}


@dataclass(frozen=True)
class Gold:
    """A gold's outcome: `answer`, and the order of its rows as `exact` takes it."""

    answer: Answer
    order: Order

    @property
    def table(self) -> Table | None:
        return self.answer.table

    @cached_property
    def faults(self) -> tuple[str, ...]:
        return tuple(_faults(self.answer))

    @property
    def evidence(self) -> object:
        """What must be the same each time: the rows that it may show, in their order but for those that tie."""
        if self.table is None:
            return self.answer.error
        rows = sorted(zip(self.order.ties, map(repr, self.order.rows), strict=True))
        return self.table.columns, len(self.table.rows), self.order.start, rows

    @property
    def summary(self) -> str:
        return str(list(self.table.rows)) if self.table is not None else str(self.answer.error)


def worlds(
    data: DataSet,
    *,
    dump: str | Path | None,
    databases: str | Path | None,
    engine: str | None,
    robust: bool,
    paper: bool,
) -> Worlds:
    """Engines for the tasks. Databases of the caller's own go first. Raises `UsageError` where there are none."""
    if dump and databases:
        raise UsageError("give the databases with --dump FILE or with --databases DIR, not with both")
    source = dump or databases or data.databases
    if not source:
        raise UsageError("there are no databases; name them with --dump FILE or --databases DIR")
    content = read_databases(Path(source))
    make = engine_maker(engine, content)
    wanted = robust or (not paper and any(task.general for task in data.tasks))
    second = None
    if wanted:  # the second contents keep the values that golds name; a task without a database says so when it is played
        named: dict[str, set[str | int | float]] = defaultdict(set)
        with make() as first:
            for task in data.tasks:
                with contextlib.suppress(DataError):
                    named[database(task, first)].update(*(literals(gold, first.dialect) for gold in task.golds))
            second = engine_maker(engine, second_databases(first, content, named))
    return Worlds(make, second, robust, content.digest)


def database(task: Task, engine: Engine) -> str:
    """The database that a task is played on: its `db` or `db_id`, or the only one there is."""
    named = task.extra.get("db") or task.extra.get("db_id")
    if named is None and len(engine.databases) == 1:
        return engine.databases[0]
    if named is None:
        raise DataError(
            f"task {task.id} names no database in the field `db`; there are {', '.join(engine.databases) or 'none'}"
        )
    if not isinstance(named, str):
        raise DataError(f"task {task.id}: the field `db` holds {named!r}, which is no text; it names a database")
    try:
        return engine.name_of(named)
    except UsageError as error:
        raise DataError(f"task {task.id}: {error}; the field `db` names one of them") from None


def execute_gold(engine: Engine, task: Task) -> Gold:
    """Run a gold as the referee. Raises `DataError` if the gold itself ended its server."""
    return run_gold(lambda: _execute(engine, task), task.gold)


def _execute(engine: Engine, task: Task) -> Gold:
    db = database(task, engine)
    engine.open(db)  # the last episode is over: what it wrote is gone
    answer = engine.run_gold(db, task.gold)
    if answer.table is None:
        return Gold(answer, free(_NO_ROWS))
    meant = ordering(task.gold, engine.dialect)
    full = engine.run_gold(db, meant.derived).table if meant.derived else None
    return Gold(answer, order_of(answer.table, meant, full))


def _faults(answer: Answer) -> Iterator[str]:
    """What is wrong with a gold by its outcome alone."""
    if answer.timed_out:
        yield "gold runs out of time"
    elif answer.error is not None:
        yield f"gold fails: {answer.error}"
    elif answer.table is None:
        yield "gold returns no rows: it is not a query"
    elif answer.table.cut:
        yield f"gold returns more rows or bytes than are kept: {len(answer.table.rows)} rows are"
    elif all(value is None for row in answer.table.rows for value in row):
        yield TaskIssue("gold returns nothing: any statement that finds nothing is right", "by_luck")
