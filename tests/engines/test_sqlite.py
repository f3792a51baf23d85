"""What an agent may try on SQLite, and what is left of it."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from asking import ask, do, refused, rows

from intercode.engines import Engine, databases, sqlite
from intercode.engines.sqlite import answer, exchange
from intercode.errors import DataError, SandboxDied, SandboxError

DENIED = [
    "ATTACH '/etc/passwd' AS x",
    "ATTACH ':memory:' AS x",
    "ATTACH '/srv/sqlite/pristine/vault.sqlite' AS x",
    "DETACH main",
    "VACUUM INTO '/tmp/copy'",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = WAL",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA user_version = 7",
    "PRAGMA trusted_schema = 1",
    "PRAGMA mmap_size = 1",
    "PRAGMA data_store_directory = '/'",
    "SELECT fts3_tokenizer('simple')",
    "UPDATE sqlite_master SET sql = 'x'",
]
TOLD = [
    "PRAGMA table_info(bed)",
    "PRAGMA foreign_key_list(plant)",
    "PRAGMA table_list",
    "SELECT * FROM pragma_table_info('bed')",
]


@pytest.mark.parametrize("statement", DENIED)
def test_what_is_beyond_the_database_is_denied(embedded: Engine, statement: str) -> None:
    refused(embedded, statement)
    assert rows(embedded, "SELECT COUNT(*) FROM plant") == [(3,)]


@pytest.mark.parametrize(
    "statement", [s for s in DENIED if s.startswith(("ATTACH", "PRAGMA writable", "PRAGMA user", "VACUUM"))]
)
def test_without_the_authorizer_it_would_go_through(statement: str, tmp_path: Path) -> None:
    """The positive control, on a database of its own."""
    connection = sqlite3.connect(tmp_path / "own.sqlite", isolation_level=None)
    statement = statement.replace("/etc/passwd", str(tmp_path / "a")).replace("/srv/sqlite/pristine/", f"{tmp_path}/")
    connection.execute(statement.replace("/tmp/copy", str(tmp_path / "b")))
    connection.close()


@pytest.mark.parametrize("statement", TOLD)
def test_what_tells_of_the_schema_is_allowed(embedded: Engine, statement: str) -> None:
    assert rows(embedded, statement)


def test_values_come_as_they_are(embedded: Engine) -> None:
    statement = "SELECT NULL, 9223372036854775807, -1.5, 1e999, x'00ff', CAST(x'ff41' AS TEXT), '', 'ü'"
    assert rows(embedded, statement) == [(None, 2**63 - 1, -1.5, float("inf"), b"\x00\xff", "\udcffA", "", "ü")]


def test_a_value_beyond_the_memory_is_refused(embedded: Engine) -> None:
    refused(embedded, "SELECT length(hex(zeroblob(1000000000)))")
    assert rows(embedded, "SELECT 1") == [(1,)]


def test_a_function_that_cannot_be_stopped_costs_the_session_only(embedded: Engine) -> None:
    do(embedded, "INSERT INTO bed VALUES (7, 'kept')")
    began = time.monotonic()
    answer = ask(embedded, "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4000000)) || '1')", seconds=0.2)
    assert answer.timed_out
    assert time.monotonic() - began < 0.7
    assert answer.lost
    assert rows(embedded, "SELECT COUNT(*) FROM bed WHERE id = 7") == [(1,)]
    embedded.open("garden_1")
    assert rows(embedded, "SELECT COUNT(*) FROM bed WHERE id = 7") == [(0,)]


def test_pragmas_of_the_session_end_with_it(embedded: Engine) -> None:
    do(embedded, "PRAGMA foreign_keys = ON")
    refused(embedded, "INSERT INTO plant VALUES (9, 77, 'x', 1)")
    embedded.open("garden_1")
    assert rows(embedded, "PRAGMA foreign_keys") == [(0,)]


def test_an_unwritten_copy_is_kept_and_a_written_one_is_not(embedded: Engine) -> None:
    assert isinstance(embedded, sqlite.SqliteEngine)
    rows(embedded, "SELECT * FROM bed")
    assert embedded._ask({"op": "open", "db": "garden_1"}, wait=5) == {"made": False}
    do(embedded, "UPDATE bed SET name = name || 'x'")
    assert embedded._ask({"op": "open", "db": "garden_1"}, wait=5) == {"made": True}
    do(embedded, "BEGIN", "DELETE FROM plant", "ROLLBACK")
    assert embedded._ask({"op": "open", "db": "garden_1"}, wait=5) == {"made": False}


def test_sqlite_files_are_loaded_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "nested").mkdir()
    for file in (tmp_path / "flat.db", tmp_path / "nested" / "nested.sqlite"):
        connection = sqlite3.connect(file)
        connection.executescript("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        connection.close()
    content = databases(tmp_path)
    assert content.names == ("flat", "nested")
    with sqlite.SqliteEngine(sqlite.prepare(content), content) as engine:
        for name in content.names:
            engine.open(name)
            do(engine, "DELETE FROM t")
            engine.open(name)
            assert rows(engine, "SELECT COUNT(*) FROM t") == [(2,)]


def test_a_file_that_was_cut_short_is_the_datas_fault_and_named(tmp_path: Path) -> None:
    for name in ("cut", "whole"):
        connection = sqlite3.connect(tmp_path / f"{name}.sqlite")
        connection.executescript("CREATE TABLE t (a TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 50,)] * 3000)
        connection.commit()
        connection.close()
    with (tmp_path / "cut.sqlite").open("r+b") as file:
        file.truncate(9000)
    content = databases(tmp_path)
    with sqlite.SqliteEngine(sqlite.prepare(content), content) as engine:
        with pytest.raises(DataError, match="the database cut cannot be read: database disk image is malformed"):
            engine.open("cut")
        assert "the database cut cannot be read" in str(engine.run_gold("cut", "SELECT 1").error)
        engine.open("whole")
        assert rows(engine, "SELECT COUNT(*) FROM t") == [(3000,)]


def test_a_write_to_a_file_in_wal_mode_is_noticed(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "logged.sqlite")
    assert connection.execute("PRAGMA journal_mode = WAL").fetchall() == [("wal",)]
    connection.executescript("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
    connection.close()
    content = databases(tmp_path)
    with sqlite.SqliteEngine(sqlite.prepare(content), content) as engine:
        engine.open("logged")
        do(engine, "UPDATE t SET a = 7")
        engine.open("logged")
        assert rows(engine, "SELECT a FROM t") == [(1,), (2,)]


def test_an_answer_that_cannot_be_read_is_no_death(own_sqlite: sqlite.SqliteEngine) -> None:
    """The mistake may be the host's own: neither the agent nor the machine is blamed, and the next episode has a new server."""
    for asked in (lambda: ask(own_sqlite, "SELECT 1"), lambda: own_sqlite.run_gold("vault", "SELECT 1"), own_sqlite.facts):
        own_sqlite.open("garden_1")
        own_sqlite._hang_up()
        ours, theirs = socket.socketpair()
        own_sqlite._line = ours
        with theirs:
            theirs.sendall(b"[]\n")
            with pytest.raises(SandboxError, match="cannot be read") as caught:
                asked()
        assert not isinstance(caught.value, SandboxDied)
    own_sqlite.open("garden_1")
    assert rows(own_sqlite, "SELECT COUNT(*) FROM plant") == [(3,)]


