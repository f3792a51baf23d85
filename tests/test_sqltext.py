"""What is read off a gold's SQL, held against what a real SQLite does with it."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest

from intercode.envs.sql.compare import order_of, sql_exact
from intercode.envs.sql.dialect import Dialect
from intercode.envs.sql.engines import mariadb, sqlite
from intercode.envs.sql.text import literals, ordering
from intercode.types import Table

PETS = """
    CREATE TABLE owner (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
    CREATE TABLE pet (
        id INTEGER PRIMARY KEY, owner_id INTEGER, name TEXT COLLATE NOCASE, kind TEXT, age INTEGER);
    INSERT INTO owner VALUES
        (1, 'Ida', 'Ulm'), (2, 'Jon', 'Rom'), (3, 'Kay', 'Ulm'), (4, 'Lou', NULL);
    INSERT INTO pet VALUES
        (1, 1, 'Rex', 'dog', 3), (2, 1, 'rex', 'cat', 5), (3, 2, 'Pip', 'dog', 5),
        (4, 3, 'Tom', 'cat', 5), (5, 3, 'Zoe', 'dog', NULL), (6, 2, 'Ace', 'owl', 9),
        (7, 1, 'Pip', 'dog', 1);
"""

DERIVED = [
    "SELECT name, age AS years FROM pet ORDER BY years DESC LIMIT 2",
    "SELECT name FROM pet ORDER BY age * 2 - 1 DESC LIMIT 1 OFFSET 2",
    (
        "SELECT o.name FROM owner AS o JOIN pet AS p ON o.id = p.owner_id GROUP BY o.id "
        "ORDER BY AVG(p.age) DESC LIMIT 2"
    ),
    "SELECT kind, age FROM pet UNION ALL SELECT city, id FROM owner ORDER BY 2, kind LIMIT 3",
    "(SELECT name FROM pet ORDER BY age LIMIT 2)",
    "SELECT name, RANK() OVER (ORDER BY age) AS place FROM pet ORDER BY place",
    (
        "SELECT p.name, RANK() OVER (ORDER BY age) AS place FROM pet AS p "
        "ORDER BY 2 DESC, p.name LIMIT 3"
    ),
    "SELECT name, SUM(age) OVER (PARTITION BY kind) FROM pet ORDER BY age LIMIT 4",
    (
        "SELECT kind, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) AS place FROM pet GROUP BY kind "
        "ORDER BY place DESC"
    ),
    (
        "SELECT name FROM (SELECT *, RANK() OVER (ORDER BY age) AS place FROM pet) AS r "
        "WHERE place < 5 ORDER BY place"
    ),
    (
        "SELECT name FROM pet "
        "ORDER BY (SELECT city FROM owner WHERE owner.id = pet.owner_id), age LIMIT 3"
    ),
    "SELECT *, -age AS a FROM pet ORDER BY 5, kind LIMIT 4",
    "SELECT id + 1 AS age FROM pet ORDER BY age * 2",
    "SELECT id AS number, length(name) AS size FROM pet ORDER BY number % 2, -size",
    "SELECT DISTINCT kind FROM pet ORDER BY length(kind)",
    "SELECT name, RANK() OVER (ORDER BY age) AS place FROM pet ORDER BY place * 2, kind",
    "SELECT name FROM pet ORDER BY COUNT(*) OVER (PARTITION BY kind) DESC, age LIMIT 3",
    "SELECT name AS kind, kind AS name FROM pet ORDER BY name, 1",
]
STRICT = [
    "SELECT name FROM pet ORDER BY RANDOM() LIMIT 1",
    "SELECT name, age AS name FROM pet ORDER BY name",
    "SELEC name FROM pet ORDER BY age",
]
FREE = [
    "SELECT name FROM pet",
    "SELECT name FROM pet EXCEPT SELECT name FROM owner",
]
UNREAD = [
    "",
    "not SQL",
    "SELECT 'open",
    "SELECT 1; SELECT 2",
    "SHOW TABLES",
    "ALTER TABLE t RENAME COLUMN a TO b, x",
    "(" * 3000 + "SELECT 1",
]


@pytest.fixture(scope="module")
def pets() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(PETS)
    yield connection
    connection.close()


def run(connection: sqlite3.Connection, statement: str) -> Table:
    cursor = connection.execute(statement)
    return Table(tuple(column[0] for column in cursor.description), tuple(cursor.fetchall()))


def run_first(connection: sqlite3.Connection, statements: Iterable[str]) -> Table | None:
    """What the first of the statements returns that the database takes."""
    for statement in statements:
        with suppress(sqlite3.OperationalError):
            return run(connection, statement)
    return None


@pytest.mark.parametrize("gold", DERIVED)
def test_a_derived_statement_gives_every_row_in_the_golds_order(
    gold: str, pets: sqlite3.Connection
) -> None:
    meaning = ordering(gold, sqlite.DIALECT)
    full = run_first(pets, meaning.derived)
    shown = run(pets, gold.strip("()") if gold.startswith("(") else gold)
    assert full is not None
    width = len(shown.columns)
    assert full.columns[:width] == shown.columns
    assert len(full.rows) == len(shown.rows) or meaning.limited
    assert Counter(shown.rows) <= Counter(row[:width] for row in full.rows)


@pytest.mark.parametrize("dialect", [sqlite.DIALECT, mariadb.DIALECT], ids=lambda one: one.name)
def test_what_cannot_be_derived_is_strict_and_free_without_an_order(
    dialect: Dialect, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [
        gold for gold in STRICT if ordering(gold, dialect).free or ordering(gold, dialect).derived
    ] == []
    assert [gold for gold in [*FREE, *UNREAD] if not ordering(gold, dialect).free] == []
    assert [text for text in UNREAD if literals(text, dialect)] == []
    assert capfd.readouterr().err == ""
    assert ordering("SELECT a FROM t ORDER BY a LIMIT 4, 2", dialect).offset == 4


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        (  # 1, 3, and one of three of 5
            "SELECT name FROM pet WHERE age IS NOT NULL ORDER BY age LIMIT 3",
            [
                f"SELECT 'Pip' UNION ALL SELECT 'Rex' UNION ALL SELECT '{last}'"
                for last in ("rex", "Pip", "Tom")
            ],
            [
                "SELECT 'Pip' UNION ALL SELECT 'Rex' UNION ALL SELECT 'Ace'",
                "SELECT 'Rex' UNION ALL SELECT 'Pip' UNION ALL SELECT 'Tom'",
            ],
        ),
        (  # Rex and rex tie, since the column ignores case; so do the two Pips
            "SELECT id FROM pet ORDER BY name",
            ["SELECT id FROM pet ORDER BY name, id", "SELECT id FROM pet ORDER BY name, id DESC"],
            ["SELECT id FROM pet ORDER BY name DESC"],
        ),
        (  # by a window's result, in which they tie as well
            (
                "SELECT name, RANK() OVER (ORDER BY age) AS place FROM pet WHERE age < 9 "
                "ORDER BY place"
            ),
            [
                "SELECT name, RANK() OVER (ORDER BY age) AS place FROM pet WHERE age < 9 "
                "ORDER BY place, id DESC"
            ],
            [
                "SELECT name, RANK() OVER (ORDER BY age) AS place FROM pet WHERE age < 9 "
                "ORDER BY place DESC"
            ],
        ),
        (  # any rows
            "SELECT id FROM pet WHERE kind = 'dog' LIMIT 2",
            ["SELECT id FROM pet WHERE kind = 'dog' ORDER BY id DESC LIMIT 2"],
            [
                "SELECT id FROM pet WHERE kind = 'cat' LIMIT 2",
                "SELECT id FROM pet WHERE kind = 'dog' LIMIT 3",
            ],
        ),
    ],
)
def test_rows_that_tie_in_the_database_are_free(
    gold: str, right: list[str], wrong: list[str], pets: sqlite3.Connection
) -> None:
    meaning = ordering(gold, sqlite.DIALECT)
    order = order_of(run(pets, gold), meaning, run_first(pets, meaning.derived))
    assert all(sql_exact(run(pets, answer), run(pets, gold), order).success for answer in right)
    assert not any(sql_exact(run(pets, answer), run(pets, gold), order).success for answer in wrong)


def test_literals_are_the_values_that_a_statement_names() -> None:
    gold = (
        "SELECT a FROM t WHERE b = 'x' AND c LIKE '%mid%' AND d > -1.5 AND e IN (2, 3) "
        "ORDER BY 1 LIMIT 9"
    )
    assert literals(gold, mariadb.DIALECT) == {"x", "%mid%", "mid", -1.5, 2, 3}
    assert (
        literals('SELECT a FROM t WHERE b = "x"', mariadb.DIALECT)
        == literals('SELECT a FROM t WHERE b = "x"', sqlite.DIALECT)
        == {"x"}
    )
