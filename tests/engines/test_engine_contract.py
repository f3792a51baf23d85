"""What every engine promises, on each of them."""

from __future__ import annotations

import time

import pytest
from asking import ask, do, refused, rows
from garden import make

from intercode.engines import Caps, Databases, Engine
from intercode.errors import UsageError

CROSS = "SELECT COUNT(*) FROM seed a, seed b, seed c, seed d, seed e"
MANY = "SELECT a.n, b.n, c.n FROM seed a, seed b, seed c"
WRITES = [
    "INSERT INTO bed VALUES (9, 'new')",
    "UPDATE plant SET name = 'weed'",
    "DELETE FROM plant",
    "CREATE TABLE extra (a INT)",
    "CREATE VIEW seen AS SELECT * FROM bed",
    "ALTER TABLE bed ADD COLUMN soil INT",
    "DROP TABLE plant",
]
STATE = "SELECT b.id, b.name, p.name, p.height FROM bed b JOIN plant p ON p.bed_id = b.id ORDER BY p.id"
PRISTINE = [(1, "north", "fern", 0.5), (2, "south", "rose", 1.25), (2, "south", None, None)]


# -- answers ------------------------------------------------------------------------------------------------------------


def test_rows_come_with_their_types(engine: Engine) -> None:
    answer = ask(engine, "SELECT id, name, height FROM plant ORDER BY id")
    assert answer.table is not None
    assert answer.table.columns == ("id", "name", "height")
    assert answer.table.rows == ((1, "fern", 0.5), (2, "rose", 1.25), (3, None, None))
    assert not answer.table.cut


def test_an_empty_result_is_a_table(engine: Engine) -> None:
    answer = ask(engine, "SELECT id FROM plant WHERE id > 100")
    assert answer.table is not None
    assert answer.table.columns == ("id",)
    assert answer.table.rows == ()


def test_bytes_and_odd_text_survive(engine: Engine) -> None:
    assert rows(engine, "SELECT x'00ff27', 'ü\"''\\n'")[0][0] == b"\x00\xff'"
    assert rows(engine, "SELECT 'naïve 漢字 🙂'") == [("naïve 漢字 🙂",)]


def test_an_error_is_an_answer(engine: Engine) -> None:
    answer = ask(engine, "SELECT some FROM nowhere")
    assert answer.table is None
    assert "nowhere" in str(answer.error)
    assert not answer.timed_out
    assert rows(engine, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    "statement", ["", ";", "   ", "-- nothing", "\udcff", "SELECT '\udcff'", "SELECT 1;;;; DROP TABLE bed", "\0"]
)
def test_nonsense_breaks_nothing(engine: Engine, statement: str) -> None:
    ask(engine, statement)
    assert rows(engine, STATE) == PRISTINE


def test_a_change_says_how_many_rows(engine: Engine) -> None:
    answer = ask(engine, "UPDATE plant SET height = 3 WHERE bed_id = 2")
    assert (answer.table, answer.error, answer.affected) == (None, None, 2)


def test_two_statements_are_one_too_many(engine: Engine) -> None:
    refused(engine, "SELECT 1; DELETE FROM plant")
    assert rows(engine, STATE) == PRISTINE


def test_names_of_databases_do_not_mind_case(engine: Engine) -> None:
    engine.open("GARDEN_1")
    assert rows(engine, STATE) == PRISTINE
    assert engine.databases == ("garden_1", "vault")


def test_an_unknown_database_is_the_callers_fault(engine: Engine) -> None:
    with pytest.raises(UsageError, match="garden_1"):
        engine.open("jungle")


def test_the_schema_names_every_table(engine: Engine) -> None:
    schema = engine.schema("garden_1")
    assert schema.count("CREATE TABLE") == 3
    assert "bed_id" in schema
    assert "secret" not in schema


def test_facts_name_engine_and_version(engine: Engine) -> None:
    facts = engine.facts()
    assert facts["engine"] in ("mariadb", "sqlite")
    assert facts["version"][0].isdigit()


# -- limits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [CROSS, f"CREATE TABLE big AS SELECT a.n {MANY.partition('c.n ')[2]}, seed d", f"DELETE FROM bed WHERE id < ({CROSS})"],
)
def test_an_endless_statement_is_stopped(engine: Engine, statement: str) -> None:
    began = time.monotonic()
    answer = ask(engine, statement, seconds=0.5)
    assert time.monotonic() - began < 1.0
    assert answer.timed_out
    assert rows(engine, STATE) == PRISTINE


def test_a_long_result_is_cut(engine: Engine) -> None:
    answer = ask(engine, MANY)
    assert answer.table is not None
    assert answer.table.cut
    assert len(answer.table.rows) == 100_000
    assert not answer.lost
    assert rows(engine, STATE) == PRISTINE


