"""SQL: changed golds of the starter set, labelled by what the contents say.

    gold ──► mutants ──► its rows differ from the gold's on one of several contents: wrong; on none:
         │               not known, left out
         └─► other ways to say the same ──► the same rows on all of them: right; else left out

The contents are the set's own and variant data of other seeds than the one that the reward plays
on. Rows are compared here without the reward's code: by their printed values, in order where the
gold orders. A mutant that only changes the order is wrong where order was what it changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from decimal import Decimal

import intercode
from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import Engine, engine_maker
from intercode.envs.sql.text import literals
from intercode.envs.sql.variants import variant_databases
from intercode.tasks import open_data
from intercode.types import Table, Task, View
from truth.pairs import Pair, Truth, play
from truth.sql_mutants import limited, mutants, ordered, rewritings

ENGINE, SEEDS = "sqlite", range(101, 105)
_ABOUT_ORDER = ("no order", "the other direction")
Rows = list[tuple[str, ...]]


def truths() -> Iterator[Truth]:
    pairs = list(labelled())
    view = View(head=0, tail=0)
    with closing(
        intercode.make("sql", engine=ENGINE, robust=True, max_turns=None, view=view)
    ) as env:
        yield Truth("sql", "exact", list(play(env, pairs)))
        yield Truth("sql", "exact, with variant data", list(play(env, pairs, "robust")))
    with closing(
        intercode.make("sql", engine=ENGINE, reward="paper", max_turns=None, view=view)
    ) as env:
        yield Truth("sql", "paper", list(play(env, pairs)))


def labelled() -> Iterator[Pair]:
    data = open_data(None, env="sql")
    assert data.databases is not None
    content = read_databases(data.databases)
    with ExitStack() as opened:
        first = opened.enter_context(engine_maker(ENGINE, content)())
        named = {
            db: {
                word for task in _of(data.tasks, db) for word in literals(task.gold, first.dialect)
            }
            for db in first.databases
        }
        others = [
            engine_maker(ENGINE, variant_databases(first, content, named, seed=seed))
            for seed in SEEDS
        ]
        engines = [first, *(opened.enter_context(other()) for other in others)]
        for task in data.tasks:
            yield from _pairs(task, engines)


def _of(tasks: Sequence[Task], db: str) -> list[Task]:
    return [task for task in tasks if task.extra["db"] == db]


def _pairs(task: Task, engines: Sequence[Engine]) -> Iterator[Pair]:
    golds = _everywhere(task, task.gold, engines)
    sorts, cuts = ordered(task.gold), limited(task.gold)
    for what, sql in mutants(task.gold):
        theirs = _everywhere(task, sql, engines)
        by_order = sorts and (what in _ABOUT_ORDER or cuts)
        if any(
            gold is not None and _apart(mine, gold, by_order)
            for mine, gold in zip(theirs, golds, strict=True)
        ):
            yield Pair(task.id, (sql, "submit"), False, what)
    for what, sql in rewritings(task.gold):
        theirs = _everywhere(task, sql, engines)
        by_order = sorts and what != "ties in another order"
        cells = what == "columns in another order"
        if not any(
            gold is not None and _apart(mine, gold, by_order, cells)
            for mine, gold in zip(theirs, golds, strict=True)
        ):
            yield Pair(task.id, (sql, "submit"), True, what)


def _everywhere(task: Task, sql: str, engines: Sequence[Engine]) -> list[Rows | None]:
    return [_rows(engine.run_gold(task.extra["db"], sql).table) for engine in engines]


def _rows(table: Table | None) -> Rows | None:
    return None if table is None else [tuple(map(_printed, row)) for row in table.rows]


def _printed(value: object) -> str:
    return f"{float(value):.7g}" if isinstance(value, int | float | Decimal) else repr(value)


def _apart(mine: Rows | None, gold: Rows, by_order: bool, cells: bool = False) -> bool:
    if mine is None:
        return True
    if cells:
        mine, gold = ([tuple(sorted(row)) for row in rows] for rows in (mine, gold))
    return mine != gold if by_order else Counter(mine) != Counter(gold)
