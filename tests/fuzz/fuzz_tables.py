"""Results of databases: values survive the way from a server, rows equal themselves, and what cannot be read is said."""

from __future__ import annotations

import json
import math
import random
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from fuzzing import Attempt, Target
from hypothesis import strategies as st
from orchard import orchard_databases, skip_unless_there
from shapes import DATA, damaged, records

from intercode.engines import Engine, mariadbd, sqlite
from intercode.engines.base import Answer
from intercode.engines.mariadb import MariadbEngine
from intercode.engines.sqlite import answer, exchange
from intercode.engines.values import Column
from intercode.errors import IntercodeError
from intercode.rewards.exact_sql import free, sql_exact, strict
from intercode.rewards.paper_sql import sql_paper
from intercode.types import Table

_NUMBER = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False))
_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_STORED = st.one_of(st.none(), _NUMBER, _TEXT, st.binary(max_size=8))
_DRIVEN = st.one_of(
    _STORED,
    st.decimals().filter(lambda number: not number.is_snan()),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.booleans(),
    st.floats(),
    st.text(st.characters()),
)


def _rectangle(values: st.SearchStrategy[Any], most: int = 5) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[values] * width), max_size=most))


# -- the comparison -----------------------------------------------------------------------------------------------------


@contextmanager
def _comparison() -> Iterator[Attempt]:
    yield _compare


def _compare(given: tuple[list[tuple[Any, ...]], list[str], int]) -> None:
    rows, names, seed = given
    width = len(rows[0]) if rows else 1
    table = Table(tuple((names * width)[:width]), tuple(rows))
    mixed = Table(table.columns, tuple(random.Random(seed).sample(rows, len(rows))))
    assert sql_exact(table, table, strict(table)).success
    assert sql_exact(mixed, table, free(table)).success
    shorter = Table(table.columns, table.rows[1:])
    for order in (free(table), strict(table)):
        for one in (mixed, shorter, None):
            score = sql_exact(one, table, order)
            assert 0 <= score.reward <= 1
            assert one is not shorter or not rows or not score.success
    assert -1 <= sql_paper(mixed, table).reward <= 1


# -- the way from a server ----------------------------------------------------------------------------------------------


@contextmanager
def _engine(name: str) -> Iterator[Attempt]:
    skip_unless_there(name)
    sources = orchard_databases()
    made: Engine = (
        sqlite.SqliteEngine(sqlite.prepare(sources), sources) if name == "sqlite" else MariadbEngine(mariadbd.prepare(sources))
    )
    with made as engine:

        def attempt(given: tuple[list[tuple[Any, ...]], str]) -> None:
            rows, statement = given
            engine.open("orchard")
            _same(engine, name, rows)
            _any(engine.run(statement, seconds=5))

        yield attempt


def _any(answer: Answer) -> None:
    assert answer.table is not None or answer.error is not None or answer.affected >= -1
    if answer.table is not None:
        assert all(len(row) == len(answer.table.columns) for row in answer.table.rows)
        assert sql_exact(answer.table, answer.table, free(answer.table)).success or answer.table.cut


def _same(engine: Engine, name: str, rows: list[tuple[Any, ...]]) -> None:
    """Rows written as literals come back as they were; MariaDB knows no infinity."""
    for row in rows:
        if name == "mariadb" and any(isinstance(value, float) and math.isinf(value) for value in row):
            continue
        answer = engine.run("SELECT " + ", ".join(_literal(value, name) for value in row), seconds=5)
        assert answer.table is not None, answer.error
        wanted = Table(answer.table.columns, (row,))
        assert sql_exact(answer.table, wanted, strict(wanted)).success, answer.table


