"""What every engine promises, on each of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from asking import ask, do, gold, make, refused, rows
from orchard import DUCKDB, ENGINES

from intercode.envs.sql.engines import Databases, Engine
from intercode.errors import UsageError

CROSS = "SELECT COUNT(*) FROM seed a, seed b, seed c, seed d, seed e"
ANSWERS = [
    (
        "SELECT id, name, height FROM plant ORDER BY id",
        [(1, "fern", 0.5), (2, "rose", 1.25), (3, None, None)],
    ),
    ("SELECT id FROM plant WHERE id > 100", []),
    ("SELECT x'00ff27', 'naïve 漢字 🙂'", [(b"\x00\xff'", "naïve 漢字 🙂")]),
]
REFUSED = ["SELECT some FROM nowhere", "SELECT 1; DELETE FROM plant", "SELECT 1;;;; DROP TABLE bed"]
NONSENSE = ["", ";", "   ", "-- nothing", "\udcff", "SELECT '\udcff'", "\0"]
WRITES = [
    "INSERT INTO bed VALUES (9, 'new')",
    "UPDATE plant SET name = 'weed'",
    "DELETE FROM plant",
    "CREATE TABLE extra (a INT)",
    "CREATE VIEW seen AS SELECT * FROM bed",
    "ALTER TABLE bed ADD COLUMN soil INT",
    "DROP TABLE plant",
    "CREATE TEMPORARY TABLE extra (a INT)",
    "CREATE TEMPORARY TABLE plant AS SELECT 1 AS id, 1 AS bed_id, 'fake' AS name, 1 AS height",
]
GONE = ["SELECT * FROM extra", "SELECT soil FROM bed", "SELECT * FROM seen"]
STATE = (
    "SELECT b.id, b.name, p.name, p.height FROM bed b JOIN plant p ON p.bed_id = b.id ORDER BY p.id"
)
PRISTINE = [(1, "north", "fern", 0.5), (2, "south", "rose", 1.25), (2, "south", None, None)]


def test_rows_come_with_their_types_and_changes_are_counted(engine: Engine) -> None:
    for statement, expected in ANSWERS:
        assert rows(engine, statement) == expected
    table = ask(engine, "SELECT id, name AS called FROM plant WHERE id > 100").table
    assert table is not None
    assert (table.columns, table.cut) == (("id", "called"), False)
    answer = ask(engine, "UPDATE plant SET height = 3 WHERE bed_id = 2")
    assert (answer.table, answer.error, answer.affected) == (None, None, 2)


def test_an_error_is_an_answer_and_nonsense_breaks_nothing(engine: Engine) -> None:
    assert "nowhere" in refused(engine, "SELECT some FROM nowhere")
    for statement in REFUSED:
        refused(engine, statement)
    for statement in NONSENSE:
        ask(engine, statement)
    assert rows(engine, STATE) == PRISTINE


def test_databases_are_found_by_name_whatever_its_case_and_described(engine: Engine) -> None:
    engine.open("GARDEN_1")
    assert rows(engine, STATE) == PRISTINE
    assert engine.databases == ("garden_1", "vault")
    with pytest.raises(UsageError, match="garden_1"):
        engine.open("jungle")
    schema, facts = engine.schema("garden_1"), engine.facts()
    assert (schema.count("CREATE TABLE"), "bed_id" in schema, "secret" in schema) == (
        3,
        True,
        False,
    )
    assert facts["engine"] == engine.name
    assert facts["version"][0].isdigit()


@pytest.mark.parametrize("statement", [CROSS, f"DELETE FROM bed WHERE id < ({CROSS})"])
def test_an_endless_statement_is_stopped_and_leaves_nothing(engine: Engine, statement: str) -> None:
    began = time.monotonic()
    assert ask(engine, statement, seconds=0.3).timed_out
    assert time.monotonic() - began < 20
    assert rows(engine, STATE) == PRISTINE


NUMBERS = (
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r{}) SELECT COUNT(*) FROM r"
)


def test_a_recursion_runs_to_its_end_or_to_the_time_limit(engine: Engine) -> None:
    assert rows(engine, NUMBERS.format(" WHERE n < 5000")) == [(5000,)]
    assert ask(engine, NUMBERS.format(""), seconds=0.3).timed_out
    assert rows(engine, STATE) == PRISTINE


def test_a_statement_that_is_too_long_is_refused_and_the_session_goes_on(engine: Engine) -> None:
    do(engine, "CREATE TEMPORARY TABLE mine (a INT)")
    assert rows(engine, f"SELECT COUNT(*) FROM mine WHERE '{'x' * 15_000_000}' = ''") == [(0,)]
    assert "bytes; the limit is 16776192" in refused(engine, f"SELECT '{'x' * 17_000_000}'")
    assert rows(engine, "SELECT COUNT(*) FROM mine") == [(0,)]


def test_of_rows_of_megabytes_the_first_come_without_the_others(engine: Engine) -> None:
    long = "hex(zeroblob(1500000))" if engine.name == "sqlite" else "REPEAT('x', 3000000)"
    began = time.monotonic()
    table = ask(engine, f"SELECT {long} FROM seed").table
    assert table is not None
    assert (len(table.rows), table.cut) == (2, True)
    assert time.monotonic() - began < 40


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES, indirect=True)  # an own one has the server of sqlite
def test_a_sort_that_outgrows_memory_or_disk_is_an_error_of_the_statement(engine: Engine) -> None:
    answer = ask(
        engine, "SELECT * FROM seed a, seed b, seed c, seed d ORDER BY a.n + b.n, c.n", seconds=60
    )
    assert not answer.lost
    assert any(
        why in str(answer.error).lower()
        for why in ("out of memory", "a temporary table outgrew the disk")
    )
    assert rows(engine, STATE) == PRISTINE


@pytest.mark.parametrize("name", ["mariadb", "sqlite"])
def test_rows_and_bytes_have_caps(
    name: str, sources: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "max_rows", 10)
    monkeypatch.setattr(Engine, "max_bytes", 4000)
    with make(name, sources) as engine:
        with pytest.raises(UsageError, match="open"):
            engine.run("SELECT 1", seconds=1)
        engine.open("garden_1")
        for statement, count, cut in (
            ("SELECT n FROM seed WHERE n < 10", 10, False),
            ("SELECT n FROM seed WHERE n < 11", 10, True),
            (f"SELECT '{'x' * 1500}' FROM seed WHERE n < 9", 2, True),
            (f"SELECT '{'x' * 90_000}'", 0, True),
            ("SELECT 1", 1, False),
        ):
            table = ask(engine, statement).table
            assert table is not None
            assert (len(table.rows), table.cut) == (count, cut), statement[:40]


def test_a_write_is_gone_after_open(engine: Engine) -> None:
    for statements in [*((write,) for write in WRITES), ("BEGIN", "DELETE FROM plant")]:
        do(engine, *statements)
        engine.open("garden_1")
        assert rows(engine, STATE) == PRISTINE, statements
        assert all(refused(engine, statement) for statement in GONE)
    do(engine, "DELETE FROM plant")
    engine.open("vault")
    assert gold(engine, "garden_1", "SELECT COUNT(*) FROM plant") == [(3,)]
    engine.open("garden_1")
    assert rows(engine, STATE) == PRISTINE


def test_a_gold_reads_any_database_as_it_was_and_cannot_write(engine: Engine) -> None:
    do(engine, "CREATE TEMPORARY TABLE secret AS SELECT 'fake' AS word")
    assert gold(engine, "vault", "SELECT word FROM secret") == [("sesame",)]
    engine.open("garden_1")
    for statement in ("DELETE FROM plant", "SELECT some FROM nowhere"):
        assert engine.run_gold("garden_1", statement).error
    assert rows(engine, STATE) == PRISTINE
    assert engine.run_gold("garden_1", CROSS, seconds=0.3).timed_out
    engine.open("garden_1")  # a library that did not stop in time needs another server
    assert rows(engine, STATE) == PRISTINE


def test_two_engines_do_not_see_each_other_and_a_closed_one_says_so(
    own: Engine, shared: Callable[[str], Engine]
) -> None:
    engine = shared(DUCKDB if own.name == "duckdb" else own.name)
    do(own, "DELETE FROM plant")
    assert rows(engine, STATE) == PRISTINE
    own.close()
    own.close()
    with pytest.raises(UsageError):
        own.run("SELECT 1", seconds=1)
    with pytest.raises(UsageError, match="closed"):
        own.open("garden_1")
