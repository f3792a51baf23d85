"""A server of the user's own: a real one, on the loopback interface, started for these tests."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import ask, refused, rows
from families import wait_until
from host_mariadb import free_port, running

from intercode.engines import Caps, Engine, engine_maker
from intercode.engines.session import Session
from intercode.engines.url import UrlEngine, reads
from intercode.errors import SandboxError, SandboxUnavailable, UsageError

WRITES = [
    "DELETE FROM shop.item",
    "INSERT INTO item VALUES (9, 'x')",
    "CREATE TABLE t (a INT)",
    "DROP DATABASE shop",
    "COMMIT",
    "START TRANSACTION READ WRITE",
    "SET PASSWORD = PASSWORD('x')",
    "SET GLOBAL max_connections = 5",
    "BEGIN NOT ATOMIC ROLLBACK; DELETE FROM shop.item; END",
    "EXECUTE IMMEDIATE 'DELETE FROM shop.item'",
    "CALL shop.hurt()",
    "SELECT shop.harm()",
    "SELECT NEXTVAL(shop.s)",
    "SELECT 1 INTO OUTFILE '/tmp/intercode-out'",
    "SELECT 1 INTO/**/DUMPFILE '/tmp/intercode-out'",
    "SELECT LOAD_FILE('/etc/passwd')",
    "SELECT `load_file`('/etc/passwd')",
    "SELECT 'a\\' INTO OUTFILE '/tmp/intercode-out' -- '",
    "SELECT 1 # '\n INTO OUTFILE '/tmp/intercode-out'",
    "SELECT 1 /*!50000INTO*/ /*!50000OUTFILE '/tmp/intercode-out'*/",
    "/* SELECT */ DELETE FROM shop.item",
    "/*!50000 DELETE FROM shop.item */",
    "-- SELECT\nDELETE FROM shop.item",
    "WITH c AS (SELECT 1) DELETE FROM shop.item",
    "ANALYZE DELETE FROM shop.item",
    "SHUTDOWN",
    "HANDLER item OPEN",
]
CONTENT = """
CREATE DATABASE shop; USE shop;
CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(9)); INSERT INTO item VALUES (1, 'nail'), (2, 'saw');
CREATE SEQUENCE s;
DELIMITER //
CREATE PROCEDURE hurt() BEGIN COMMIT; DELETE FROM item; END //
CREATE FUNCTION harm() RETURNS INT MODIFIES SQL DATA BEGIN DELETE FROM item; RETURN 1; END //
DELIMITER ;
CREATE USER me@localhost IDENTIFIED BY 'p@ss:w/rd'; GRANT ALL ON *.* TO me@localhost;
CREATE USER shy@localhost; GRANT SELECT ON shop.* TO shy@localhost;
CREATE USER scant@localhost; GRANT SELECT ON shop.* TO scant@localhost; GRANT SHOW DATABASES ON *.* TO scant@localhost;
ALTER USER scant@localhost WITH MAX_QUERIES_PER_HOUR 20;
"""


HIDDEN = "--skip-show-database"
"""From those who have no right to them."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(CONTENT, HIDDEN) as host:
        yield host.port


@pytest.fixture
def url(port: int) -> str:
    return f"mysql://me:p%40ss%3Aw%2Frd@127.0.0.1:{port}/"


@pytest.fixture
def shop(url: str) -> Iterator[Engine]:
    with UrlEngine(url) as engine:
        engine.open("shop")
        yield engine


def test_it_reads(shop: Engine) -> None:
    assert list(shop.databases) == ["shop"]
    assert rows(shop, " /* why */ (SELECT id, name FROM item ORDER BY id)") == [(1, "nail"), (2, "saw")]
    assert rows(shop, "SHOW TABLES")
    assert "nowhere" in refused(shop, "SELECT * FROM nowhere")
    assert "CREATE TABLE `item`" in shop.schema("shop")
    assert (shop.facts()["engine"], shop.facts()["max_rows"]) == ("mariadb", Caps().rows)


@pytest.mark.parametrize("statement", WRITES)
def test_it_never_writes(shop: Engine, statement: str) -> None:
    refused(shop, statement)
    assert rows(shop, "SELECT COUNT(*) FROM item") == [(2,)]
    assert not Path("/tmp/intercode-out").exists()


def test_the_same_account_could_write(port: int) -> None:
    """The positive control: what holds is not the account."""
    sock = socket.create_connection(("127.0.0.1", port))
    session = Session(sock, user="me", password="p@ss:w/rd", db="shop")
    session.query("INSERT INTO item VALUES (3, 'glue')")
    session.query("DELETE FROM item WHERE id = 3")
    session.query("COMMIT")
    session.close()


def test_a_long_statement_is_stopped_and_the_session_lives(shop: Engine) -> None:
    rows(shop, "SELECT @a := 5")
    began = time.monotonic()
    assert ask(shop, "SELECT SLEEP(60)", seconds=0.3).timed_out
    assert time.monotonic() - began < 0.9
    assert rows(shop, "SELECT @a") == [(5,)]
    shop.open("shop")
    assert rows(shop, "SELECT @a") == [(None,)]


