"""Results of databases: any statement has an answer, and what cannot be read is said."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
from fuzzing import Attempt, Target
from hypothesis import strategies as st
from orchard import orchard_databases, skip_unless_there
from shapes import DATA, damaged, records

from intercode.envs.sql.compare import free, sql_exact
from intercode.envs.sql.engines import engine_maker
from intercode.envs.sql.engines.embedded import exchange, read_answer
from intercode.errors import IntercodeError

pytestmark = pytest.mark.slow

_NUMBER = st.one_of(
    st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False)
)
_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_STORED = st.one_of(st.none(), _NUMBER, _TEXT, st.binary(max_size=8))


def _rectangle(
    values: st.SearchStrategy[Any], most: int = 5
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.tuples(*[values] * width), max_size=most)
    )


# -- an engine that is asked anything --------------------------------------------------------------


@contextmanager
def _engine(name: str) -> Iterator[Attempt]:
    skip_unless_there(name)
    with engine_maker(name, orchard_databases())() as engine:

        def attempt(statement: str) -> None:
            engine.open("orchard")
            answer = engine.run(statement, seconds=5)
            assert answer.table is not None or answer.error is not None or answer.affected >= -1
            if answer.table is not None:
                assert all(len(row) == len(answer.table.columns) for row in answer.table.rows)
                assert (
                    sql_exact(answer.table, answer.table, free(answer.table)).success
                    or answer.table.cut
                )

        yield attempt


_WORDS = (
    "SELECT * FROM tree WHERE id ( ) , ' \" ; -- /* */ 1 0 NULL kind planted UNION ALL ORDER BY "
    "LIMIT GROUP COUNT INSERT INTO VALUES DELETE UPDATE SET = < AS x'00' 1e999 CAST TEXT BLOB "
    "HAVING JOIN ON WITH RECURSIVE BEGIN COMMIT CREATE TABLE \\ é CURRENT_DATE DATE "
    "9223372036854775808 -1 USE DROP ? % : @a zeroblob randomblob char 0xFF"
)
_STATEMENTS = st.one_of(
    st.lists(st.sampled_from(_WORDS.split(" ")), max_size=12).map(" ".join),
    st.text(st.characters(exclude_characters="\0"), max_size=12),
)


# -- a server that was taken over ------------------------------------------------------------------


def _hear(replies: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with theirs, closing(ours):
        theirs.sendall(b"".join(replies))
        theirs.shutdown(socket.SHUT_WR)
        try:
            said = read_answer(exchange(ours, {}, 5))
        except (ValueError, EOFError, OSError, IntercodeError):
            return
        assert said.table is None or all(
            len(row) == len(said.table.columns) for row in said.table.rows
        )
        assert said.error is None or isinstance(said.error, str)
        assert isinstance(said.affected, int)


def _line_of(data: object) -> bytes:
    return json.dumps(data, default=lambda value: {"b": value.hex()}).encode() + b"\n"


_REPLIES = st.one_of(
    records(
        "error",
        columns=st.lists(_TEXT, max_size=3),
        cut=st.booleans(),
        affected=st.integers(),
        late=st.booleans(),
    ),
    records(
        "columns", rows=_rectangle(_STORED), columns=st.lists(_TEXT, max_size=3), cut=st.booleans()
    ),
    DATA,
).map(_line_of)
_LINES = st.lists(st.one_of(_REPLIES, damaged(_REPLIES)), max_size=2)


TARGETS = [
    Target("the answers of an SQLite server", _LINES, lambda: nullcontext(_hear), quick=100),
    Target("an SQLite engine", _STATEMENTS, partial(_engine, "sqlite"), quick=40),
    Target("a MariaDB engine", _STATEMENTS, partial(_engine, "mariadb"), quick=20),
]