@pytest.mark.parametrize("name", ["mariadb", "sqlite"])
def test_rows_and_bytes_have_caps(name: str, sources: Databases) -> None:
    with make(name, sources, Caps(rows=10, bytes=4000)) as engine:
        engine.open("garden_1")
        exact = ask(engine, "SELECT n FROM seed WHERE n < 10").table
        above = ask(engine, "SELECT n FROM seed WHERE n < 11").table
        wide = [ask(engine, f"SELECT '{'x' * 1500}' FROM seed WHERE n < 9").table for _ in range(2)]
        giant = ask(engine, f"SELECT '{'x' * 90_000}'").table
        assert exact is not None
        assert above is not None
        assert giant is not None
        assert (len(exact.rows), exact.cut, len(above.rows), above.cut) == (10, False, 10, True)
        assert wide[0] == wide[1]
        assert wide[0] is not None
        assert (len(wide[0].rows), wide[0].cut) == (2, True)
        assert (giant.rows, giant.cut) == ((), True)
        assert rows(engine, "SELECT 1") == [(1,)]


# -- what is left of an episode -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_gone_after_open(engine: Engine, write: str) -> None:
    do(engine, write)
    engine.open("garden_1")
    assert rows(engine, STATE) == PRISTINE
    assert "no such table" in (said := refused(engine, "SELECT * FROM extra")) or "doesn't exist" in said
    refused(engine, "SELECT soil FROM bed")
    refused(engine, "SELECT * FROM seen")


def test_a_write_is_gone_after_another_database(engine: Engine) -> None:
    do(engine, "DELETE FROM plant")
    engine.open("vault")
    engine.open("garden_1")
    assert rows(engine, STATE) == PRISTINE


def test_an_open_transaction_is_rolled_back(engine: Engine) -> None:
    do(engine, "BEGIN", "DELETE FROM plant")
    engine.open("garden_1")
    assert rows(engine, STATE) == PRISTINE
    do(engine, "DELETE FROM plant")


def test_temporary_tables_end_with_the_session(engine: Engine) -> None:
    do(engine, "CREATE TEMPORARY TABLE bed2 (a INT)")
    engine.open("garden_1")
    refused(engine, "SELECT * FROM bed2")


def test_a_temporary_table_does_not_shadow_for_the_next(engine: Engine) -> None:
    do(engine, "CREATE TEMPORARY TABLE plant AS SELECT 1 AS id, 1 AS bed_id, 'fake' AS name, 1 AS height")
    engine.open("garden_1")
    assert rows(engine, STATE) == PRISTINE


# -- golds and rights ---------------------------------------------------------------------------------------------------


def test_a_gold_reads_any_database(engine: Engine) -> None:
    table = engine.run_gold("vault", "SELECT word FROM secret").table
    assert table is not None
    assert table.rows == (("sesame",),)


def test_a_gold_is_not_shadowed_by_the_agents_session(engine: Engine) -> None:
    do(engine, "CREATE TEMPORARY TABLE secret AS SELECT 'fake' AS word")
    table = engine.run_gold("vault", "SELECT word FROM secret").table
    assert table is not None
    assert table.rows == (("sesame",),)


def test_a_gold_cannot_write(engine: Engine) -> None:
    assert engine.run_gold("garden_1", "DELETE FROM plant").error
    assert rows(engine, STATE) == PRISTINE


def test_a_gold_that_fails_or_hangs_is_an_answer(engine: Engine) -> None:
    assert engine.run_gold("garden_1", "SELECT some FROM nowhere").error
    assert engine.run_gold("garden_1", CROSS, seconds=0.3).timed_out
    assert rows(engine, STATE) == PRISTINE


def test_a_gold_sees_pristine_content_after_an_episode(engine: Engine) -> None:
    do(engine, "DELETE FROM plant")
    engine.open("vault")
    table = engine.run_gold("garden_1", "SELECT COUNT(*) FROM plant").table
    assert table is not None
    assert table.rows == ((3,),)


def test_two_engines_do_not_see_each_other(own: Engine, engine: Engine) -> None:
    do(own, "DELETE FROM plant")
    assert rows(engine, STATE) == PRISTINE


# -- the caller's mistakes ----------------------------------------------------------------------------------------------


def test_a_closed_engine_says_so(own: Engine) -> None:
    own.close()
    own.close()
    with pytest.raises(UsageError):
        own.run("SELECT 1", seconds=1)
    with pytest.raises(UsageError, match="closed"):
        own.open("garden_1")


def test_an_episode_begins_with_open(engine: Engine, sources: Databases) -> None:
    with make(engine.facts()["engine"], sources) as fresh, pytest.raises(UsageError, match="open"):
        fresh.run("SELECT 1", seconds=1)