@pytest.mark.parametrize(
    "reply",
    [
        b"", b"[", b"[1, 2]", b"{}", b'"text"', b"\xff\xfe", b"[" * 200_000, b'{"error": "x"}', b'{"affected": null}',
        b'{"columns": [0], "rows": [], "cut": false}', b'{"columns": ["a"], "rows": [[1, 2]], "cut": false}',
        b'{"columns": ["a"], "rows": ["x"], "cut": false}', b'{"columns": ["a"], "rows": [[[1]]], "cut": false}',
        b'{"columns": ["a"], "rows": [[{"b": "z"}]], "cut": false}', b'{"columns": ["a"], "rows": [[{"b": 1}]], "cut": false}',
    ],
    ids=lambda reply: str(reply[:30]),
)  # fmt: skip
def test_what_is_no_answer_is_an_error(reply: bytes) -> None:
    """As a server may give that was taken over."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Thread(target=theirs.sendall, args=(reply + b"\n",)).start()
        with pytest.raises(ValueError, match=r".+"):
            answer(exchange(ours, {}, 5))


@pytest.mark.parametrize("drop", [b"", b"x"])
def test_silence_and_drops_end_in_time(drop: bytes) -> None:
    """The whole answer has the time once, however it comes."""
    ours, theirs = socket.socketpair()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.05):
            theirs.sendall(drop)

    dripping = threading.Thread(target=drip)
    dripping.start()
    began = time.monotonic()
    with ours, theirs:
        with pytest.raises(TimeoutError):
            exchange(ours, {}, 0.4)
        assert 0.3 < time.monotonic() - began < 2
        over.set()
        dripping.join()


def test_a_server_that_reaches_its_memory_was_led_there(own_sqlite: sqlite.SqliteEngine) -> None:
    """However the episode would go another time: that may depend on the clock."""
    do(own_sqlite, f"CREATE TEMP TABLE t AS SELECT zeroblob(10000000) FROM ({' UNION ALL '.join(['SELECT 1'] * 68)})")
    with pytest.raises(SandboxDied) as caught:
        ask(own_sqlite, f"SELECT 1 /*{'x' * (16_000_000)}*/")
    assert caught.value.by_agent
    own_sqlite.open("garden_1")
    assert rows(own_sqlite, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_a_server_that_is_killed_from_outside_was_not(own_sqlite: sqlite.SqliteEngine) -> None:
    own_sqlite._sandbox.exec("", argv=["bash", "-c", "kill -9 $(cat /srv/sqlite/pid)"], cwd="/")
    with pytest.raises(SandboxDied) as caught:
        ask(own_sqlite, "SELECT 1")
    assert not caught.value.by_agent


def test_large_results_keep_their_types(embedded: Engine) -> None:
    statement = (
        "SELECT n, CASE WHEN n % 3 THEN n * 0.5 END, "
        "CASE n % 4 WHEN 0 THEN n WHEN 1 THEN 'a' || char(0) WHEN 2 THEN x'00' END, "
        "NULL, 9223372036854775807 - n, '' FROM seed ORDER BY n"
    )
    odd = {0: lambda n: n, 1: lambda n: "a\0", 2: lambda n: b"\0", 3: lambda n: None}
    expected = [(n, n * 0.5 if n % 3 else None, odd[n % 4](n), None, 2**63 - 1 - n, "") for n in range(200)]
    assert repr(rows(embedded, statement)) == repr(expected)


@pytest.mark.slow
def test_a_large_database_made_by_a_script_has_room_as_well(tmp_path: Path, empty_cache: Path) -> None:
    """A script is short, whatever it makes."""
    (tmp_path / "big.sql").write_text("CREATE TABLE t (a BLOB); INSERT INTO t VALUES (zeroblob(540 << 20));")
    content = databases(tmp_path)
    with sqlite.SqliteEngine(sqlite.prepare(content), content) as engine:
        engine.open("big")
        assert rows(engine, "SELECT LENGTH(a) >> 20 FROM t") == [(540,)]
