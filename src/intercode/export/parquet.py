"""Turns as a Parquet table. What has no fixed shape (messages, calls of tools, parts of a score) is a JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import IO

import pyarrow
import pyarrow.parquet

from intercode.export.formats import Row

BATCH = 1000
_JSON = ("ask", "calls", "parts")
_TEXTS = ("env", "agent", "model", "task", "query", "ended", "reply", "thought", "action", "observation", *_JSON)
_NUMBERS = ("epoch", "seed", "turn", "exit_code", "after", "left_out", "prompt_tokens", "completion_tokens")
SCHEMA = pyarrow.schema(
    [(name, pyarrow.string()) for name in _TEXTS]
    + [(name, pyarrow.int64()) for name in _NUMBERS]
    + [(name, pyarrow.float64()) for name in ("reward", "score", "seconds", "cost")]
    + [(name, pyarrow.bool_()) for name in ("success", "timed_out", "truncated_output")]
)


def write(file: IO[bytes], rows: Iterator[Row]) -> None:
    with pyarrow.parquet.ParquetWriter(file, SCHEMA) as writer:
        while batch := [_flat(row) for row in islice(rows, BATCH)]:
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=SCHEMA))


def _flat(row: Row) -> Row:
    return {key: _text(key, value) if key in _TEXTS and value is not None else value for key, value in row.items()}


def _text(key: str, value: object) -> str:
    """As UTF-8 can have it; half of a surrogate pair becomes a question mark."""
    text = json.dumps(value) if key in _JSON else str(value)
    return text.encode("utf-8", "replace").decode()
