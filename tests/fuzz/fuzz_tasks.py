"""Task files of any content: tasks that can be sent and written down, or an error that blames the data."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fuzzing import Attempt, Target
from hypothesis import strategies as st
from shapes import DATA, SCALARS, damaged, records

from intercode.errors import DataError, UsageError
from intercode.tasks.loader import load_tasks
from intercode.tasks.python_records import python_record

_TEXT = st.text(min_size=1, max_size=10)
_RECORDS = st.lists(
    records(
        "input_output", "problem_id", "extra", query=_TEXT, gold=st.one_of(_TEXT, st.lists(_TEXT, max_size=3)), id=_TEXT,
        general=st.booleans(), question=_TEXT, solutions=st.lists(_TEXT).map(json.dumps),
        starter_code=_TEXT, text=_TEXT, code=_TEXT,
    ),
    max_size=4,
)  # fmt: skip


def _json(data: object) -> bytes:
    return json.dumps(data).encode()


def _lines(rows: list[object]) -> bytes:
    return b"\n".join(map(_json, rows))


def _csv(rows: list[list[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([["id", "query", "gold", "general"][: len(rows[0])] if rows else [], *rows])
    return text.getvalue().encode("utf-8", "surrogatepass")


@contextmanager
def _loader(suffix: str) -> Iterator[Attempt]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"tasks{suffix}"

        def attempt(content: bytes) -> None:
            path.write_bytes(content)
            for preprocess in (None, python_record):
                _load(path, preprocess)

        yield attempt


def _load(path: Path, preprocess: Callable[[dict[str, Any]], dict[str, Any]] | None) -> None:
    try:
        tasks = load_tasks(path, preprocess=preprocess)
    except (DataError, UsageError) as error:
        str(error).encode()  # it can be shown
        return
    assert tasks
    assert len({task.id for task in tasks}) == len(tasks)
    for task in tasks:
        assert all(text.strip() and "\0" not in text for text in (task.id, task.query, task.gold))
        "".join((task.id, task.query, task.gold)).encode()
        assert isinstance(task.general, bool)


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    except (pyarrow.ArrowException, OverflowError, TypeError, UnicodeError):  # no table can hold them
        return b"PAR1"
    return sink.getvalue()


_ROWS = st.lists(st.lists(SCALARS, min_size=2, max_size=4), max_size=4)
_MIXED = st.lists(st.one_of(records("query", "gold", "id"), DATA), max_size=4)
TARGETS = [
    Target("the loader of JSON", damaged(st.one_of(_RECORDS, _MIXED, DATA).map(_json)), partial(_loader, ".json"), quick=100),
    Target("the loader of JSONL", damaged(st.one_of(_RECORDS, _MIXED).map(_lines)), partial(_loader, ".jsonl"), quick=100),
    Target("the loader of CSV", damaged(_ROWS.map(_csv)), partial(_loader, ".csv"), quick=100),
    Target("the loader of Parquet", damaged(_RECORDS.map(_parquet)), partial(_loader, ".parquet"), quick=60),
]
