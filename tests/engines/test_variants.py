"""Variant data keep what makes a database one, and tell queries apart that agree on the original
data by accident."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import gold, make

from intercode.envs.sql import text as sqltext
from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import Databases, Engine
from intercode.envs.sql.variants import variant_contents, variant_databases
from intercode.tasks import open_data
from intercode.tasks.dataset import STARTER

ORCHARD = """
CREATE TABLE farm (
  id INTEGER NOT NULL, name VARCHAR(20) NOT NULL, village VARCHAR(20), founded VARCHAR(10),
  code VARCHAR(3), PRIMARY KEY (id));
CREATE TABLE variety (name VARCHAR(20) NOT NULL, origin VARCHAR(20), PRIMARY KEY (name));
CREATE TABLE tree (
  id INTEGER NOT NULL, farm_id INTEGER NOT NULL, variety VARCHAR(20), graft_of INTEGER,
  height DECIMAL(5,2), planted DATE, age INTEGER, state VARCHAR(8) NOT NULL, mark VARCHAR(2),
  PRIMARY KEY (id), FOREIGN KEY (farm_id) REFERENCES farm (id),
  FOREIGN KEY (graft_of) REFERENCES tree (id));
CREATE TABLE grows (
  farm_id INTEGER NOT NULL, tree_id INTEGER NOT NULL, PRIMARY KEY (farm_id, tree_id),
  FOREIGN KEY (farm_id) REFERENCES farm (id), FOREIGN KEY (tree_id) REFERENCES tree (id));
CREATE TABLE ledger (id INTEGER NOT NULL, PRIMARY KEY (id), CHECK (id < 4));
CREATE TABLE word (id INTEGER NOT NULL, said VARCHAR(40), PRIMARY KEY (id));
INSERT INTO farm VALUES
  (1, 'Hillock', 'Nether', '1901-05-02', '007'), (2, 'Brook', 'Upper', '1877-11-30', '012'),
  (3, 'Stony', NULL, '1950-01-01', '040'),
  (4, 'Mill', 'Nether', '1999-12-31', '041'), (5, 'Ash', 'Upper', '1912-07-07', '044'),
  (6, 'Quiet', '', '1833-03-03', '099');
INSERT INTO variety VALUES
  ('Russet', 'north'), ('Pearmain', 'south'), ('Codlin', 'north'), ('Blenheim', NULL);
INSERT INTO word VALUES (1, 'it''s'), (2, 'back\\slash'), (3, 'äpfel'), (4, 'two
lines; with -- a comment');
INSERT INTO tree VALUES @TREES@;
INSERT INTO grows VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6);
CREATE VIEW a_old AS
  SELECT tree.id, farm.name FROM tree JOIN farm ON farm.id = tree.farm_id WHERE age > 20;
CREATE VIEW b_tall AS SELECT id, name FROM a_old;
"""
VARIETIES = ("Russet", "Pearmain", "Codlin")
TREES = ", ".join(
    f"({n}, {n % 5 + 1}, '{VARIETIES[n % 3]}', {n // 2 if n > 3 else 'NULL'}, {n % 7}.50, "
    f"'20{n % 20 + 10}-04-{n % 28 + 1:02d}', {n % 40}, '{('good', 'fair', 'poor')[n // 3 % 3]}', "
    f"'{'GFP'[n // 3 % 3]}')"
    for n in range(1, 61)
)
LITERALS = {"orchard": {"Hillock", "Russet", 20, "poor", "1877-11-30", 2.5}}
GRAFTS = """
WITH RECURSIVE w(id) AS (
  SELECT id FROM tree WHERE graft_of IS NULL
  UNION ALL SELECT t.id FROM tree t JOIN w ON t.graft_of = w.id)
