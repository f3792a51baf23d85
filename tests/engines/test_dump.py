"""Files with databases, told apart and split."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from intercode.envs.sql.databases import read_databases, split_dump
from intercode.envs.sql.engines import engine_maker
from intercode.envs.sql.text import split_statements
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
USE `a``b`; CREATE TABLE t (a INT);
"""
EMPTY = b"SQLite format 3\0"
REFUSED = [
    ({}, UsageError, "no database"),
    ({"a.sql": b"SELECT 1;", "b.sqlite": b""}, UsageError, "both"),
    ({"deep/other.sqlite": b""}, UsageError, "no database"),
    ({"a.sqlite": EMPTY, "a.db": EMPTY}, UsageError, r"a\.(db|sqlite) .*a\.(db|sqlite) "),
    ({"x.sqlite": EMPTY, "x/x.sqlite": EMPTY}, UsageError, r"x\.sqlite .*x\.sqlite "),
    ({"a.sqlite": b"something else"}, DataError, "is not a SQLite database"),
    ({"b.sql": b"\xff\xfe"}, DataError, "UTF-8"),
    ({"b.sql": b"PGDMP\x01\x0e"}, DataError, "dump of PostgreSQL.* db-to-sqlite"),
    ({"dump": b"--\n-- PostgreSQL database dump\n--\n"}, DataError, "dump of PostgreSQL"),
    (
        {"dump": b"CREATE DATABASE `../x`; USE `../x`; CREATE TABLE t (a INT);"},
        DataError,
        r"'\.\./x' is not a valid",
    ),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \"a;\", `b;`", ["SELECT ';', \"a;\", `b;`"]),
        (r"SELECT 'it\'s; fine'; SELECT 2", [r"SELECT 'it\'s; fine'", "SELECT 2"]),
        ("SELECT 1 -- no; end\n; # none; either\nSELECT 3--2", ["SELECT 1", "SELECT 3--2"]),
        ("/* a; b */ SELECT /*!50000 1; */ 2;", ["SELECT /*!50000 1; */ 2"]),
        (
            "DELIMITER ;;\nBEGIN 1; 2; END ;;\nDELIMITER ;\nSELECT 3;",
            ["BEGIN 1; 2; END", "SELECT 3"],
        ),
        ("SELECT 'unfinished; SELECT 2", ["SELECT 'unfinished", "SELECT 2"]),
        (";;  ;\n-- only this", []),
    ],
)
def test_statements_end_where_the_client_would_end_them(text: str, expected: list[str]) -> None:
    assert list(split_statements(text)) == expected


def test_a_dump_is_split_by_database_and_only_its_schema_is_adapted() -> None:
    found = split_dump(DUMP)
    assert list(found) == ["first", "second", "a`b"]
    first, second = found["first"], found["second"]
    assert first[:4] == (
        (
            "CREATE DATABASE `first` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE "
            "utf8mb4_unicode_520_ci */"
        ),
        "USE `first`",
        "/*!40101 SET NAMES utf8mb4 */",
        "CREATE TABLE `t` (`a` text COLLATE utf8mb4_unicode_520_ci)",
    )
    assert len(first) == 5
    assert "USE nothing" in first[4]
    assert '"utf8mb4_0900_ai_ci"' in first[4]
    assert second == (
        "CREATE DATABASE `second`",
        "USE `second`",
        "/*!40101 SET NAMES utf8mb4 */",
        "CREATE TABLE u (a int)",
    )
    assert found["a`b"][:2] == ("CREATE DATABASE `a``b`", "USE `a``b`")


def test_a_dump_without_a_name_takes_the_files_and_the_digest_follows_content_and_name(
    tmp_path: Path,
) -> None:
    found = []
    for name, text in (
        ("shop", "(a int)"),
        ("shop", "(b int)"),
        ("shop", "(a int)"),
        ("depot", "(a int)"),
    ):
        (tmp_path / f"{name}.sql").write_text(f"CREATE TABLE t {text};")
        found.append(read_databases(tmp_path / f"{name}.sql"))
    assert (found[0].kind, found[0].names, found[3].names) == ("mysql", ("shop",), ("depot",))
    assert found[0].digest == found[2].digest
    assert len({one.digest for one in found}) == 3


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("CREATE TABLE t (a INT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;", "mysql"),
        ("CREATE TABLE `t` (a INT AUTO_INCREMENT PRIMARY KEY);", "mysql"),
        ("-- MySQL dump\n/*!40101 SET NAMES utf8mb4 */;\nCREATE TABLE t (a INT);", "mysql"),
        ("CREATE TABLE t (a INT);\nLOCK TABLES t WRITE;", "mysql"),
        ("CREATE DATABASE other; USE other; CREATE TABLE t (a INT);", "mysql"),
        (
            "-- ENGINE=InnoDB\nCREATE TABLE `t` (engine TEXT, [set] INT); UPDATE t SET engine='x';",
            "portable",
        ),
        (
            (
                "BEGIN; CREATE TABLE t (a TEXT);\nINSERT INTO t VALUES ('\nUSE x;\n"
                "LOCK TABLES t WRITE'); COMMIT;"
            ),
            "portable",
        ),
    ],
)
def test_a_dump_in_a_folder_is_told_from_portable_sql_by_its_statements(
    tmp_path: Path, script: str, kind: str
) -> None:
    (tmp_path / "shop.sql").write_text(script)
    found = read_databases(tmp_path)
    assert (found.kind, found.names) == (kind, ("other" if "other" in script else "shop",))
    if kind == "mysql":
        assert found == read_databases(tmp_path / "shop.sql")
        with pytest.raises(
            UsageError, match=r"are a MySQL dump, and sqlite loads .*: use --engine mariadb"
        ):
            engine_maker("sqlite", found)


def test_two_dumps_of_one_database_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.sql").write_text("CREATE DATABASE x; USE x; CREATE TABLE t (a INT);")
    with pytest.raises(
        UsageError, match=r"b\.sql creates the database x, and so does another file"
    ):
        read_databases(tmp_path)


@pytest.mark.parametrize(("files", "fault", "message"), REFUSED)
def test_a_folder_that_holds_no_databases_is_refused(
    tmp_path: Path, files: dict[str, bytes], fault: type[Exception], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(fault, match=message):
        read_databases(tmp_path / "dump" if "dump" in files else tmp_path)
    with pytest.raises(UsageError, match="no such"):
        read_databases(tmp_path / "nowhere")


def test_changes_that_are_not_in_the_file_yet_are_not_lost(tmp_path: Path) -> None:
    """They are in the log until SQLite folds them in, or in the journal until the transaction
    ends."""
    with closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.executescript("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
        with pytest.raises(DataError, match=r"a\.sqlite-wal holds changes .*wal_checkpoint"):
            read_databases(tmp_path)
        writer.executescript("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE")
        assert (
            read_databases(tmp_path / "a.sqlite").names == read_databases(tmp_path).names == ("a",)
        )
        writer.executescript("PRAGMA cache_size = 1; BEGIN")
        writer.execute(
            "INSERT INTO t SELECT value FROM json_each(?)", (json.dumps(list(range(20_000))),)
        )
        with pytest.raises(DataError, match=r"a\.sqlite-journal holds changes"):
            read_databases(tmp_path)
