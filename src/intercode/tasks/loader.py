"""Read task files into `Task`s: JSON (a list of objects), JSONL, CSV and Parquet, by suffix.

    file ─► READERS[suffix] ─► (place, record), … ─► preprocess ─► _to_task ─► Task

Each record needs `query` and `gold`; `id` is optional; every other field goes to `Task.extra` as it
is. Every error names the file, the place in it ("line 7", or "record 3" where there are no lines)
and the field.

Decided here:
- A missing `id` is the record's index in the file, from 0, as in the published logs. Ids are
  unique.
- A gold may be a list of strings; it is joined with ";" (the paper's form of a gold of several
  commands).
- `golds` is a list of alternative golds. If a record has no `gold`, the first of them is the gold.
- Numbers are not accepted for `query` or `gold`, since reading changes 007 and 1.50. Quote them.
- A null field (None, NaN) counts as absent. `general`, which is text in CSV, becomes a bool.
- Records beyond `limit` are not read.

Left out: encodings other than UTF-8 (with or without BOM), compressed files, data sets too big for
memory.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.plugins import describe_error
from intercode.types import Task

Record = dict[str, Any]
Preprocess = Callable[[Record], Record]
Layout = tuple[Sequence[str], Preprocess]
"""A published layout: the fields of its records, and the function that returns a record as one with
`query` and `gold`. The function leaves its argument as it is, and keeps fields that it need not
convert. It raises `DataError` for a record that it cannot read."""
Located = Iterator[tuple[str, Any]]
"""Records with their places: ``("line 7", {...})``."""

LARGEST_CSV_FIELD = 16 * 2**20
_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no", ""}


def load_tasks(
    path: str | Path,
    *,
    limit: int | None = None,
    preprocess: Preprocess | None = None,
    layouts: Sequence[Layout] = (),
    gold_fields: Sequence[str] = ("gold",),
    records: Callable[[Path], Iterable[Record]] | None = None,
) -> list[Task]:
    """Return the tasks of a file, in its order, at most `limit` of them.

    `records` yields the records of a file or folder, in place of the reader that the file's suffix
    chooses.

    `preprocess` gets each raw record and returns the one to use: rename columns, build a gold, and
    the like. A record without `gold` that has all the fields of one of `layouts` is then converted
    by it. `gold_fields` name the fields of that record that hold golds; a record may leave some of
    them empty. Raises `UsageError` when the file cannot be read at all or `preprocess` raises,
    `DataError` when its content is malformed.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    tasks, fields = [], set[str]()
    if not path.exists():
        raise UsageError(f"{path}: no such file")
    for index, (place, record) in enumerate(islice(_located(path, records), limit)):
        where = f"{path}: {place}"
        record = _from_layout(_preprocessed(record, preprocess, where), layouts, where)
        fields |= record.keys()
        tasks.append(_to_task(record, index, where, gold_fields))
    if not tasks:
        raise DataError(f"{path}: holds no records")
    if unknown := [name for name in gold_fields if name not in {*fields, "gold"}]:
        raise UsageError(
            f"{path}: no record has the gold field {unknown[0]!r}; "
            f"records have {', '.join(sorted(fields))}"
        )
    first: dict[str, int] = {}
    for number, task in enumerate(tasks, start=1):
        if (earlier := first.setdefault(task.id, number)) != number:
            raise DataError(
                f"{path}: records {earlier} and {number}, field 'id': both are {task.id!r}; "
                "give each its own, or leave ids out to count from 0"
            )
    return tasks


def _located(path: Path, records: Callable[[Path], Iterable[Record]] | None) -> Located:
    if records is not None:
        return ((f"record {n}", record) for n, record in enumerate(records(path), start=1))
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name the task file in it")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(
            f"{path}: cannot tell the format by its name; it must end in {', '.join(READERS)}"
        )
    return reader(path)


# ── one reader per format ─────────────────────────────────────────────────────────────────────────


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DataError(
            f"{path}: line {line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
        ) from error


def _parse_json(text: str, path: Path, first_line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {first_line + error.lineno - 1}, column {error.colno}"
        raise DataError(
            f"{path}: {place}: is not JSON ({error.msg}); was the file cut short?"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: line {first_line}: JSON that cannot be read ({error})") from error


def _read_json(path: Path) -> Located:
    text = _read_text(path)
    records = _parse_json(text, path) if text.strip() else []
    if not isinstance(records, list):
        raise DataError(
            f"{path}: holds {_kind(records)} where a list of records should be; "
            "put the records in [ ]"
        )
    for number, record in enumerate(records, start=1):
        yield f"record {number}", record


def _read_jsonl(path: Path) -> Located:
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _parse_json(line, path, number)


def _read_csv(path: Path) -> Located:
    # for the whole process; never lowered
    csv.field_size_limit(max(LARGEST_CSV_FIELD, csv.field_size_limit()))
    rows = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    line, header = 1, list[str]()
    try:
        for row in rows:
            if row and not header:
                header = [name.strip() for name in row]
                if twice := sorted({name for name in header if header.count(name) > 1}):
                    raise DataError(
                        f"{path}: line 1: "
                        f"the header names {', '.join(map(repr, twice))} more than once"
                    )
            elif row and len(row) != len(header):
                what = f"{len(row)} fields where the header has {len(header)}"
                raise DataError(f"{path}: line {line}: {what}; quote fields that contain commas")
            elif row:
                yield f"line {line}", dict(zip(header, row, strict=True))
            line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}: line {line}: the record from here on is not CSV ({error}); "
            "is a quote left open?"
        ) from error