def _literal(value: Any, name: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        return f"CAST(x'{value.encode().hex()}' AS {'TEXT' if name == 'sqlite' else 'CHAR CHARACTER SET utf8mb4'})"
    if isinstance(value, float) and math.isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return repr(value)


_WORDS = (
    "SELECT * FROM tree WHERE id ( ) , ' \" ; -- /* */ 1 0 NULL kind planted UNION ALL ORDER BY LIMIT GROUP COUNT INSERT INTO "
    "VALUES DELETE UPDATE SET = < AS x'00' 1e999 CAST TEXT BLOB HAVING JOIN ON WITH RECURSIVE BEGIN COMMIT CREATE TABLE \\ é "
    "CURRENT_DATE DATE 9223372036854775808 -1 USE DROP ? % : @a zeroblob randomblob char 0xFF"
)
_STATEMENTS = st.one_of(
    st.lists(st.sampled_from(_WORDS.split(" ")), max_size=12).map(" ".join),
    st.text(st.characters(exclude_characters="\0"), max_size=12),
)


# -- a server that was taken over ---------------------------------------------------------------------------------------


@contextmanager
def _line() -> Iterator[Attempt]:
    yield _hear


def _hear(replies: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with theirs, closing(ours):
        theirs.sendall(b"".join(replies))
        theirs.shutdown(socket.SHUT_WR)
        try:
            said = answer(exchange(ours, {}, 5))
        except (ValueError, EOFError, OSError, IntercodeError):
            return
        assert said.table is None or all(len(row) == len(said.table.columns) for row in said.table.rows)
        assert said.error is None or isinstance(said.error, str)
        assert isinstance(said.affected, int)


def _line_of(data: object) -> bytes:
    return json.dumps(data, default=lambda value: {"b": value.hex()}).encode() + b"\n"


_REPLIES = st.one_of(
    records("error", columns=st.lists(_TEXT, max_size=3), cut=st.booleans(), affected=st.integers(), late=st.booleans()),
    records("columns", rows=_rectangle(_STORED), columns=st.lists(_TEXT, max_size=3), cut=st.booleans()),
    DATA,
).map(_line_of)
_LINES = st.lists(st.one_of(_REPLIES, damaged(_REPLIES)), max_size=2)


# -- new values for second contents -------------------------------------------------------------------------------------


@contextmanager
def _columns() -> Iterator[Attempt]:
    yield _perturb


def _perturb(given: tuple[list[Any], list[Any], int]) -> None:
    values, literals, seed = given
    chance = random.Random(seed)
    column = Column(values, literals)
    for value in values[:3]:
        column.other(chance, value)
        column.alone(value)
    ends = column.ends()
    for end in ends:
        column.near_end(chance, end)
    if ends:
        column.inner(chance)
    column.at_edges()
    column.unused(chance, set(values))


_KINDS = [
    st.integers(), st.integers(0, 30), st.floats(), st.floats(0, 10),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.dates(), st.datetimes(), _TEXT, st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{1,3})?", fullmatch=True), st.dates().map(str),
    st.datetimes().map(str), st.binary(max_size=4), st.booleans(),
    st.sampled_from([date.max, date.min, datetime.max, datetime.min, timedelta(1), Decimal("1e40")]),
    st.sampled_from(["0000-00-00", "9999-12-31", "0001-01-01"]),
]  # fmt: skip
_COLUMN = st.one_of(
    *[st.lists(st.one_of(st.none(), kind, kind, kind), max_size=12) for kind in _KINDS], st.lists(st.one_of(_STORED, *_KINDS))
)
_LITERALS = st.lists(
    st.one_of(_TEXT, st.integers(0, 30), st.dates().map(str), st.floats(allow_nan=False, allow_infinity=False))
)

TARGETS = [
    Target(
        "the comparison of rows",
        st.tuples(_rectangle(_DRIVEN), st.lists(_TEXT, min_size=1, max_size=4), st.integers()),
        _comparison,
        quick=150,
    ),
    Target(
        "the answers of an SQLite server",
        _LINES,
        _line,
        quick=200,
    ),
    Target("an SQLite engine", st.tuples(_rectangle(_STORED), _STATEMENTS), partial(_engine, "sqlite"), quick=40),
    Target("a MariaDB engine", st.tuples(_rectangle(_STORED), _STATEMENTS), partial(_engine, "mariadb"), quick=20),
    Target(
        "new values of a column",
        st.tuples(_COLUMN, _LITERALS, st.integers()),
        _columns,
        found=(([None, datetime.max], [], 0),),
        quick=150,
    ),
]