SELECT COUNT(*) FROM tree WHERE id NOT IN (SELECT id FROM w)"""
NONE = [
    "SELECT COUNT(*) FROM tree WHERE farm_id NOT IN (SELECT id FROM farm)",
    (
        "SELECT COUNT(*) FROM tree "
        "WHERE graft_of IS NOT NULL AND graft_of NOT IN (SELECT id FROM tree)"
    ),
    # nobody declared this reference
    "SELECT COUNT(*) FROM tree WHERE variety NOT IN (SELECT name FROM variety)",
    GRAFTS,  # a tree stays a tree
    "SELECT COUNT(*) FROM ledger",
    "SELECT COUNT(*) FROM tree WHERE age < 0 OR age > 39 OR height < 0 OR height > 7",
    "SELECT COUNT(*) FROM tree WHERE state IS NULL OR state NOT IN ('good', 'fair', 'poor')",
    (
        "SELECT COUNT(*) FROM tree "
        "WHERE (state = 'good') <> (mark = 'G') OR (state = 'poor') <> (mark = 'P')"
    ),
    "SELECT COUNT(*) FROM farm WHERE code NOT LIKE '0__' OR founded NOT LIKE '1___-__-__'",
    "SELECT COUNT(*) - 1 FROM farm WHERE name = 'Hillock'",  # a name that is named stays one row's
]
SOME = [
    "SELECT * FROM b_tall",  # a view that stands on another
    "SELECT 1 FROM farm WHERE id NOT IN (SELECT farm_id FROM tree)",
    # a junction of keys alone gets new pairs
    "SELECT 1 FROM (SELECT COUNT(*) AS n FROM grows) g WHERE n > 6",
    "SELECT 1 FROM farm WHERE village IS NULL OR village = ''",
    "SELECT 1 FROM tree WHERE variety = 'Russet' AND state = 'good'",
    "SELECT 1 FROM tree WHERE state = 'poor'",
    "SELECT 1 FROM farm WHERE founded = '1877-11-30'",
    "SELECT 1 FROM tree WHERE age = 20",
    "SELECT 1 FROM tree WHERE height = 2.5",
]
BY_ACCIDENT = [
    ("SELECT COUNT(*) FROM tree", "SELECT 60"),
    (
        "SELECT COUNT(*) FROM tree WHERE age > 19",
        "SELECT COUNT(*) FROM tree WHERE age >= 20 AND id < 61",
    ),
    (
        "SELECT id FROM farm WHERE id IN (SELECT farm_id FROM tree)",
        "SELECT id FROM farm WHERE name <> 'Quiet'",
    ),
    ("SELECT COUNT(DISTINCT farm_id) FROM tree", "SELECT COUNT(*) - 1 FROM farm"),
]
Both = tuple[Engine, Engine]


def rows(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    return gold(engine, "orchard", statement)


@pytest.fixture(scope="module")
def orchard(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    folder = tmp_path_factory.mktemp("orchard")
    (folder / "orchard.sql").write_text(ORCHARD.replace("@TREES@", TREES))
    return read_databases(folder)


@pytest.fixture(scope="module", params=["mariadb", "sqlite"])
def both(request: pytest.FixtureRequest, orchard: Databases) -> Iterator[Both]:
    """The original data and the variant data, on one kind of engine."""
    with (
        make(request.param, orchard) as first,
        make(request.param, variant_contents(first, LITERALS)) as variant,
    ):
        yield first, variant


def test_schema_and_awkward_texts_are_the_same(both: Both) -> None:
    assert len({str(sorted(engine.schema("orchard").split(";\n"))) for engine in both}) == 1
    old, new = ({text for (text,) in rows(engine, "SELECT said FROM word")} for engine in both)
    assert old == new - {None}


def test_keys_trees_formats_ranges_and_literals_hold(both: Both) -> None:
    for statement in NONE:
        assert rows(both[1], statement) == [(0,)], statement
    for statement in SOME:
        assert rows(both[1], statement), statement


def test_tables_grow_to_twice_their_size_at_most_but_small_ones_more(both: Both) -> None:
    for table in ("farm", "variety", "tree", "word"):
        before, after = (rows(engine, f"SELECT COUNT(*) FROM {table}")[0][0] for engine in both)
        assert before <= after <= max(2 * before, before + 6)


def test_a_query_that_was_right_by_accident_shows_itself_and_a_right_one_does_not(
    both: Both,
) -> None:
    for right, wrong in BY_ACCIDENT:
        assert Counter(rows(both[0], right)) == Counter(rows(both[0], wrong))
        assert Counter(rows(both[1], right)) != Counter(rows(both[1], wrong))
    one = (
        "SELECT f.name, COUNT(t.id) FROM farm f "
        "LEFT JOIN tree t ON t.farm_id = f.id AND t.age > 20 GROUP BY f.id, f.name"
    )
    other = (
        "SELECT name, (SELECT COUNT(*) FROM tree WHERE farm_id = farm.id AND age > 20) FROM farm"
    )
    assert Counter(rows(both[1], one)) == Counter(rows(both[1], other))


def test_the_same_seed_gives_the_same_bytes_another_one_others_and_the_cache_what_was_made(
    both: Both, orchard: Databases
) -> None:
    made, kept = (variant_databases(both[0], orchard, LITERALS, seed=11) for _ in range(2))
    assert made == kept == variant_contents(both[0], LITERALS, seed=11)
    assert made.digest != variant_contents(both[0], LITERALS, seed=4).digest


def test_sqlite_values_of_every_kind_survive_and_a_large_table_keeps_its_literals(
    tmp_path: Path,
) -> None:
    (tmp_path / "odd.sql").write_text(
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, what, "
        "twice GENERATED ALWAYS AS (id * 2));INSERT INTO odd (id, what) "
        "VALUES(1, x'00ff'), (2, 1.5), (3, 'a' || char(0) || 'b'), (4, CAST(x'ff41' AS TEXT)), "
        "(5, 9e999);CREATE TABLE big (id INTEGER PRIMARY KEY, word TEXT, n INTEGER);WITH RECURSIVE "
        "c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 30000)INSERT INTO big "
        "SELECT n, CASE n WHEN 29999 THEN 'needle' ELSE 'hay' || n END, n % 100 FROM c;"
    )
    with (
        make("sqlite", read_databases(tmp_path)) as first,
        make("sqlite", variant_contents(first, {"odd": {"needle"}})) as variant,
    ):
        old, new = (
            {value for (value,) in gold(engine, "odd", "SELECT what FROM odd")}
            for engine in (first, variant)
        )
        assert new - {None} <= old
        assert gold(variant, "odd", "SELECT COUNT(*) FROM odd WHERE twice <> 2 * id") == [(0,)]
        assert 10_000 < gold(variant, "odd", "SELECT COUNT(*) FROM big")[0][0] < 22_000
        assert gold(variant, "odd", "SELECT COUNT(*) FROM big WHERE word = 'needle'") == [(1,)]


def test_the_starters_general_golds_tell_contents_apart() -> None:
    tasks = open_data(None, env="sql").tasks
    with make("sqlite", read_databases(STARTER / "sql" / "databases")) as first:
        named: dict[str, set[Any]] = {}
        for task in tasks:
            named.setdefault(task.extra["db"], set()).update(
                sqltext.literals(task.gold, first.dialect)
            )
        with make("sqlite", variant_contents(first, named)) as variant:
            for task in filter(lambda task: task.general, tasks):
                before, after = (
                    gold(engine, task.extra["db"], task.gold) for engine in (first, variant)
                )
                assert after, f"{task.id} has no rows on the variant data"
                assert Counter(before) != Counter(after), f"{task.id} is the same on both"
