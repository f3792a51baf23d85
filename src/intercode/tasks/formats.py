"""Read the records of a file by its suffix, and those of a published data set.

    .jsonl .ndjson      one record per line
    .json               a list of records, an object that maps ids to records, an object with only
                        one list of objects, one record, or one record per line
    .csv .tsv           with a header; an empty cell is an absent field
    .parquet .arrow     with pyarrow
    .sql .tsv .txt      per line a gold, a tab, and its db_id: Spider's and BIRD's gold files
    .nl                 one query per line; the golds are the lines of the .cm file of that name
    all of these + .gz

A data set of a hub (`hf:OWNER/NAME:SPLIT`), or a folder with a copy of one, consists of files in
one of these formats, whose paths name the split.

Left out: encodings other than UTF-8 (with or without BOM), data sets too big for memory, a hub's
scripts, which are code.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.reading import (
    LARGEST,
    decoded,
    files_below,
    open_plain,
    parse_json,
    present,
    read_bytes,
)

Located = Iterator[tuple[str, Any]]
"""Records with their places: ``("line 7", {...})``; an `Unreadable` in place of one that cannot be
read."""
HUB = "hf:"
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
LARGEST_CSV_FIELD = 16 * 2**20
_GOLD_AND_DATABASE = re.compile(r"\s*(?:SELECT|WITH)\s[^\t\n]*\t\w+\s*$", re.I | re.M)
_INSTALL = "pip install huggingface_hub pyarrow"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a record that cannot be read; `why` names its file and place."""

    why: str
    id: str | None = None


def read_file(path: Path, root: Path | None = None) -> Located:
    """Return the records of a file in the folder `root`, or of one that the caller named. Raises
    `UsageError` if that cannot be read at all, and `DataError`, at once or with a record, if its
    content is malformed."""
    if present(path) == "folder":
        raise UsageError(f"{path}: is a folder; name the task file in it")
    reader = READERS.get(suffix_of(path))
    if reader is None:
        usual = f"cannot tell the format by its name; it must end in {', '.join(READERS)}"
        raise UsageError(f"{path}: {_OTHERS.get(suffix_of(path), usual)}")
    return reader(path, root)


