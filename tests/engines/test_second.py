"""Second contents keep what makes a database one, and tell queries apart that agree on the first by accident."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from intercode import sqltext
from intercode.engines import Databases, Engine, databases, engine_maker, mariadbd
from intercode.engines.dependencies import Reference, Relation, depths
from intercode.engines.perturb import perturbed
from intercode.engines.second import second_contents, second_databases
from intercode.tasks import open_data
from intercode.tasks.dataset import STARTER

ORCHARD = """
CREATE TABLE farm (
  id INTEGER NOT NULL, name VARCHAR(20) NOT NULL, village VARCHAR(20), founded VARCHAR(10), code VARCHAR(3), PRIMARY KEY (id));
CREATE TABLE variety (name VARCHAR(20) NOT NULL, origin VARCHAR(20), PRIMARY KEY (name));
CREATE TABLE tree (
  id INTEGER NOT NULL, farm_id INTEGER NOT NULL, variety VARCHAR(20), graft_of INTEGER, height DECIMAL(5,2), planted DATE,
  age INTEGER, state VARCHAR(8) NOT NULL, PRIMARY KEY (id), FOREIGN KEY (farm_id) REFERENCES farm (id),
  FOREIGN KEY (graft_of) REFERENCES tree (id));
CREATE TABLE fair (
  farm_id INTEGER NOT NULL, variety VARCHAR(20) NOT NULL, held INTEGER NOT NULL, prize INTEGER,
  PRIMARY KEY (farm_id, variety, held), FOREIGN KEY (farm_id) REFERENCES farm (id), CHECK (prize IS NULL OR prize < 4));
CREATE TABLE ledger (id INTEGER NOT NULL, PRIMARY KEY (id));
CREATE TABLE word (id INTEGER NOT NULL, said VARCHAR(40), PRIMARY KEY (id));
INSERT INTO farm VALUES
  (1, 'Hillock', 'Nether', '1901-05-02', '007'), (2, 'Brook', 'Upper', '1877-11-30', '012'),
  (3, 'Stony', NULL, '1950-01-01', '040'),
  (4, 'Mill', 'Nether', '1999-12-31', '041'), (5, 'Ash', 'Upper', '1912-07-07', '044'), (6, 'Quiet', '', '1833-03-03', '099');
