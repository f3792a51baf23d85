"""The starter set for SQL keeps what its README promises, on both engines."""

from __future__ import annotations

import datetime
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from decimal import Decimal
from typing import Any

import pytest
from host_mariadb import running
from starter_sql_answers import BLIND, SECOND

from intercode import sqltext
from intercode.tasks import open_data
from intercode.tasks.dataset import STARTER
from intercode.types import Task

DATABASES = {path.stem: path for path in sorted((STARTER / "sql" / "databases").glob("*.sql"))}
TASKS = open_data(None, env="sql").tasks
LOOKS = {task.id: task for task in TASKS if task.extra["looks"]}
GENERAL = [task for task in TASKS if task.general]
BY_ID = {task.id: task for task in TASKS}

Rows = list[tuple[Any, ...]]
Ask = Callable[[str, str], Rows]
"""A statement's rows on a database, with numbers and days in one form for both engines."""


def plain(value: object) -> object:
    if isinstance(value, int | float | Decimal):
        return round(float(value), 6)
    return value.isoformat() if isinstance(value, datetime.date) else value


def fetch(connection: Any, sql: str) -> Rows:
    cursor = connection.cursor()
    cursor.execute(sql)
    return [tuple(map(plain, row)) for row in cursor.fetchall()]


def same(one: Rows, other: Rows) -> bool:
    return Counter(one) == Counter(other)


@pytest.fixture(scope="module")
def sqlite() -> Iterator[Ask]:
    opened = {name: sqlite3.connect(":memory:") for name in DATABASES}
    for name, connection in opened.items():
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(DATABASES[name].read_text())
    yield lambda db, sql: fetch(opened[db], sql)
    for connection in opened.values():
        connection.close()


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Ask]:
    """A server of this test's own that has loaded both files as they are."""
    import pymysql

    content = "".join(f"CREATE DATABASE {name}; USE {name}; {path.read_text()}\n" for name, path in DATABASES.items())
    with running(content) as socket, ExitStack() as stack:
        how = {"unix_socket": str(socket), "user": "root"}
        opened = {name: stack.enter_context(closing(pymysql.connect(**how, database=name))) for name in DATABASES}
        yield lambda db, sql: fetch(opened[db], sql)


# -- the records --------------------------------------------------------------------------------------------------------


def test_there_are_enough_tasks_with_enough_ideas() -> None:
    assert len(TASKS) >= 48
    assert max(Counter(task.extra["idea"] for task in TASKS).values()) <= 4
    assert (
        len({task.id for task in TASKS})
        == len({task.query for task in TASKS})
        == len({task.gold for task in TASKS})
        == len(TASKS)
    )
    assert {task.extra["db"] for task in TASKS} == set(DATABASES)


def test_at_least_a_third_needs_a_look_and_says_why() -> None:
    assert 3 * len(LOOKS) >= len(TASKS)
    assert all(len(task.extra["why"].split()) >= 15 for task in LOOKS.values())
    assert not any(task.general for task in LOOKS.values())


def test_general_tasks_say_so_to_the_agent() -> None:
    assert len(GENERAL) >= 20
    assert all("must also work on another copy" in task.query for task in GENERAL)
    assert not any("another copy" in task.query for task in TASKS if not task.general)


def test_queries_name_no_column() -> None:
    columns = set(re.findall(r"^  (\w+_\w+) ", "".join(path.read_text() for path in DATABASES.values()), re.MULTILINE))
    assert len(columns) > 20
    assert [task.id for task in TASKS if columns & set(re.findall(r"\w+", task.query))] == []


def test_queries_say_whether_the_order_matters() -> None:
    for task in TASKS:
        order = sqltext.ordering(task.gold, "sqlite")
        one_row = order.limited
        assert one_row or order.ordered != ("in any order" in task.query) or task.id == "three-highest-fees", task.id


def points(sql: str) -> int:
    """The README's rule: what a statement's parts count."""
    from sqlglot import exp, parse_one

    tree = parse_one(sql, dialect="mysql")
    ones = [exp.Join, exp.Where, exp.Group, exp.Having, exp.Limit, exp.Or, exp.Case]
    orders = sum(not isinstance(found.parent, exp.Window) for found in tree.find_all(exp.Order))
    twos = len(list(tree.find_all(exp.Select))) - 1 + len(list(tree.find_all(exp.Window)))
    return len(list(tree.find_all(*ones))) + orders + 2 * twos


def test_hardness_follows_the_rule() -> None:
    levels = {task.id: next(name for most, name in LEVELS if points(task.gold) <= most) for task in TASKS}
    assert {task.id: task.extra["hardness"] for task in TASKS} == levels
    assert min(Counter(levels.values()).values()) >= 10