def _read_parquet(path: Path) -> Located:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"{path}: reading Parquet needs pyarrow: pip install 'intercode-gym[parquet]'"
        ) from error
    try:
        rows = pyarrow.parquet.read_table(path, partitioning=None).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: is not a readable Parquet file ({error})") from error
    for number, record in enumerate(rows, start=1):
        yield f"record {number}", record


READERS: dict[str, Callable[[Path], Located]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
"""The readers of task files by suffix; each yields records with their places in the file."""
SUFFIXES = tuple(READERS)


# ── one record becomes one task ───────────────────────────────────────────────────────────────────


def _preprocessed(record: Any, preprocess: Preprocess | None, where: str) -> Record:
    if not isinstance(record, dict):
        raise DataError(
            f"{where}: is {_kind(record)} where an object with query and gold should be"
        )
    if preprocess is None:
        return record
    try:
        record = preprocess(record)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    except Exception as error:
        raise UsageError(f"{where}: preprocess raised {describe_error(error)}") from error
    if not isinstance(record, dict):
        raise UsageError(
            f"{where}: preprocess returned {_kind(record)}; it must return the record as a dict"
        )
    return record


def _from_layout(record: Record, layouts: Sequence[Layout], where: str) -> Record:
    for columns, convert in layouts if "gold" not in record else ():
        if record.keys() >= set(columns):
            try:
                return convert(record)
            except DataError as error:
                raise DataError(f"{where}: {error}") from error
    return record


def _to_task(record: Record, index: int, where: str, gold_fields: Sequence[str]) -> Task:
    absent = {
        name
        for name, value in record.items()
        if value is None or (isinstance(value, float) and math.isnan(value))
    }
    fields = {name: value for name, value in record.items() if name not in absent}
    for field in fields.items():
        try:
            json.dumps(field, ensure_ascii=False, skipkeys=True, default=str).encode()
        except UnicodeEncodeError as error:  # such a text can neither be executed nor stored
            raise DataError(
                f"{where}: field {field[0]!r} holds half a surrogate pair; remove it"
            ) from error
    golds = _golds(fields, gold_fields, where)
    if "general" in fields:
        word = str(fields["general"]).strip().lower()
        if word not in _TRUE | _FALSE:
            raise DataError(
                f"{where}: field 'general' is {fields['general']!r}; write true or false"
            )
        fields["general"] = word in _TRUE
    id = fields.pop("id", "")
    if id == "":
        id = str(index)
    return Task(
        id=str(id) if type(id) is int else _text(id, "id", where),
        query=_text(fields.pop("query", None), "query", where),
        gold=golds[0],
        extra=fields,
        golds=golds,
    )


def _golds(fields: Record, names: Sequence[str], where: str) -> tuple[str, ...]:
    """Remove the golds from the fields and return them: the non-empty fields `names`, then the list
    `golds`."""
    more = fields.pop("golds", [])
    named = [(name, fields.pop(name, None)) for name in names]
    if not isinstance(more, list):
        raise DataError(f"{where}: field 'golds' is {_kind(more)}; write a list of golds")
    given = [(name, gold) for name, gold in named if gold not in (None, "")] + [
        ("golds", gold) for gold in more
    ]
    return tuple(
        _text(
            ";".join(_text(part, name, where) for part in gold) if isinstance(gold, list) else gold,
            name,
            where,
        )
        for name, gold in given or named[:1]
    )


def _text(value: Any, field: str, where: str) -> str:
    if value is None:
        raise DataError(f"{where}: field {field!r} is missing; every record needs query and gold")
    if not isinstance(value, str):
        raise DataError(f"{where}: field {field!r} is {_kind(value)}; write it as text, in quotes")
    if not value.strip():
        raise DataError(f"{where}: field {field!r} is empty; every record needs query and gold")
    if "\0" in value:
        raise DataError(
            f"{where}: field {field!r} contains a NUL character, "
            "which no command can carry; remove it"
        )
    return value


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        type(None): "null",
    }
    return names.get(type(value), f"a value of type {type(value).__name__}")
