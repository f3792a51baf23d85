"""Rows are read as PyMySQL reads them, whatever their packets look like."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from asking import ask, rows

from intercode.engines import Engine, mariadbd
from intercode.engines.mariadb import MariadbEngine

STATEMENTS = [
    "SELECT n, n * 1.5, n / 7, n * 1e0, CONCAT('row ', n), NULLIF(n % 3, 0) FROM seed ORDER BY n",
    "SELECT REPEAT('x', n) FROM seed WHERE n BETWEEN 100 AND 199 UNION ALL SELECT REPEAT('ü', 60 + n) FROM seed ORDER BY 1",
    "SELECT REPEAT('x', n * 300), n, NULL FROM seed ORDER BY n",
    "SELECT REPEAT('y', 250), REPEAT('y', 251), REPEAT('y', 65535), REPEAT('y', 65536), 1",
    "SELECT DATE '2020-02-29' + INTERVAL n DAY, TIME '838:59:59', TIMESTAMP '2020-01-01 00:00:01.5', x'00ff', b'101' FROM seed",
    "SELECT NULL FROM seed",
    "SELECT '' FROM seed",
    "SELECT a.n, b.n FROM seed a, seed b ORDER BY 1, 2",
    "SELECT 1 WHERE FALSE",
    "SHOW TABLES",
]


def plainly(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    from pymysql.connections import Connection

    assert isinstance(engine, MariadbEngine)
    server = engine._server
    login = {"user": "root", "password": server.password, "database": "garden_1", "charset": "utf8mb4", "ssl_disabled": True}
    with closing(Connection(**login, defer_connect=True)) as connection:
        connection.connect(server.sandbox.connect(mariadbd.SOCKET))
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


@pytest.mark.parametrize("statement", STATEMENTS)
def test_rows_are_those_of_the_driver(mariadb: Engine, statement: str) -> None:
    assert repr(rows(mariadb, statement)) == repr(plainly(mariadb, statement))


def test_an_error_after_some_rows_is_an_answer(mariadb: Engine) -> None:
    statement = "SELECT n, IF(n = 150, (SELECT a.n FROM seed a WHERE a.n < seed.n), 0) FROM seed ORDER BY n"
    assert "more than 1 row" in str(ask(mariadb, statement).error)
    assert rows(mariadb, "SELECT 1") == [(1,)]
