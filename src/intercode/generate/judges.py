"""Which mistakes have a gold's outcome, in this process or in one sandbox: fast, since a place is
judged many times while it grows, and by the rewards themselves.

    Bash     the reward `exact` on outcomes of a `Trial`
    SQL      the reward `exact` on rows of SQLite
    Python   the results of all calls
"""

from __future__ import annotations

import copy
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from intercode.envs.bash.compare import bash_exact
from intercode.envs.sql.compare import order_of, sql_exact
from intercode.envs.sql.engines.sqlite import DIALECT
from intercode.envs.sql.text import Ordering, ordering
from intercode.generate.draws import Parameters
from intercode.generate.families import Place
from intercode.generate.ground import Inputs
from intercode.generate.grower import Judge
from intercode.generate.trial import Trial
from intercode.types import Table, Task

SHOWN = 3
"""The number of tests that the agent of a Python task may see; the others are hidden."""


def bash_judge(trial: Trial, query: str) -> Judge[Place]:
    def judge(place: Place, gold: str, mistakes: Sequence[str]) -> list[str] | None:
        right, *others = trial.outcomes(place, [gold, *mistakes])
        if not right.output.strip() and not right.changes:
            return None
        task = Task("", query, gold)
        return [
            mistake
            for mistake, other in zip(mistakes, others, strict=True)
            if bash_exact(other, right, task).success
        ]

    return judge


def sql_judge(place: Place, gold: str, mistakes: Sequence[str]) -> list[str] | None:
    connection = sqlite3.connect(":memory:")
    try:
        for script in place.files.values():
            connection.executescript(str(script))
        for name, table in place.tables.items():
            connection.execute(table.definition(name))
            marks = ", ".join("?" * len(table.columns))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", table.rows)
        right = _rows(connection, gold)
        if right is None or not right.rows:
            return None
        order = _ordering(gold)
        full = (rows for text in order.derived if (rows := _rows(connection, text)) is not None)
        meant = order_of(right, order, next(full, None))
        return [
            mistake
            for mistake in mistakes
            if sql_exact(_rows(connection, mistake), right, meant).success
        ]
    finally:
        connection.close()


@lru_cache(maxsize=1000)
def _ordering(gold: str) -> Ordering:
    return ordering(gold, DIALECT)


def _rows(connection: sqlite3.Connection, query: str) -> Table | None:
    """Return the rows of a query, None if it fails."""
    try:
        cursor = connection.execute(query)
        return Table(tuple(column[0] for column in cursor.description), tuple(cursor.fetchall()))
    except sqlite3.Error:
        return None


def python_judge(inputs: Inputs, gold: str, mistakes: Sequence[str]) -> list[str] | None:
    right = results(gold, inputs.arguments)
    if right is None:
        return None
    return [mistake for mistake in mistakes if _returns(mistake, inputs.arguments, right)]


def results(source: str, inputs: Sequence[tuple[Any, ...]]) -> list[Any] | None:
    """Return what a function returns for a copy of each input; None if it fails."""
    try:
        call = function(source)
        return [call(*copy.deepcopy(arguments)) for arguments in inputs]
    except Exception:
        return None


def _returns(source: str, inputs: Sequence[tuple[Any, ...]], right: Sequence[Any]) -> bool:
    """Return whether a function returns what is right for each input."""
    try:
        call = function(source)
        return all(
            call(*copy.deepcopy(arguments)) == result
            for arguments, result in zip(inputs, right, strict=True)
        )
    except Exception:
        return False


def name_of(source: str) -> str:
    return source.partition("def ")[2].partition("(")[0]


@lru_cache(maxsize=1000)
def _compiled(source: str) -> CodeType:
    return compile(source, "<solution>", "exec")


def function(source: str) -> Callable[..., Any]:
    scope: Parameters = {}
    exec(_compiled(source), scope)
    defined: Callable[..., Any] = scope[name_of(source)]
    return defined


def write_tests(gold: str, inputs: Sequence[tuple[Any, ...]]) -> list[str] | str:
    """Return asserts with the results of the gold, of which the last makes all hidden calls; the
    reason if they would be weak, since more than half of the results are equal."""
    name, right = name_of(gold), results(gold, inputs)
    assert right is not None
    calls = {
        f"{name}({', '.join(map(repr, arguments))})": repr(result)
        for arguments, result in zip(inputs, right, strict=True)
    }
    if len(calls) < SHOWN + 2 or max(Counter(calls.values()).values()) > len(calls) // 2:
        return "too many equal results"
    shown, hidden = list(calls.items())[:SHOWN], list(calls.items())[SHOWN:]
    at_once = (
        f"assert [{', '.join(call for call, _ in hidden)}] == "
        f"[{', '.join(result for _, result in hidden)}]"
    )
    return [*(f"assert {call} == {result}" for call, result in shown), at_once]
