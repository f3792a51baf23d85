"""What an agent may try on MariaDB, and what is left of it; more of it is in `redteam/sql.py`,
with positive controls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import ask, do, gold, make, refused, rows

from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import Databases, Engine
from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode.errors import UsageError

DENIED = [
    "USE vault",
    "CREATE DATABASE other",
    "DROP DATABASE vault",
    "GRANT ALL ON garden_1.* TO mallory",
    "ALTER USER gold@localhost IDENTIFIED BY ''",
    "SET GLOBAL max_connections = 1",
    "FLUSH TABLES WITH READ LOCK",
    "SHUTDOWN",
    "INSTALL SONAME 'ha_federatedx'",
    "CREATE FUNCTION sys_exec RETURNS INT SONAME 'udf.so'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'localhost')",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE bed",
    "SELECT 1 INTO DUMPFILE '/srv/exchange/out'",
    "KILL 1",
    "CREATE DEFINER = root@localhost VIEW v AS SELECT * FROM mysql.user",
    "CREATE DEFINER = gold@localhost PROCEDURE p() SELECT * FROM vault.secret",
]
HIDDEN = [
    "SELECT LOAD_FILE('/etc/passwd')",
    "SELECT COUNT(*) > 0 FROM information_schema.schemata WHERE schema_name IN ('vault', 'mysql')",
    "SELECT COUNT(*) > 1 FROM information_schema.processlist",
    "SELECT COUNT(*) > 0 FROM information_schema.user_privileges WHERE grantee LIKE '%root%'",
]
WRITES = [
    ("CREATE TRIGGER t BEFORE INSERT ON bed FOR EACH ROW SET NEW.name = 'x'",),
    ("CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO DELETE FROM plant",),
    ("CREATE TABLE m (a INT) ENGINE=MyISAM", "INSERT INTO m VALUES (1)"),
    ("TRUNCATE TABLE plant",),
    ("DROP DATABASE garden_1", "CREATE DATABASE garden_1"),
    ("XA START 'x'", "SELECT * FROM plant FOR UPDATE", "XA END 'x'", "XA PREPARE 'x'"),
    ("CREATE TABLE t (a INT) DATA DIRECTORY = '/tmp'",),
    ("ANALYZE LOCAL TABLE plant PERSISTENT FOR ALL",),
    ("BEGIN", "INSERT INTO plant (id, bed_id, name) VALUES (99, 1, 'a')", "ROLLBACK"),
    (
        "XA START 'deal', 'branch', 2",
        "DELETE FROM plant",
        "XA END 'deal', 'branch', 2",
        "XA PREPARE 'deal', 'branch', 2",
    ),
]
CLEAN = [
    ("SELECT * FROM bed",),
    ("BEGIN", "SELECT * FROM bed FOR UPDATE", "COMMIT"),
    ("DO GET_LOCK('x', 1)",),
    ("SET @a = 1, sql_mode = ''",),
    ("DESCRIBE bed",),
    ("WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",),
    ("DELETE FROM plant WHERE id = 1000",),
    ("LOCK TABLES bed READ",),
    ("PREPARE s FROM 'SELECT 1'",),
]


def written(engine: Engine) -> bool:
    """Whether the engine takes the open database for written."""
    assert isinstance(engine, MariadbEngine)
    return engine._count() != engine._count_at_open


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Databases of awkward names, and one whose script is a statement beyond what servers take by
    default."""
    folder = tmp_path_factory.mktemp("odd")
    lines = ", ".join(f"({number}, '{number:01000d}')" for number in range(17_000))
    (folder / "long.sql").write_text(
        f"CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES {lines};"
    )
    for name in ("a_b", "axb", "a`b_1"):
        (folder / f"{name}.sql").write_text(
            "CREATE TABLE `c``d` (a INT); INSERT INTO `c``d` VALUES (1);"
        )
    with make("mariadb", read_databases(folder)) as engine:
        yield engine


@pytest.mark.parametrize("statement", DENIED)
def test_what_is_beyond_the_database_is_denied(mariadb: Engine, statement: str) -> None:
    refused(mariadb, statement)
    assert rows(mariadb, "SELECT COUNT(*) FROM plant") == [(3,)]


def test_what_is_beyond_the_database_is_hidden_from_the_agent_and_not_from_the_referee(
    mariadb: Engine,
) -> None:
    for statement in HIDDEN:
        assert rows(mariadb, statement)[0][0] in (None, 0), statement
    for statement in ("SELECT * FROM vault.secret", "SELECT COUNT(*) FROM mysql.user"):
        assert gold(mariadb, "garden_1", statement)


