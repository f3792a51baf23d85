"""Changed results of Spider's golds, sent through a real server: `exact` accepts those that a slow
comparison finds equal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from naive_rows import same_rows

from intercode.envs.sql.compare import free, sql_exact
from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import engine_maker
from intercode.envs.sql.engines.mariadb import DIALECT, MariadbEngine
from intercode.tasks import open_data

pytestmark = pytest.mark.fidelity

GOLDS, ROWS = 150, 40
"""How many golds are changed, those with a DECIMAL or a DOUBLE first; and the most rows of a
result."""
Rows = list[tuple[Any, ...]]


def test_mutants_of_golds_are_accepted_if_and_only_if_a_slow_comparison_finds_them_equal(
    public_data: Path, part: int
) -> None:
    if why := MariadbEngine.missing():
        pytest.skip(why)
    tasks = open_data(str(public_data / "spider" / "ic_spider_dev.json"), env="sql").tasks
    dice, verdicts, wrong = random.Random(42), Counter[tuple[str, bool]](), []
    with engine_maker(
        "mariadb", read_databases(public_data / "spider" / "ic_spider_dbs.sql")
    )() as engine:
        results = [
            (task, engine.run_gold(task.extra["db"], task.gold).table) for task in tasks[::part]
        ]
        numeric = [
            (task, table)
            for task, table in results
            if table and 0 < len(table.rows) <= ROWS and places(table.rows)
        ]
        numeric.sort(
            key=lambda pair: all(isinstance(value, int) for value in numbers(pair[1].rows))
        )
        for task, gold in numeric[: GOLDS // part]:
            for kind, rows in mutants(list(gold.rows), dice):
                mutant = engine.table(task.extra["db"], statement(rows))
                equal = same_rows(mutant.rows, gold.rows, gold.digits)
                verdicts[kind, equal] += 1
                if sql_exact(mutant, gold, free(gold)).success is not equal:
                    wrong.append((task.id, kind, equal))
    assert wrong == []
    assert verdicts.total() > 2000 / part
    assert (
        min(
            sum(count for (_, equal), count in verdicts.items() if equal is said)
            for said in (True, False)
        )
        >= 100 / part
    )


def places(rows: Any) -> list[tuple[int, int]]:
    """Where the numbers stand: row and column."""
    kinds = (int, float, Decimal)
    return [
        (row, place)
        for row, values in enumerate(rows)
        for place, value in enumerate(values)
        if isinstance(value, kinds)
    ]


def numbers(rows: Any) -> list[Any]:
    return [rows[row][place] for row, place in places(rows)]


def mutants(rows: Rows, dice: random.Random) -> Iterator[tuple[str, Rows]]:
    """The gold's rows themselves, and with one unit, row, digit or type changed."""
    yield "nothing", rows
    yield "row", rows[1:] or rows * 2
    yield "row", [*rows[1:], dice.choice(rows)]
    row, place = dice.choice(places(rows))
    value = rows[row][place]
    unit = Decimal(1).scaleb(-digits(value))
    changed = [
        ("unit", number_like(value, Decimal(str(value)) + unit)),
        ("digit", number_like(value, other_digit(value, dice))),
    ]
    changed += [("type", float(value)), ("type", str(value))]
    changed += [("type", rounded(value, scale)) for scale in (0, 2, 4, 5, 12)]
    if isinstance(value, float):
        changed += [("noise", value * (1 + share)) for share in (1e-12, 1e-10, 1e-8)]
    for kind, other in changed:
        yield (
            kind,
            [
                *rows[:row],
                (*rows[row][:place], other, *rows[row][place + 1 :]),
                *rows[row + 1 :],
            ],
        )


def digits(value: object) -> int:
    return len(str(value).partition(".")[2])


def number_like(value: object, number: Decimal) -> Any:
    return type(value)(number)  # type: ignore[call-arg]


def other_digit(value: object, dice: random.Random) -> Decimal:
    text = str(value)
    place = dice.choice([place for place, letter in enumerate(text) if letter.isdigit()])
    return Decimal(
        text[:place] + str((int(text[place]) + dice.randrange(1, 10)) % 10) + text[place + 1 :]
    )


def rounded(value: object, scale: int) -> Decimal:
    return round(Decimal(str(value)), scale)


def statement(rows: Rows) -> str:
    """A query that returns the rows; one of several types in a column makes the server choose one
    for the column."""
    return " UNION ALL ".join("SELECT " + ", ".join(map(literal, row)) for row in rows)


def literal(value: object) -> str:
    if isinstance(value, float):
        return repr(value) if "e" in repr(value) else f"{value!r}e0"
    return DIALECT.write(value)