def test_golds_and_forks(shop: Engine, url: str) -> None:
    assert shop.run_gold("shop", "SELECT COUNT(*) FROM item").table == ask(shop, "SELECT COUNT(*) FROM item").table
    with shop.fork() as twin:
        assert rows(twin, "SELECT COUNT(*) FROM item") == [(2,)]
    with engine_maker(url, None, caps=Caps(rows=1))() as small:
        small.open("shop")
        table = ask(small, "SELECT id FROM item ORDER BY id").table
        assert table is not None
        assert (table.rows, table.cut) == (((1,),), True)


@pytest.mark.parametrize("url", ["mysql://", "mysql://host", "http://me@host/", "mysql://me@host:port/", "mysql://me@:1/"])
def test_a_bad_url_is_the_callers_fault(url: str) -> None:
    with pytest.raises(UsageError, match="mysql://USER"):
        UrlEngine(url)


def test_a_server_that_is_not_there_is_nobodys_wrong_usage() -> None:
    with pytest.raises(SandboxUnavailable, match="does not answer"):
        UrlEngine(f"mysql://me@127.0.0.1:{free_port()}/")


def test_a_refused_login_and_an_unknown_database_are_the_callers_fault(port: int, shop: Engine) -> None:
    with pytest.raises(UsageError, match="refuses the login"):
        UrlEngine(f"mysql://me:wrong@127.0.0.1:{port}/")
    with pytest.raises(UsageError, match="no database 'mall'"):
        shop.open("mall")


def test_a_server_that_refuses_the_hosts_own_statements_says_so(port: int) -> None:
    with pytest.raises(UsageError, match="refuses SHOW DATABASES: Access denied"):
        UrlEngine(f"mysql://shy@127.0.0.1:{port}/")
    with UrlEngine(f"mysql://scant@127.0.0.1:{port}/") as engine:
        engine.open("shop")
        with pytest.raises(SandboxError, match=r"refuses (START|ROLLBACK).*max_queries_per_hour"):
            assert all(rows(engine, "SELECT 1") for _ in range(20))


@pytest.fixture
def owner(port: int) -> Iterator[Session]:
    session = Session(socket.create_connection(("127.0.0.1", port)), user="me", password="p@ss:w/rd", many=True)
    yield session
    session.close()


def leave(owner: Session, user: str, count: int) -> bool:
    """Whether only so many sessions of a user are left in the end."""
    counted = f"SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{user}'"
    return wait_until(lambda: owner.query(counted) == ((count,),), 5)


def test_an_engine_that_cannot_start_leaves_no_session(port: int, owner: Session) -> None:
    with pytest.raises(UsageError) as caught:
        UrlEngine(f"mysql://shy@127.0.0.1:{port}/")
    assert leave(owner, "shy", 0), caught


def test_a_fork_that_cannot_be_opened_leaves_no_session(url: str, owner: Session) -> None:
    owner.query("CREATE DATABASE mall")
    with UrlEngine(url) as engine:
        engine.open("mall")
        owner.query("DROP DATABASE mall")
        with pytest.raises(UsageError, match="no database 'mall'") as caught:
            engine.fork()
        assert leave(owner, "me", 3), caught


def test_a_closed_engine_does_not_log_in_again(url: str, owner: Session) -> None:
    engine = UrlEngine(url)
    for _ in range(2):
        engine.close()
    for action in (lambda: engine.open("shop"), lambda: engine.run_gold("shop", "SELECT 1"), engine.facts, engine.fork):
        with pytest.raises(UsageError, match="closed"):
            action()
    assert leave(owner, "me", 1)


def test_a_server_that_goes_later_is_no_ones_usage() -> None:
    with running(CONTENT, HIDDEN) as host:
        engine = UrlEngine(f"mysql://me:p%40ss%3Aw%2Frd@127.0.0.1:{host.port}/")
        engine.open("shop")
        host.process.kill()
        host.process.wait(30)
        for action in (
            lambda: engine.run("SELECT 1", seconds=5),
            lambda: engine.run_gold("shop", "SELECT 1"),
            lambda: engine.open("shop"),
            engine.fork,
            engine.facts,
        ):
            with pytest.raises(SandboxError, match="does not answer"):
                action()
        engine.close()


@pytest.mark.parametrize(
    ("statement", "expected"), [("select 1", True), ("selection", False), ("", False), ("((WITH a", True), ("#\nSHOW x", True)]
)
def test_what_begins_as_a_query_is_sent(statement: str, expected: bool) -> None:
    assert reads(statement) is expected


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM item WHERE name LIKE '%load_file%'",
        "SELECT 'outfile' AS o, \"it's a dumpfile\"",
        "SELECT download_files, `into outfile` FROM item",
    ],
)
def test_names_of_files_may_stand_in_strings(statement: str) -> None:
    assert reads(statement)