def suffix_of(path: Path) -> str:
    """Return the suffix that names the format, in lower case and without `.gz`."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


# ── one reader per format ─────────────────────────────────────────────────────────────────────────


def _read_text(path: Path, root: Path | None) -> str:
    data = read_bytes(path, root, most=LARGEST)
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(LARGEST + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path}: is not a whole gzip file ({error})") from error
        if len(data) > LARGEST:
            raise DataError(f"{path}: has more than {LARGEST >> 20} MiB")
    return decoded(data, path)


def _read_json(path: Path, root: Path | None) -> Located:
    text = _read_text(path, root)
    first, _, more = text.strip().partition("\n")
    if more.lstrip().startswith(first[:1]) and first[-1:] in ("}", "]"):
        yield from _lines(text, path)
        return
    records = parse_json(text, path) if text.strip() else []
    if isinstance(records, dict):
        if _are_objects(records.values()):
            records = [{"id": id, **record} for id, record in records.items()]
        else:
            lists = [
                rows
                for rows in records.values()
                if isinstance(rows, list) and rows and _are_objects(rows)
            ]
            is_record = len(lists) != 1 or {"query", "gold"} & records.keys()
            records = [records] if is_record else lists[0]
    if not isinstance(records, list):
        raise DataError(
            f"{path}: expected a list of records, found {kind_of(records)}; put the records in [ ]"
        )
    for number, record in enumerate(records, start=1):
        yield f"record {number}", record


def _are_objects(values: Iterable[object]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _read_jsonl(path: Path, root: Path | None) -> Located:
    return _lines(_read_text(path, root), path)


def _lines(text: str, path: Path) -> Located:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", parse_json(line, path, number)
            except DataError as error:
                yield f"line {number}", Unreadable(str(error))


def _read_csv(path: Path, root: Path | None) -> Located:
    # for the whole process; never lowered
    csv.field_size_limit(max(LARGEST_CSV_FIELD, csv.field_size_limit()))
    text = _read_text(path, root)
    delimiter = ","
    header = list[str]()
    if suffix_of(path) == ".tsv":
        delimiter = "\t"
        if _GOLD_AND_DATABASE.match(text):
            yield from _read_golds(path, root)
            return
    for line, row in _rows(text, path, delimiter):
        if row and not header:
            header = _header_of(row, path)
        elif row and len(row) != len(header):
            what = f"{len(row)} fields where the header has {len(header)}"
            why = f"{path}: line {line}: {what}; quote fields that contain commas"
            if "\n" in "".join(row):  # it may have swallowed other records
                raise DataError(why)
            yield f"line {line}", Unreadable(why)
        elif row:
            cells = zip(header, row, strict=True)
            yield f"line {line}", {name: cell for name, cell in cells if cell}


def _header_of(row: Sequence[str], path: Path) -> list[str]:
    """Return the names of the columns. Raises `DataError` if they are not separated, or one is
    named twice."""
    header = list(map(str.strip, row))
    if len(row) == 1:
        for sign, name in _OTHER_SEPARATORS.items():
            if sign in row[0]:
                raise DataError(
                    f"{path}: line 1: the fields are separated by {name}; "
                    "separate them by commas, or by tabs in a .tsv file"
                )
    if len(set(header)) < len(header):
        twice = sorted({name for name in header if header.count(name) > 1})
        raise DataError(
            f"{path}: line 1: the header names {', '.join(map(repr, twice))} more than once"
        )
    return header


def _rows(text: str, path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with their first lines. If one is not CSV, as in `"a "b" c",d`, the quotes
    within cells are read as text from there on."""
    lines = list(io.StringIO(text, newline=""))
    quote_in_cell = re.compile(rf'(?<=[^{delimiter}"\r\n])"(?=[^{delimiter}"\r\n])')
    line, skipped, is_mended = 1, 0, False
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        try:
            for row in rows:
                yield line, row
                line = skipped + rows.line_num + 1
            return
        except csv.Error as error:
            if is_mended:
                raise DataError(
                    f"{path}: line {line}: the record from here on is not CSV ({error}); "
                    "is a quote left open?"
                ) from error
        skipped = line - 1
        is_mended = True
        rest = [quote_in_cell.sub('""', text) for text in lines[skipped:]]
        rows = csv.reader(rest, delimiter=delimiter, strict=True)


def _read_pairs(path: Path, root: Path | None) -> Located:
    golds = path.with_suffix(".cm")
    if not present(golds):
        raise UsageError(f"{path}: holds queries, and there is no {golds.name} with their golds")
    queries = _read_text(path, root).splitlines()
    answers = _read_text(golds, root).splitlines()
    if len(queries) != len(answers):
        raise DataError(f"{path}: {len(queries)} lines, but {golds.name} has {len(answers)}")
    for number, (query, gold) in enumerate(zip(queries, answers, strict=True), start=1):
        yield f"line {number}", {"query": query, "gold": gold}


def _read_golds(path: Path, root: Path | None) -> Located:
    for number, line in enumerate(_read_text(path, root).splitlines(), start=1):
        gold, _, db = line.strip().rpartition("\t")
        if gold:
            query = f"The question of line {number}, which {path.name} does not contain"
            yield f"line {number}", {"query": query, "gold": gold, "db_id": db.strip()}
        elif db:
            why = (
                f"{path}: line {number}: has no tab before the name of a database; in a "
                f"{suffix_of(path)} file, each line is a gold of SQL, a tab, and that name"
            )
            yield f"line {number}", Unreadable(why)


def _read_columns(path: Path, root: Path | None) -> Located:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error
    try:
        with open_plain(path, root) as file:
            if suffix_of(path) == ".arrow":
                rows = pyarrow.ipc.open_stream(file).read_all().to_pylist()
            else:
                rows = pyarrow.parquet.read_table(file, partitioning=None).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: is not a readable {path.suffix[1:]} file ({error})") from error
    for number, record in enumerate(rows, start=1):
        yield f"record {number}", record