LEVELS = [(2, "easy"), (4, "medium"), (7, "hard"), (10**9, "extra")]


# -- the databases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATABASES)
def test_the_files_hold_portable_statements_only(name: str) -> None:
    text = DATABASES[name].read_text()
    assert len(text) < 150_000
    assert "\\" not in text
    statements = [part.strip() for part in re.sub(r"^--.*", "", text).split(";\n")]
    assert [part for part in statements if part and not part.startswith(("CREATE TABLE ", "INSERT INTO "))] == []
    types = set(re.findall(r"^  [a-z_]+ ([A-Z]+)", text, re.MULTILINE)) - {"KEY"}
    assert types <= {"INTEGER", "VARCHAR", "DECIMAL", "DATE", "TEXT"}


@pytest.mark.parametrize("name", DATABASES)
def test_tables_have_keys_and_rows_of_a_readable_number(sqlite: Ask, name: str) -> None:
    tables = [row[0] for row in sqlite(name, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert 6 <= len(tables) <= 9
    for table in tables:
        assert 5 <= sqlite(name, f"SELECT COUNT(*) FROM {table}")[0][0] <= 400
        assert sqlite(name, f"SELECT * FROM pragma_table_info('{table}') WHERE pk > 0"), f"{table} has no primary key"
    assert sqlite(name, "PRAGMA foreign_key_check") == []


# -- the golds ----------------------------------------------------------------------------------------------------------


def test_results_are_neither_empty_nor_trivial_nor_alike(sqlite: Ask) -> None:
    results = {task.id: sqlite(task.extra["db"], task.gold) for task in TASKS}
    assert [name for name, rows in results.items() if not rows or rows in ([(0.0,)], [(1.0,)], [(None,)])] == []
    alike = Counter(frozenset(Counter(rows).items()) for rows in results.values())
    assert max(alike.values()) == 1


def test_no_whole_table_is_an_answer(sqlite: Ask) -> None:
    for name, path in DATABASES.items():
        golds = {task.id: sqlite(name, task.gold) for task in TASKS if task.extra["db"] == name}
        for table in re.findall(r"CREATE TABLE (\w+)", path.read_text()):
            rows = sqlite(name, f"SELECT * FROM {table}")
            assert [task for task, gold in golds.items() if same(rows, gold)] == []


@pytest.mark.parametrize("task", [task for task in TASKS if "ORDER BY" in task.gold], ids=lambda task: task.id)
def test_ordered_rows_do_not_tie_unless_the_query_allows_it(sqlite: Ask, task: Task) -> None:
    order = sqltext.ordering(task.gold, "sqlite")
    if order.derived is None:  # it has a window of its own; then its key is what it prints first
        groups = [row[0] for row in sqlite(task.extra["db"], task.gold)]
    else:
        groups = [row[-1] for row in sqlite(task.extra["db"], order.derived)]
    if order.limited:
        assert groups.count(groups[0]) == 1
    elif "in any order" not in task.query:
        assert len(set(groups)) == len(groups)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_golds_agree_on_both_engines(sqlite: Ask, mariadb: Ask, task: Task) -> None:
    here, there = sqlite(task.extra["db"], task.gold), mariadb(task.extra["db"], task.gold)
    assert same(here, there)
    free = sqltext.ordering(task.gold, "sqlite").free or "in any order" in task.query
    assert free or here == there


def test_golds_hold_where_groups_are_checked(sqlite: Ask, mariadb: Ask) -> None:
    for task in TASKS:
        mariadb(task.extra["db"], "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ONLY_FULL_GROUP_BY')")
        assert same(mariadb(task.extra["db"], task.gold), sqlite(task.extra["db"], task.gold)), task.id
        mariadb(task.extra["db"], "SET SESSION sql_mode = DEFAULT")


# -- second solutions and blind guesses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SECOND)
def test_a_second_solution_agrees(sqlite: Ask, name: str) -> None:
    task = BY_ID[name]
    assert same(sqlite(task.extra["db"], SECOND[name]), sqlite(task.extra["db"], task.gold))


def test_every_task_that_needs_a_look_has_guesses() -> None:
    assert set(BLIND) == set(LOOKS)


@pytest.mark.parametrize("name", BLIND)
def test_blind_guesses_fail(sqlite: Ask, name: str) -> None:
    task = LOOKS[name]
    gold = sqlite(task.extra["db"], task.gold)
    assert [guess for guess in BLIND[name] if same(sqlite(task.extra["db"], guess), gold)] == []
