"""Files with databases, told apart and split."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from intercode.engines import databases
from intercode.engines.dump import split, statements
from intercode.errors import DataError, UsageError

DUMP = """-- accounts
CREATE USER 'admin'@'%' IDENTIFIED BY 'x';
GRANT ALL ON *.* TO 'admin'@'%';
/*!40101 SET NAMES utf8mb4 */;
SET @@GLOBAL.GTID_PURGED='x';
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `first` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */;
USE `first`;
CREATE TABLE `t` (`a` text COLLATE utf8mb4_0900_ai_ci);
LOCK TABLES `t` WRITE;
/*!40000 ALTER TABLE `t` DISABLE KEYS */;
INSERT INTO `t` VALUES ('a;b'),('it''s -- fine'),('back\\\\slash\\'; USE nothing;'),("utf8mb4_0900_ai_ci");
UNLOCK TABLES;
USE second;
CREATE TABLE u (a int); # a remark; with a mark
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \"a;\", `b;`", ["SELECT ';', \"a;\", `b;`"]),
        (r"SELECT 'it\'s; fine'; SELECT 2", [r"SELECT 'it\'s; fine'", "SELECT 2"]),
        ("SELECT 1 -- no; end\n; # none; either\nSELECT 3--2", ["SELECT 1", "SELECT 3--2"]),
        ("/* a; b */ SELECT /*!50000 1; */ 2;", ["SELECT /*!50000 1; */ 2"]),
        ("DELIMITER ;;\nBEGIN 1; 2; END ;;\nDELIMITER ;\nSELECT 3;", ["BEGIN 1; 2; END", "SELECT 3"]),
        ("delimiter $$\nA; B$$ C$$\ndelimiter ;\nD", ["A; B", "C", "D"]),
        ("SELECT 'unfinished; SELECT 2", ["SELECT 'unfinished", "SELECT 2"]),
        (";;  ;\n-- only this", []),
    ],
)
def test_statements_end_where_the_client_would_end_them(text: str, expected: list[str]) -> None:
    assert list(statements(text)) == expected


def test_a_dump_is_split_by_database() -> None:
    found = split(DUMP)
    assert list(found) == ["first", "second"]
    first, second = found["first"], found["second"]
    assert first[:3] == (
        "CREATE DATABASE `first` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci */",
        "USE `first`",
        "/*!40101 SET NAMES utf8mb4 */",
    )
    assert len(first) == 5
    assert "USE nothing" in first[4]
    assert second == ("CREATE DATABASE `second`", "USE `second`", "/*!40101 SET NAMES utf8mb4 */", "CREATE TABLE u (a int)")


def test_only_the_schema_is_adapted_never_the_content() -> None:
    first = split(DUMP)["first"]
    assert "utf8mb4_unicode_520_ci" in first[3]
    assert '"utf8mb4_0900_ai_ci"' in first[4]


def test_a_name_may_hold_its_own_quote() -> None:
    found = split("CREATE DATABASE `a``b`; USE `a``b`; CREATE TABLE t (a INT);")
    assert found == {"a`b": ("CREATE DATABASE `a``b`", "USE `a``b`", "CREATE TABLE t (a INT)")}
    assert list(split("CREATE TABLE t (a INT)", "a`b")["a`b"])[:2] == ["CREATE DATABASE `a``b`", "USE `a``b`"]


def test_a_name_that_leads_out_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dump.sql").write_text("CREATE DATABASE `../x`; USE `../x`; CREATE TABLE t (a INT);")
    with pytest.raises(DataError, match=r"'\.\./x' cannot be"):
        databases(tmp_path / "dump.sql")


def test_a_dump_without_a_name_takes_the_files(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text("CREATE TABLE t (a int);")
    content = databases(tmp_path / "shop.sql")
    assert (content.kind, content.names) == ("mysql", ("shop",))


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    digests = set()
    for text in ("CREATE TABLE t (a int);", "CREATE TABLE t (b int);", "CREATE TABLE t (a int);"):
        file.write_text(text)
        digests.add(databases(tmp_path).digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no database"),
        ({"a.sql": b"SELECT 1;", "b.sqlite": b""}, "both"),
        ({"deep/other.sqlite": b""}, "no database"),
    ],
)
def test_a_folder_without_databases_is_the_callers_fault(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        databases(tmp_path)


def test_what_is_no_database_is_the_datas_fault(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"something else")
    with pytest.raises(DataError, match="no SQLite database"):
        databases(tmp_path)
    (tmp_path / "a.sqlite").rename(tmp_path / "kept")
    (tmp_path / "b.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        databases(tmp_path)


@pytest.mark.parametrize(("first", "second"), [("a.sqlite", "a.db"), ("x.sqlite", "x/x.sqlite"), ("b.sql", "B.sql")])
def test_two_files_of_one_name_are_told(tmp_path: Path, first: str, second: str) -> None:
    for name in (first, second):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"SQLite format 3\0")
    with pytest.raises(UsageError, match=rf"{second} .*{first} |{first} .*{second} "):
        databases(tmp_path)


def test_changes_that_are_not_in_the_file_yet_are_not_lost(tmp_path: Path) -> None:
    """They are in the log until SQLite folds them in."""
    file = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.executescript("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        with pytest.raises(DataError, match=r"a\.sqlite-wal holds changes .*wal_checkpoint"):
            databases(tmp_path)
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert databases(tmp_path).names == ("a",)


def test_a_file_amid_a_transaction_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as writer:
        writer.executescript("PRAGMA cache_size = 1; CREATE TABLE t (a INT); BEGIN")
        writer.execute("INSERT INTO t SELECT value FROM json_each(?)", (json.dumps(list(range(20_000))),))
        with pytest.raises(DataError, match=r"a\.sqlite-journal holds changes"):
            databases(tmp_path)
        writer.execute("ROLLBACK")
        assert databases(tmp_path).names == ("a",)


def test_a_path_that_is_not_there_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such"):
        databases(tmp_path / "nowhere")


def test_one_sqlite_file_is_one_database(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "x.sqlite").executescript("CREATE TABLE t (a)").connection.close()
    content = databases(tmp_path / "x.sqlite")
    assert (content.kind, content.names) == ("sqlite", ("x",))
