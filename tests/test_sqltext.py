"""What is read off a gold's SQL, held against what a real SQLite does with it."""

import sqlite3
from collections.abc import Iterator

import pytest

from intercode.rewards import sql_exact
from intercode.rewards.exact_sql import Order, order_of
from intercode.sqltext import TIE, literals, ordering
from intercode.types import Table

PETS = """
    CREATE TABLE owner (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
    CREATE TABLE pet (id INTEGER PRIMARY KEY, owner_id INTEGER, name TEXT COLLATE NOCASE, kind TEXT, age INTEGER);
    INSERT INTO owner VALUES (1, 'Ida', 'Ulm'), (2, 'Jon', 'Rom'), (3, 'Kay', 'Ulm'), (4, 'Lou', NULL);
    INSERT INTO pet VALUES (1, 1, 'Rex', 'dog', 3), (2, 1, 'rex', 'cat', 5), (3, 2, 'Pip', 'dog', 5),
        (4, 3, 'Tom', 'cat', 5), (5, 3, 'Zoe', 'dog', NULL), (6, 2, 'Ace', 'owl', 9), (7, 1, 'Pip', 'dog', 1);
"""

DERIVED = [
    "SELECT name FROM pet ORDER BY age",
    "SELECT name, age AS years FROM pet ORDER BY years DESC LIMIT 2",
    "SELECT name, age FROM pet ORDER BY 2 DESC, 1",
    "SELECT name FROM pet ORDER BY name LIMIT 5",
    "SELECT name FROM pet ORDER BY age * 2 - 1 DESC LIMIT 1 OFFSET 2",
    "SELECT * FROM pet ORDER BY kind, age DESC",
    "SELECT DISTINCT kind FROM pet ORDER BY kind DESC LIMIT 2",
    "SELECT kind, COUNT(*) FROM pet GROUP BY kind ORDER BY COUNT(*) DESC LIMIT 1",
    "SELECT kind, COUNT(*) AS n FROM pet GROUP BY kind HAVING COUNT(*) > 1 ORDER BY n",
    "SELECT o.name FROM owner AS o JOIN pet AS p ON o.id = p.owner_id GROUP BY o.id ORDER BY AVG(p.age) DESC LIMIT 2",
    "SELECT kind FROM pet UNION SELECT city FROM owner ORDER BY kind DESC LIMIT 4",
    "SELECT kind, age FROM pet UNION ALL SELECT city, id FROM owner ORDER BY 2, kind LIMIT 3",
    "WITH old AS (SELECT * FROM pet WHERE age > 3) SELECT name FROM old ORDER BY age LIMIT 2",
    "(SELECT name FROM pet ORDER BY age LIMIT 2)",
    "SELECT name FROM pet WHERE kind = 'dog' LIMIT 2",
    "SELECT name FROM pet ORDER BY (SELECT city FROM owner WHERE owner.id = pet.owner_id), age LIMIT 3",
]

STRICT = [
    "SELECT id + 1 AS age FROM pet ORDER BY age * 2",
    "SELECT *, name FROM pet ORDER BY 2",
    "SELECT DISTINCT name FROM pet ORDER BY age",
    "SELECT COUNT(*) FROM pet UNION SELECT 7 ORDER BY COUNT(*)",
    "SELECT name FROM pet ORDER BY age LIMIT 2 OFFSET 1 + 1",
    "SELECT name FROM pet ORDER BY age FETCH FIRST 2 ROWS WITH TIES",
    "SELECT name FROM pet ORDER BY RANDOM() LIMIT 1",
    "SELECT name, RANK() OVER (ORDER BY age) AS place FROM pet ORDER BY place",
    "SELECT a.name, b.name FROM pet AS a JOIN owner AS b ON a.owner_id = b.id ORDER BY name",
    "(SELECT name FROM pet) ORDER BY name",
    "SELECT name FROM pet ORDER BY 4",
    "SELEC name FROM pet ORDER BY age",
    "SELECT name FROM pet ORDER BY age; SELECT 1",
]

