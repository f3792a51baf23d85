"""What an agent may try on SQLite, and what is left of it; more of it is in `redteam/sql.py`,
with positive controls."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from asking import ask, do, make, refused, rows

from intercode.envs.sql.databases import database, read_databases, run_in_turn
from intercode.envs.sql.engines import Databases, Engine
from intercode.envs.sql.engines.embedded import exchange, read_answer
from intercode.errors import DataError, EntryLeftOut, SandboxDied
from intercode.types import Task

DENIED = [
    "ATTACH '/etc/passwd' AS x",
    "ATTACH ':memory:' AS x",
    "ATTACH '/srv/sqlite/original/vault.sqlite' AS x",
    "DETACH main",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA user_version = 7",
    "SELECT fts3_tokenizer('simple')",
    "UPDATE sqlite_master SET sql = 'x'",
    "SELECT length(hex(zeroblob(1000000000)))",
]


@pytest.mark.parametrize("statement", DENIED)
def test_what_is_beyond_the_database_is_denied(embedded: Engine, statement: str) -> None:
    refused(embedded, statement)
    assert rows(embedded, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_pragmas_that_tell_of_the_schema_or_end_with_the_session_are_allowed(
    embedded: Engine,
) -> None:
    for statement in (
        "PRAGMA table_info(bed)",
        "PRAGMA foreign_key_list(plant)",
        "SELECT * FROM pragma_table_info('bed')",
    ):
        assert rows(embedded, statement)
    do(embedded, "PRAGMA foreign_keys = ON")
    refused(embedded, "INSERT INTO plant VALUES (9, 77, 'x', 1)")
    embedded.open("garden_1")
    assert rows(embedded, "PRAGMA foreign_keys") == [(0,)]


def test_values_come_as_they_are(embedded: Engine) -> None:
    statement = (
        "SELECT NULL, 9223372036854775807, -1.5, 1e999, x'00ff', CAST(x'ff41' AS TEXT), '', 'ü', "
        "'a' || char(0)"
    )
    assert rows(embedded, statement) == [
        (None, 2**63 - 1, -1.5, float("inf"), b"\x00\xff", "\udcffA", "", "ü", "a\0")
    ]


def test_a_function_that_cannot_be_stopped_costs_the_session_only(embedded: Engine) -> None:
    do(embedded, "INSERT INTO bed VALUES (7, 'kept')")
    began = time.monotonic()
    answer = ask(
        embedded, "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4000000)) || '1')", seconds=0.2
    )
    assert time.monotonic() - began < 20
    assert (answer.timed_out, answer.lost) == (True, True)
    assert rows(embedded, "SELECT COUNT(*) FROM bed WHERE id = 7") == [(1,)]
    embedded.open("garden_1")
    assert rows(embedded, "SELECT COUNT(*) FROM bed WHERE id = 7") == [(0,)]


def test_sqlite_files_are_loaded_as_they_are_and_a_cut_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "nested").mkdir()
    for file in (
        tmp_path / "flat.db",
        tmp_path / "nested" / "nested.sqlite",
        tmp_path / "cut.sqlite",
    ):
        connection = sqlite3.connect(file)
        assert connection.execute("PRAGMA journal_mode = WAL").fetchall() == [("wal",)]
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 50,)] * 3000)
        connection.commit()
        connection.close()
    with (tmp_path / "cut.sqlite").open("r+b") as cut:
        cut.truncate(9000)
    content = read_databases(tmp_path)
    assert content.names == ("cut", "flat", "nested")
    with make("sqlite", content) as engine:
        with pytest.raises(
            DataError, match="the database cut cannot be read: database disk image is malformed"
        ):
            engine.open("cut")
        assert "the database cut cannot be read" in str(engine.run_gold("cut", "SELECT 1").error)
        for name in ("flat", "nested"):
            engine.open(name)
            do(engine, "DELETE FROM t")
            engine.open(name)
            assert rows(engine, "SELECT COUNT(*) FROM t") == [(3000,)]


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"[",
        b"[1, 2]",
        b"{}",
        b'"text"',
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"error": "x"}',
        b'{"affected": null}',
        b'{"columns": [0], "rows": [], "cut": false}',
        b'{"columns": ["a"], "rows": [[1, 2]], "cut": false}',
        b'{"columns": ["a"], "rows": ["x"], "cut": false}',
        b'{"columns": ["a"], "rows": [[[1]]], "cut": false}',
        b'{"columns": ["a"], "rows": [[{"b": "z"}]], "cut": false}',
        b'{"columns": ["a"], "rows": [[{"b": 1}]], "cut": false}',
    ],
    ids=lambda reply: str(reply[:30]),
)
def test_what_is_no_answer_is_an_error(reply: bytes) -> None:
    """As a server may give that was taken over."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Thread(target=theirs.sendall, args=(reply + b"\n",)).start()
        with pytest.raises(ValueError, match=r".+"):
            read_answer(exchange(ours, {}, 5))


@pytest.mark.slow
def test_several_statements_take_no_longer_together_than_one_may(embedded: Engine) -> None:
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
    answer = run_in_turn(embedded.run, f"{count} SELECT COUNT(*) FROM n;" * 200, seconds=0.5)
    assert answer.timed_out
    embedded.open("garden_1")
    answer = run_in_turn(embedded.run, "SELECT 1; SELECT 2", seconds=60)
    assert answer.table is not None
    assert answer.table.rows == ((2,),)


def test_a_server_that_reaches_its_memory_was_led_there(sources: Databases) -> None:
    """However the episode would go another time: that may depend on the clock."""
    with make("sqlite", sources) as engine:
        engine.open("garden_1")
        do(
            engine,
            "CREATE TEMP TABLE t AS SELECT zeroblob(10000000) "
            f"FROM ({' UNION ALL '.join(['SELECT 1'] * 68)})",
        )
        with pytest.raises(SandboxDied) as caught:
            ask(engine, f"SELECT 1 /*{'x' * (16_000_000)}*/")
        assert caught.value.by_agent
        engine.open("garden_1")
        assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_one_bad_file_hides_no_other_databases(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "good.sqlite")) as db:
        db.execute("CREATE TABLE t (a)")
    (tmp_path / "text.sqlite").write_text("no database")
    (tmp_path / "link.sqlite").symlink_to("nowhere")
    (tmp_path / "folder").symlink_to("folder")
    with pytest.warns(EntryLeftOut) as named:
        databases = read_databases(tmp_path)
    assert databases.names == ("good",)
    assert sorted(databases.left_out) == ["folder", "link", "text"]
    reasons = "\n".join(str(warning.message) for warning in named)
    for reason in (
        "text.sqlite is not a SQ",
        "link.sqlite: cannot be read",
        "folder: Too many levels",
    ):
        assert f"left out: {tmp_path / reason}" in reasons
    with make("sqlite", databases) as engine:  # a task of another database is not played on it
        assert database(Task("a", "", "", {"db_id": "good"}), engine) == "good"
        with pytest.raises(DataError, match="there is no database 'text'"):
            database(Task("b", "", "", {"db_id": "text"}), engine)
    with pytest.raises(DataError, match="is not a SQLite database"):
        read_databases(tmp_path / "text.sqlite")
