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
HIDDEN = 30
"""The number of hidden calls, if so many are enough."""


def bash_judge(trial: Trial, query: str) -> Judge[Place]:
    def judge(place: Place, gold: str, mistakes: Sequence[str]) -> list[str] | None:
        right, *others = trial.outcomes(place, [gold, *mistakes])
        if trial.errors or (not right.output.strip() and not right.changes):
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
    return [mistake for mistake in mistakes if _refuted_at(mistake, inputs.arguments, right) < 0]


def fewer(inputs: Inputs, gold: str, mistakes: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the first inputs, those that refute the mistakes, and up to `HIDDEN` others, with at
    most five equal results."""
    right = results(gold, inputs.arguments)
    assert right is not None
    earlier, order = Counter[str](), list[tuple[int, int]]()
    for number, result in enumerate(right[SHOWN:], SHOWN):
        order.append((earlier[repr(result)], number))
        earlier[repr(result)] += 1
    numbers = [*range(SHOWN), *(number for _, number in sorted(order))]
    calls = [inputs.arguments[number] for number in numbers]
    wanted = [right[number] for number in numbers]
    needed = {_refuted_at(mistake, calls, wanted) for mistake in mistakes}
    different = sum(equal < 5 for equal, _ in order)
    needed |= {*range(SHOWN + min(HIDDEN, different))}
    return [calls[place] for place in sorted(needed)]


def results(source: str, inputs: Sequence[tuple[Any, ...]]) -> list[Any] | None:
    """Return what a function returns for a copy of each input; None if it fails."""
    try:
        call = function(source)
        return [call(*copy.deepcopy(arguments)) for arguments in inputs]
    except Exception:
        return None


def _refuted_at(source: str, inputs: Sequence[tuple[Any, ...]], right: Sequence[Any]) -> int:
    """Return the number of the first input for which a function does not return what is right, -1
    if there is none."""
    number = 0
    try:
        call = function(source)
        for number, (arguments, result) in enumerate(zip(inputs, right, strict=True)):
            if call(*copy.deepcopy(arguments)) != result:
                return number
    except Exception:
        return number
    return -1


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