def test_names_may_hold_the_quote_and_rights_do_not_reach_a_similar_name(odd: Engine) -> None:
    """In GRANT an underscore stands for any character, unless it is quoted."""
    odd.open("a_b")
    refused(odd, "SELECT * FROM axb.`c``d`")
    odd.open("a`b_1")
    do(odd, "DELETE FROM `c``d`")
    odd.open("a`b_1")
    assert rows(odd, "SELECT a FROM `c``d`") == [(1,)]
    assert "`c``d`" in odd.schema("a`b_1")


@pytest.mark.slow
def test_a_statement_beyond_what_servers_take_by_default_is_loaded(odd: Engine) -> None:
    """And loaded again when it was written."""
    for _ in range(2):
        odd.open("long")
        assert rows(odd, "SELECT COUNT(*) FROM t") == [(17_000,)]
        do(odd, "DELETE FROM t WHERE a > 10")


@pytest.mark.parametrize("statements", WRITES, ids=lambda statements: statements[-1][:30])
def test_a_write_is_noticed_and_undone(mariadb: Engine, statements: tuple[str, ...]) -> None:
    for statement in statements:
        ask(mariadb, statement)
    assert written(mariadb)
    mariadb.open("garden_1")
    assert not written(mariadb)
    assert rows(mariadb, "SELECT COUNT(*) FROM plant") == [(3,)]
    for kind, count in {"routine": 0, "trigger": 0, "event": 0, "table": 3}.items():
        there = f"SELECT COUNT(*) FROM information_schema.{kind}s WHERE {kind}_schema = 'garden_1'"
        assert rows(mariadb, there) == [(count,)]
    do(mariadb, "DELETE FROM plant", "INSERT INTO bed VALUES (3, 'z')")


def test_an_unwritten_database_is_not_rebuilt(mariadb: Engine) -> None:
    made = "SELECT MIN(create_time) FROM information_schema.tables WHERE table_schema = 'garden_1'"
    before = rows(mariadb, made)
    for statements in CLEAN:
        do(mariadb, *statements)
        assert not written(mariadb), statements
        mariadb.open("garden_1")
    assert rows(mariadb, made) == before


def test_a_session_ends_with_the_episode(mariadb: Engine) -> None:
    do(mariadb, "SET NAMES latin1", "SET sql_mode = 'ANSI_QUOTES', @a = 5, max_statement_time = 0")
    do(mariadb, "PREPARE s FROM 'SELECT 1'", "DO GET_LOCK('l', 0)", "LOCK TABLES bed WRITE")
    ask(mariadb, "SELECT 'ü', x'ff', _latin1 x'fc'")
    do(mariadb, "SET character_set_results = utf16")
    ask(mariadb, "SELECT 1.5, DATE '2024-05-06'")  # in an encoding that nobody reads
    mariadb.open("garden_1")
    assert rows(mariadb, "SELECT @a, \"ü\", GET_LOCK('l', 0), @@in_transaction") == [
        (None, "ü", 1, 0)
    ]
    refused(mariadb, "EXECUTE s")


def test_a_session_does_not_tell_how_many_rows_a_gold_has(mariadb: Engine) -> None:
    for _ in range(3):  # the server may give the gold's thread to the next session
        assert gold(mariadb, "garden_1", "SELECT * FROM plant")
        mariadb.open("garden_1")
        assert rows(mariadb, "SELECT FOUND_ROWS()") == [(0,)]
        ask(mariadb, "SELECT * FROM plant")


def test_a_session_does_not_tell_which_tables_a_gold_read(mariadb: Engine) -> None:
    assert gold(mariadb, "garden_1", "SELECT * FROM plant")
    mariadb.open("garden_1")
    names = {row[0] for row in rows(mariadb, "SHOW TABLES")}
    assert {row[1] for row in rows(mariadb, "SHOW OPEN TABLES FROM garden_1")} == names != {"plant"}


def test_a_gold_after_a_write_to_its_database_is_refused(mariadb: Engine) -> None:
    do(mariadb, "DELETE FROM plant")
    with pytest.raises(UsageError, match="before the agent"):
        mariadb.run_gold("garden_1", "SELECT COUNT(*) FROM plant")


@pytest.mark.parametrize(
    "statement",
    ["SELECT SLEEP(60)", "SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(60)", "CALL p()"],
)
def test_a_long_statement_is_stopped_and_the_session_lives(mariadb: Engine, statement: str) -> None:
    handler = (
        "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; WHILE 1 DO DO SLEEP(5); END WHILE"
    )
    do(
        mariadb,
        f"CREATE PROCEDURE p() BEGIN {handler}; END",
        "SET max_statement_time = 0",
        "SET @a = 7",
    )
    began = time.monotonic()
    answer = ask(mariadb, statement, seconds=0.3)
    assert time.monotonic() - began < 20
    assert answer.timed_out
    assert answer.lost == statement.startswith("CALL")
    assert rows(mariadb, "SELECT @a") == [(None if answer.lost else 7,)]


