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
from contextlib import closing
from functools import lru_cache, partial
from operator import itemgetter
from types import CodeType
from typing import Any

from intercode.envs.bash.compare import bash_exact
from intercode.envs.sql.compare import order_of, sql_exact
from intercode.envs.sql.engines.sqlite import DIALECT
from intercode.envs.sql.text import Ordering, ordering
from intercode.generate.draws import Texts
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
    def judge(place: Place, gold: str, mistakes: Texts) -> list[str] | None:
        right, *outcomes = trial.outcomes(place, [gold, *mistakes])
        if trial.complained or (not right.output.strip() and not right.changes):
            return None
        task = Task("", query, gold)
        passing = []
        for mistake, outcome in zip(mistakes, outcomes, strict=True):
            if bash_exact(outcome, right, task).success:
                passing.append(mistake)
        return passing

    return judge


def sql_judge(place: Place, gold: str, mistakes: Texts) -> list[str] | None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for script in place.files.values():
            connection.executescript(str(script))
        for name, table in place.tables.items():
            connection.execute(table.definition(name))
            marks = ", ".join("?" * len(table.columns))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", table.rows)
        rows = partial(_rows, connection)
        right = rows(gold)
        if right is None or not right.rows:
            return None
        order = _ordering(gold)
        full = next(filter(None, map(rows, order.derived)), None)
        right_order = order_of(right, order, full)
        passing = []
        for mistake in mistakes:
            if sql_exact(rows(mistake), right, right_order).success:
                passing.append(mistake)
        return passing


@lru_cache(maxsize=1000)
def _ordering(gold: str) -> Ordering:
    return ordering(gold, DIALECT)


def _rows(connection: sqlite3.Connection, query: str) -> Table | None:
    """Return the rows of a query, None if it fails."""
    try:
        cursor = connection.execute(query)
        columns = tuple(column[0] for column in cursor.description)
        return Table(columns, tuple(cursor.fetchall()))
    except sqlite3.Error:
        return None


def python_judge(inputs: Inputs, gold: str, mistakes: Texts) -> list[str] | None:
    right = results(gold, inputs.arguments)
    if right is None:
        return None
    return [mistake for mistake in mistakes if _refuted_at(mistake, inputs.arguments, right) < 0]


def fewer(inputs: Inputs, gold: str, mistakes: Texts) -> list[tuple[Any, ...]]:
    """Return the first inputs, those that refute the mistakes, and up to `HIDDEN` others, with at
    most five equal results."""
    right = results(gold, inputs.arguments)
    assert right is not None
    equal, order = Counter[str](), list[tuple[int, int]]()
    for number, result in enumerate(right[SHOWN:], SHOWN):
        order.append((equal[repr(result)], number))
        equal[repr(result)] += 1
    numbers, different = [*range(SHOWN)], 0
    for earlier, number in sorted(order):
        numbers.append(number)
        different += earlier < 5
    chosen = itemgetter(*numbers)
    calls, wanted = chosen(inputs.arguments), chosen(right)
    needed = {*range(SHOWN + min(HIDDEN, different))}
    for mistake in mistakes:
        needed.add(_refuted_at(mistake, calls, wanted))
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
    scope: dict[str, Callable[..., Any]] = {}
    exec(_compiled(source), scope)
    return scope[name_of(source)]


def write_tests(gold: str, inputs: Sequence[tuple[Any, ...]]) -> list[str] | str:
    """Return asserts with the results of the gold, of which the last makes all hidden calls; the
    reason if they would be weak, since more than half of the results are equal."""
    name, right = name_of(gold), results(gold, inputs)
    assert right is not None
    calls = {}
    for arguments, result in zip(inputs, right, strict=True):
        calls[f"{name}({', '.join(map(repr, arguments))})"] = repr(result)
    if len(calls) < SHOWN + 2 or max(Counter(calls.values()).values()) > len(calls) // 2:
        return "too many equal results"
    tests = [f"assert {call} == {result}" for call, result in calls.items()][:SHOWN]
    hidden, wanted = [*calls][SHOWN:], [*calls.values()][SHOWN:]
    return [*tests, f"assert [{', '.join(hidden)}] == [{', '.join(wanted)}]"]