FREE = [
    "SELECT name FROM pet",
    "SELECT name FROM (SELECT name FROM pet ORDER BY age LIMIT 2) AS young",
    "SELECT name FROM pet WHERE id = (SELECT id FROM pet ORDER BY age LIMIT 1)",
    "SELECT name FROM pet EXCEPT SELECT name FROM owner",
    "not SQL at all",
    "",
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


def order(connection: sqlite3.Connection, gold: str) -> Order:
    meaning = ordering(gold, "sqlite")
    full = run(connection, meaning.derived) if meaning.derived else None
    return order_of(run(connection, gold), meaning, full)


def solved(connection: sqlite3.Connection, answer: str, gold: str) -> bool:
    return sql_exact(run(connection, answer), run(connection, gold), order(connection, gold)).success


@pytest.mark.parametrize("gold", DERIVED)
def test_a_derived_statement_gives_every_row_with_its_tie(gold: str, pets: sqlite3.Connection) -> None:
    meaning = ordering(gold, "sqlite")
    assert meaning.derived
    full, shown = run(pets, meaning.derived), run(pets, gold.strip("()") if gold.startswith("(") else gold)
    ties = [row[-1] for row in full.rows]
    assert full.columns[-1] == TIE
    assert ties == sorted(ties)
    assert len(full.rows) == len(shown.rows) or meaning.limited
    for place, row in enumerate(shown.rows, meaning.offset):
        assert (*row, ties[place]) in full.rows


@pytest.mark.parametrize("dialect", ["sqlite", "mysql"])
@pytest.mark.parametrize("gold", STRICT)
def test_an_order_that_cannot_be_derived_is_strict(gold: str, dialect: str) -> None:
    meaning = ordering(gold, dialect)
    assert not meaning.free
    assert meaning.derived is None


@pytest.mark.parametrize("dialect", ["sqlite", "mysql"])
@pytest.mark.parametrize("gold", FREE)
def test_without_an_order_at_top_level_order_is_free(gold: str, dialect: str) -> None:
    assert ordering(gold, dialect).free


def test_any_of_a_tie_is_accepted_where_the_limit_cuts_it(pets: sqlite3.Connection) -> None:
    gold = "SELECT name FROM pet WHERE age IS NOT NULL ORDER BY age LIMIT 3"  # 1, 3, and one of three of 5
    for last in ("rex", "Pip", "Tom"):
        assert solved(pets, f"SELECT 'Pip' UNION ALL SELECT 'Rex' UNION ALL SELECT '{last}'", gold)
    assert not solved(pets, "SELECT 'Pip' UNION ALL SELECT 'Rex' UNION ALL SELECT 'Ace'", gold)
    assert not solved(pets, "SELECT 'Rex' UNION ALL SELECT 'Pip' UNION ALL SELECT 'Tom'", gold)


def test_rows_tie_as_the_database_compares_them(pets: sqlite3.Connection) -> None:
    gold = "SELECT id FROM pet ORDER BY name"  # Rex and rex tie, since the column ignores case; so do the two Pips
    assert solved(pets, "SELECT id FROM pet ORDER BY name, id", gold)
    assert solved(pets, "SELECT id FROM pet ORDER BY name, id DESC", gold)
    assert not solved(pets, "SELECT id FROM pet ORDER BY name DESC", gold)


def test_a_limit_without_order_takes_any_rows(pets: sqlite3.Connection) -> None:
    gold = "SELECT id FROM pet WHERE kind = 'dog' LIMIT 2"
    assert solved(pets, "SELECT id FROM pet WHERE kind = 'dog' ORDER BY id DESC LIMIT 2", gold)
    assert not solved(pets, "SELECT id FROM pet WHERE kind = 'cat' LIMIT 2", gold)
    assert not solved(pets, "SELECT id FROM pet WHERE kind = 'dog' LIMIT 3", gold)


def test_both_ways_to_write_an_offset_are_read() -> None:
    assert ordering("SELECT a FROM t ORDER BY a LIMIT 4, 2", "mysql").offset == 4
    assert ordering("SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 4", "mysql").offset == 4
    assert ordering("SELECT a FROM t ORDER BY a LIMIT 2", "mysql").offset == 0


def test_literals_are_the_values_that_a_statement_names() -> None:
    gold = "SELECT a FROM t WHERE b = 'x' AND c LIKE '%mid%' AND d > -1.5 AND e IN (2, 3) ORDER BY 1 LIMIT 9"
    assert literals(gold, "mysql") == {"x", "%mid%", "mid", -1.5, 2, 3}


def test_double_quotes_hold_literals_in_both_dialects() -> None:
    gold = 'SELECT a FROM t WHERE b = "x"'
    assert literals(gold, "mysql") == literals(gold, "sqlite") == {"x"}


@pytest.mark.parametrize("text", ["", "not SQL", "SELECT 'open", "SELECT 1; SELECT 2", "SHOW TABLES", "(" * 3000 + "SELECT 1"])
def test_what_cannot_be_read_names_nothing_and_raises_nothing(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert literals(text, "mysql") == set()
    assert ordering(text, "mysql").free
    assert capfd.readouterr().err == ""