READERS: dict[str, Callable[[Path, Path | None], Located]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".sql": _read_golds,
    ".txt": _read_golds,
    ".parquet": _read_columns,
    ".arrow": _read_columns,
    ".nl": _read_pairs,
}
"""The readers of task files by suffix; each yields records with their places in the file."""
SUFFIXES = tuple(suffix for suffix in READERS if suffix != ".txt")
"""The suffixes of a task file that is looked for in a folder, where a .txt may be anything."""
_YAML = "is YAML; write its records as JSON lines, in a .jsonl"
_OTHERS = {
    ".xlsx": "is a spreadsheet; save its sheet as CSV, in a .csv",
    ".yaml": _YAML,
    ".yml": _YAML,
}
"""Sentences about formats that are not read, by suffix: how to convert them."""
_PUBLISHED = (".arrow", ".parquet", ".jsonl", ".ndjson", ".csv", ".tsv", ".json")
"""The formats of data sets as published. The first one that a set has holds its records; its JSON
files then describe it."""


# ── data sets as published ────────────────────────────────────────────────────────────────────────


def published_files(source: str | Path) -> list[Path]:
    """Return the files of `hf:OWNER/NAME`, `hf:OWNER/NAME:SPLIT` or `hf:DIR:SPLIT`, or of the
    folder `source`, fetched if need be.

    SPLIT is a word in the paths of the files, or several with `/` between them:
    `hf:OWNER/NAME:sanitized/test`. Raises `UsageError` if it fits no files, or several sets of
    them.
    """
    is_named = str(source).startswith(HUB)
    name, _, split = str(source).removeprefix(HUB).partition(":")
    folder, pattern, is_fetched = Path(source), "*", False
    if is_named:
        pattern = f"*{split.replace('/', '*')}*"
        is_fetched = present(name) != "folder"
        folder = _fetch(name, pattern) if is_fetched else Path(name)
    paths = [path for path in sorted(files_below(folder)) if present(path) == "file"]
    places = {path.relative_to(folder).as_posix(): path for path in _of_one_format(paths)}
    chosen = [place for place in places if fnmatch(place, pattern)]
    sets = _sets_of(chosen)
    if len(sets) == 1:
        return [places[place] for place in chosen]
    if sets:
        raise UsageError(
            f"{source}: holds {len(sets)} sets of records: {', '.join(sets[:20])}; "
            f"choose one with a word of its path, such as {HUB}{name}:test"
        )
    others = _sets_of(_hub_files(name) if is_fetched and not places else places)
    if others:
        raise UsageError(
            f"{source}: none of its sets of records has {split!r} in its path; "
            f"there are {', '.join(others[:20])}"
        )
    raise UsageError(
        f"{source}: has no task file; call it tasks.jsonl, or give a file's path "
        f"({', '.join(SUFFIXES)})"
    )


def _sets_of(places: Iterable[str]) -> list[str]:
    """Return the names of the sets to which files belong: their paths without numbers of parts."""
    return sorted({re.sub(r"[-_]?\d+(-of-\d+)?", "", place) for place in places})


def _of_one_format(paths: Sequence[Path]) -> list[Path]:
    for suffix in _PUBLISHED:
        of_suffix = [path for path in paths if suffix_of(path) == suffix]
        if of_suffix:
            return of_suffix
    return []


def _fetch(name: str, pattern: str) -> Path:
    """Return the folder of a hub's data set, with those of its files that fit the pattern. Without
    a connection, the hub's client looks into its cache."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise UsageError(f"{HUB}{name}: needs huggingface_hub: {_INSTALL}") from error
    wanted = [f"{pattern}{suffix}{end}" for suffix in _PUBLISHED for end in ("", ".gz")]
    try:
        return Path(
            huggingface_hub.snapshot_download(name, repo_type="dataset", allow_patterns=wanted)
        )
    except (HFValidationError, HfHubHTTPError, OSError) as error:
        raise UsageError(
            f"{HUB}{name}: cannot be fetched ({str(error).strip().partition(chr(10))[0]:.300}); "
            "it is the name of a data set, OWNER/NAME, at $HF_ENDPOINT"
        ) from error


def _hub_files(name: str) -> list[str]:
    """Return the paths of the records of a hub's data set; nothing without a connection."""
    import huggingface_hub

    try:
        files = huggingface_hub.list_repo_files(name, repo_type="dataset")
    except (huggingface_hub.errors.HfHubHTTPError, OSError):
        return []
    return list(map(str, _of_one_format(list(map(Path, files)))))


def kind_of(value: object) -> str:
    """Return the kind of a value, for an error: "a text"."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        type(None): "null",
    }
    return names.get(type(value), f"a value of type {type(value).__name__}")