def test_calls_errors_after_some_rows_and_the_end_of_the_own_session_are_answers(
    mariadb: Engine,
) -> None:
    do(mariadb, "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END")
    assert rows(mariadb, "CALL p()") == [(1,)]
    statement = (
        "SELECT n, IF(n = 150, (SELECT a.n FROM seed a WHERE a.n < seed.n), 0) FROM seed ORDER BY n"
    )
    assert "more than 1 row" in refused(mariadb, statement)
    do(mariadb, "SET @a = 1", "INSERT INTO bed VALUES (7, 'kept')")
    assert ask(mariadb, "KILL CONNECTION_ID()").lost
    assert rows(mariadb, "SELECT @a, COUNT(*) FROM bed WHERE id = 7") == [(None, 1)]


@pytest.mark.slow
def test_a_full_disk_ends_with_the_episode(sources: Databases) -> None:
    with make("mariadb", sources) as engine:
        engine.open("garden_1")
        do(engine, "CREATE TABLE b (a LONGBLOB)")
        ask(engine, "INSERT INTO b SELECT REPEAT('a', 15000000) FROM seed", seconds=2)
        engine.open("garden_1")
        assert rows(engine, "SELECT COUNT(*) FROM plant") == [(3,)]
        do(engine, "INSERT INTO bed VALUES (3, 'room again')")


def test_a_gold_with_windows_is_no_write(mariadb: Engine) -> None:
    ranked = "SELECT id, RANK() OVER (ORDER BY height) AS place FROM plant ORDER BY place, id"
    expected = [(3, 1), (1, 2), (2, 3)]
    assert gold(mariadb, "garden_1", ranked) == gold(mariadb, "garden_1", ranked) == expected
    assert not written(mariadb)
    do(mariadb, "DELETE FROM plant WHERE id = 1")
    with pytest.raises(UsageError, match="changed in this episode"):
        gold(mariadb, "garden_1", ranked)


MYSQL_8 = """-- MySQL dump 10.13  Distrib 8.0.30, for Linux (x86_64)
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!50503 SET NAMES utf8mb4 */;
SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5';
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */
  /*!80016 DEFAULT ENCRYPTION='N' */;
USE `shop`;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `line` (
  `id` int NOT NULL AUTO_INCREMENT,
  `what` varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_de_pb_0900_ai_ci DEFAULT NULL,
  `seen` int /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci /*!80016 SECONDARY_ENGINE=rapid */;
LOCK TABLES `line` WRITE;
INSERT INTO `line` VALUES (1,'utf8mb4_0900_ai_ci DEFINER=`a`@`b`',7),(2,'tea',8);
UNLOCK TABLES;
/*!50003 SET collation_connection  = utf8mb4_0900_ai_ci */ ;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`boss`@`%` SQL SECURITY DEFINER */
/*!50001 VIEW `few` AS select `line`.`what` AS `what` from `line` where `line`.`id` = 2 */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
"""


@pytest.mark.parametrize("path", ["shop.sql", "."])
@pytest.mark.parametrize("first_line", ["", "/*M!999999\\- enable the sandbox mode */ \n"])
def test_a_dump_of_mysql_8_and_of_new_mariadb_loads_as_a_file_and_in_a_folder(
    tmp_path: Path, path: str, first_line: str
) -> None:
    (tmp_path / "shop.sql").write_text(first_line + MYSQL_8)
    with make("mariadb", read_databases(tmp_path / path)) as engine:
        engine.open("shop")
        assert rows(engine, "SELECT what FROM line ORDER BY id") == [
            ("utf8mb4_0900_ai_ci DEFINER=`a`@`b`",),
            ("tea",),
        ]
        assert rows(engine, "SELECT * FROM few") == [("tea",)]


def test_a_dump_that_was_renamed_is_a_database_of_the_new_name(tmp_path: Path) -> None:
    for name in ("backup", "shop"):
        (tmp_path / f"{name}.sql").write_text("CREATE TABLE t (a INT); INSERT INTO t VALUES (1);")
        with make("mariadb", read_databases(tmp_path / f"{name}.sql")) as engine:
            engine.open(name)
            assert rows(engine, "SELECT a FROM t") == [(1,)]