INSERT INTO variety VALUES ('Russet', 'north'), ('Pearmain', 'south'), ('Codlin', 'north'), ('Blenheim', NULL);
INSERT INTO word VALUES (1, 'it''s'), (2, 'back\\slash'), (3, 'äpfel'), (4, 'two
lines; with -- a comment');
CREATE VIEW b_tall AS SELECT id, name FROM a_old;
"""
VIEW = "CREATE VIEW a_old AS SELECT tree.id, farm.name FROM tree JOIN farm ON farm.id = tree.farm_id WHERE age > 20;\n"
STATES = ("good", "fair", "poor")
VARIETIES = ("Russet", "Pearmain", "Codlin")
ENGINES = ("mariadb", "sqlite")
LITERALS = {"orchard": {"Hillock", "Russet", 20, "poor", "1877-11-30", 2.5}}


def script() -> str:
    trees = ", ".join(
        f"({n}, {n % 5 + 1}, '{VARIETIES[n % 3]}', {n // 2 if n > 3 else 'NULL'}, {n % 7}.50, "
        f"'20{n % 20 + 10}-04-{n % 28 + 1:02d}', "
        f"{n % 40}, '{STATES[n // 3 % 3]}')"
        for n in range(1, 61)
    )
    fairs = ", ".join(f"({n % 6 + 1}, '{VARIETIES[n % 3]}', {2000 + n}, {n % 3 + 1})" for n in range(12))
    tables, view = ORCHARD.split("CREATE VIEW")
    return f"{tables}INSERT INTO tree VALUES {trees};\nINSERT INTO fair VALUES {fairs};\n{VIEW}CREATE VIEW{view}"


@pytest.fixture(scope="module")
def orchard(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    folder = tmp_path_factory.mktemp("second")
    (folder / "orchard.sql").write_text(script())
    return databases(folder)


def maker(name: str, content: Databases) -> Callable[[], Engine]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if name == "mariadb" and (why := mariadbd.missing()):
        pytest.skip(why)
    return engine_maker(name, content)


@pytest.fixture(scope="module", params=ENGINES)
def both(request: pytest.FixtureRequest, orchard: Databases) -> Iterator[tuple[Engine, Engine]]:
    """The first content and the second, on one kind of engine."""
    with maker(request.param, orchard)() as first:
        second = second_contents(first, LITERALS)
        with maker(request.param, second)() as other:
            yield first, other


def rows(engine: Engine, statement: str, db: str = "orchard") -> list[tuple[Any, ...]]:
    answer = engine.run_gold(db, statement)
    assert answer.table is not None, f"{statement}: {answer.error}"
    return list(answer.table.rows)


def number(engine: Engine, statement: str) -> Any:
    return rows(engine, statement)[0][0]


Both = tuple[Engine, Engine]


def test_the_schema_is_the_same(both: Both) -> None:
    first, second = both
    assert Counter(first.schema("orchard").split(";\n")) == Counter(second.schema("orchard").split(";\n"))


def test_views_work_even_if_one_stands_on_another(both: Both) -> None:
    assert rows(both[1], "SELECT * FROM b_tall")


def test_every_foreign_key_finds_its_row(both: Both) -> None:
    for child, column, parent in (("tree", "farm_id", "farm"), ("fair", "farm_id", "farm"), ("tree", "graft_of", "tree")):
        lost = f"SELECT COUNT(*) FROM {child} WHERE {column} IS NOT NULL AND {column} NOT IN (SELECT id FROM {parent})"
        assert number(both[1], lost) == 0


def test_a_reference_that_nobody_declared_holds_too(both: Both) -> None:
    assert number(both[1], "SELECT COUNT(*) FROM tree WHERE variety NOT IN (SELECT name FROM variety)") == 0


def test_a_tree_stays_a_tree(both: Both) -> None:
    roots, grafts = "SELECT id FROM tree WHERE graft_of IS NULL", "SELECT t.id FROM tree t JOIN w ON t.graft_of = w.id"
    walk = f"WITH RECURSIVE w(id) AS ({roots} UNION ALL {grafts})"
    assert number(both[1], f"{walk} SELECT COUNT(*) FROM w") == number(both[1], "SELECT COUNT(*) FROM tree")


def test_children_are_spread_otherwise_and_some_parents_have_none(both: Both) -> None:
    spread = "SELECT farm_id, COUNT(*) FROM tree GROUP BY farm_id ORDER BY 1"
    alone = "SELECT COUNT(*) FROM farm WHERE id NOT IN (SELECT farm_id FROM tree)"
    assert rows(both[0], spread) != rows(both[1], spread)
    assert number(both[1], alone) > 0


def test_tables_grow_to_twice_their_size_at_most_but_small_ones_more(both: Both) -> None:
    first, second = both
    for table in ("farm", "variety", "tree", "fair", "word"):
        before, after = (number(engine, f"SELECT COUNT(*) FROM {table}") for engine in both)
        assert before <= after <= max(2 * before, before + 6)
    assert number(second, "SELECT COUNT(*) FROM ledger") == number(first, "SELECT COUNT(*) FROM ledger") == 0


def test_what_literals_name_is_still_there(both: Both) -> None:
    for statement in (
        "SELECT 1 FROM farm WHERE name = 'Hillock'",
        "SELECT 1 FROM tree WHERE variety = 'Russet' AND state = 'good'",
        "SELECT 1 FROM tree WHERE state = 'poor'",
        "SELECT 1 FROM farm WHERE founded = '1877-11-30'",
        "SELECT 1 FROM tree WHERE age = 20",
        "SELECT 1 FROM tree WHERE height = 2.5",
    ):
        assert rows(both[1], statement), statement


def test_a_name_that_is_named_stays_one_rows(both: Both) -> None:
    assert number(both[1], "SELECT COUNT(*) FROM farm WHERE name = 'Hillock'") == 1


def test_values_keep_format_and_range(both: Both) -> None:
    second = both[1]
    assert all(
        re.fullmatch(r"1[89]\d\d-\d\d-\d\d", day)
        for (day,) in rows(second, "SELECT founded FROM farm WHERE founded IS NOT NULL")
    )
    assert all(re.fullmatch(r"0\d\d", code) for (code,) in rows(second, "SELECT code FROM farm WHERE code IS NOT NULL"))
    assert {state for (state,) in rows(second, "SELECT DISTINCT state FROM tree")} == set(STATES)
    assert number(second, "SELECT COUNT(*) FROM tree WHERE age < 0 OR age > 39 OR height < 0 OR height > 7") == 0
    assert number(second, "SELECT COUNT(*) FROM fair WHERE prize > 3") == 0


def test_only_columns_that_allow_it_are_emptied(both: Both) -> None:
    assert number(both[1], "SELECT COUNT(*) FROM tree WHERE state IS NULL OR farm_id IS NULL") == 0
    assert number(both[1], "SELECT COUNT(*) FROM farm WHERE village IS NULL OR village = ''") > 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("SELECT COUNT(*) FROM tree", "SELECT 60"),
        ("SELECT COUNT(*) FROM tree WHERE age > 19", "SELECT COUNT(*) FROM tree WHERE age >= 20 AND id < 61"),
        ("SELECT MAX(age) FROM tree WHERE height > 2.5", "SELECT 38"),
        (
            "SELECT id FROM farm WHERE EXISTS (SELECT 1 FROM tree WHERE farm_id = farm.id)",
            "SELECT id FROM farm WHERE name <> 'Quiet'",
        ),
        ("SELECT COUNT(DISTINCT farm_id) FROM tree", "SELECT COUNT(*) - 1 FROM farm"),
    ],
)
def test_a_query_that_was_right_by_accident_shows_itself(both: Both, right: str, wrong: str) -> None:
    assert Counter(rows(both[1], right)) != Counter(rows(both[1], wrong))


def test_a_right_query_written_otherwise_agrees(both: Both) -> None:
    one = "SELECT f.name, COUNT(t.id) FROM farm f LEFT JOIN tree t ON t.farm_id = f.id AND t.age > 20 GROUP BY f.id, f.name"
    other = "SELECT name, (SELECT COUNT(*) FROM tree WHERE farm_id = farm.id AND age > 20) FROM farm"
    assert Counter(rows(both[1], one)) == Counter(rows(both[1], other))


@pytest.mark.parametrize("name", ENGINES)
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(name: str, orchard: Databases) -> None:
    with maker(name, orchard)() as engine:
        first, again, other = (second_contents(engine, LITERALS, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.digest != other.digest


def test_awkward_texts_survive(both: Both) -> None:
    old, new = ({text for (text,) in rows(engine, "SELECT said FROM word")} for engine in both)
    assert old == new - {None}


def test_sqlite_values_of_every_kind_survive(tmp_path: Path) -> None:
    text = (
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, what, twice GENERATED ALWAYS AS (id * 2));"
        "INSERT INTO odd (id, what) VALUES"
        "(1, x'00ff'), (2, 1.5), (3, 'a' || char(0) || 'b'), (4, CAST(x'ff41' AS TEXT)), (5, 9e999);"
    )
    (tmp_path / "odd.sql").write_text(text)
    with maker("sqlite", databases(tmp_path))() as first, maker("sqlite", second_contents(first, {}))() as second:
        kept = [{value for (value,) in rows(engine, "SELECT what FROM odd", "odd")} for engine in (first, second)]
        assert kept[1] - {None} <= kept[0]
        assert rows(second, "SELECT COUNT(*) FROM odd WHERE twice <> 2 * id", "odd") == [(0,)]


def test_a_large_table_is_read_in_part_and_keeps_its_literals(tmp_path: Path) -> None:
    text = (
        "CREATE TABLE big (id INTEGER PRIMARY KEY, word TEXT, n INTEGER);"
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 30000)"
        "INSERT INTO big SELECT n, CASE n WHEN 29999 THEN 'needle' ELSE 'hay' || n END, n % 100 FROM c;"
    )
    (tmp_path / "big.sql").write_text(text)
    with (
        maker("sqlite", databases(tmp_path))() as first,
        maker("sqlite", second_contents(first, {"big": {"needle"}}))() as second,
    ):
        assert 10_000 < rows(second, "SELECT COUNT(*) FROM big", "big")[0][0] < 22_000
        assert len(rows(second, "SELECT 1 FROM big WHERE word = 'needle'", "big")) == 1


def test_the_cache_gives_back_what_was_made(orchard: Databases) -> None:
    with maker("sqlite", orchard)() as engine:
        made, kept = (second_databases(engine, orchard, LITERALS, seed=11) for _ in range(2))
        assert made == kept == second_contents(engine, LITERALS, seed=11)


@pytest.mark.parametrize("name", ENGINES)
def test_the_starters_general_golds_tell_contents_apart(name: str) -> None:
    tasks = open_data(None, env="sql").tasks
    content = databases(STARTER / "sql" / "databases")
    with maker(name, content)() as first:
        named: dict[str, set[Any]] = {}
        for task in tasks:
            named.setdefault(task.extra["db"], set()).update(sqltext.literals(task.gold, first.dialect))
        with maker(name, second_contents(first, named))() as second:
            for task in filter(lambda task: task.general, tasks):
                before, after = (rows(engine, task.gold, task.extra["db"]) for engine in (first, second))
                assert after, f"{task.id} has no rows on the second content"
                assert Counter(before) != Counter(after), f"{task.id} is the same on both"


def test_the_depths_of_a_long_chain_are_found_at_once() -> None:
    rows = tuple((n, n - 1 if n else None) for n in range(8000))
    chain = Relation("t", ("id", "up"), (False, True), ((0,),), (Reference((1,), "t", (0,)),), rows)
    began = time.monotonic()
    assert depths(chain, chain.references[0]) == {(n,): n for n in range(8000)}
    assert time.monotonic() - began < 2


def test_a_junction_of_keys_alone_gets_new_pairs() -> None:
    left = Relation("a", ("id",), (False,), ((0,),), (), tuple((n,) for n in range(6)))
    pairs = tuple((n, (n + 1) % 6) for n in range(6))
    link = Relation(
        "ab", ("a", "b"), (False, False), ((0, 1),), (Reference((0,), "a", (0,)), Reference((1,), "a", (0,))), pairs
    )
    made = perturbed([link, left], (), "seed")
    assert len(set(made["ab"])) == len(made["ab"]) > 6
    assert {key for pair in made["ab"] for key in pair} <= {key for (key,) in made["a"]}


def test_a_code_and_its_name_change_together() -> None:
    names = {"de": "Germany", "fr": "France", "no": "Norway", "pt": "Portugal"}
    rows = tuple((n, list(names)[n % 4], list(names.values())[n % 4], n * 7 % 31) for n in range(80))
    table = Relation("t", ("id", "code", "name", "n"), (False, True, True, True), ((0,),), (), rows)
    made = perturbed([table], (), "seed")["t"]
    assert all(names[str(code)] == name for _, code, name, _ in made)
    assert [row[1] for row in sorted(made)[:80]] != [row[1] for row in rows]  # type: ignore[type-var]


def test_keys_follow_the_pattern_of_the_old_ones() -> None:
    rows = tuple((f"{n:03d}", date(2024, 1, n), f"AB-{n}", n) for n in range(1, 9))
    table = Relation("t", ("code", "day", "plate", "n"), (False,) * 4, ((0,), (1,), (2,)), (), rows)
    made = perturbed([table], (), "seed")["t"]
    assert len(made) > 8
    assert all(len({row[place] for row in made}) == len(made) for place in range(3))
    for code, day, plate, _ in made:
        assert isinstance(day, date)
        assert re.fullmatch(r"0\d\d", str(code))
        assert re.fullmatch(r"[A-Z]{2}-\d", str(plate))
