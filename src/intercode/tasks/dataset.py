"""`open_data` finds a data set wherever it is, and returns its tasks with the trees and scripts that belong to them.

A data folder, be it the user's, a starter set of this package or a fetched one, is laid out like this; only the task
file must be there:

    tasks.jsonl        or .json, .csv, .parquet
    tree/              or tree.tar: what is placed at / before an episode starts
    setup.sh           runs once, after that, inside the sandbox
    second/            or second.tar, and second.sh: the second contents for tasks marked `general`
    databases/         or dump.sql: what SQL tasks are played on
    assets/            CTF tasks: ID/ or ID.tar, the files of one task each
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.tasks.catalog import downloaded, find
from intercode.tasks.loader import SUFFIXES, Preprocess, load_tasks
from intercode.types import Task

STARTER = Path(__file__).with_name("starter")
_USUAL = ("gold",)
How = Mapping[str, Any]
"""How a task file is read: the keyword arguments of `load_tasks`."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Tasks and what they are played on. `digest` is the hex SHA-256 of the task file's bytes, `limit` or not, and of the
    names of the gold fields if they are not the usual one."""

    name: str
    tasks: tuple[Task, ...]
    digest: str
    tree: Path | None = None
    setup: Path | None = None
    second_tree: Path | None = None
    second_setup: Path | None = None
    databases: Path | None = None
    assets: Path | None = None
    file: Path | None = None
    """The task file."""


def open_data(
    source: str | Path | None,
    *,
    env: str,
    limit: int | None = None,
    preprocess: Preprocess | None = None,
    gold_fields: Sequence[str] | None = None,
    cache: Path | None = None,
    catalog: Path | None = None,
) -> DataSet:
    """The data set that `source` names.

    None is the starter set of `env`; an existing path is a data folder, or a task file, which comes alone: no tree or
    script beside it is looked at. Any other text is the name of a data set in the catalog, fetched before with
    `intercode data get NAME`; nothing is fetched here.
    Raises `UsageError` when there is no such data or it cannot be read, `DataError` when it is malformed.
    """
    how = {"limit": limit, "preprocess": preprocess, "gold_fields": tuple(gold_fields or _USUAL)}
    if source is None:
        if not (STARTER / env).is_dir():
            raise UsageError(f"no starter tasks are shipped for {env!r}; name your own with --data FILE or --data DIR")
        return _open_folder(STARTER / env, f"{env}-starter", how)
    path = Path(source)
    with _entering(path):
        is_folder, exists = path.is_dir(), path.exists()
    if is_folder:
        return _open_folder(path, path.resolve().name, how)
    if exists:
        return _open_file(path, path.stem, how)
    name = str(source)
    if (theirs := find(name, catalog).env) != env:
        raise UsageError(f"{name}: these tasks are for {theirs!r}, not for {env!r}")
    folder = downloaded(name, cache=cache, catalog=catalog)
    if folder is None:
        raise UsageError(f"{name}: is not here yet, or not all of it; run `intercode data get {name}` first")
    return _open_folder(folder, name, how)


def _open_folder(folder: Path, name: str, how: How) -> DataSet:
    with _entering(folder):
        files = [folder / f"tasks{suffix}" for suffix in SUFFIXES if (folder / f"tasks{suffix}").exists()]
    if not files:
        raise UsageError(f"{folder}: has no task file; call it tasks.jsonl (or {', '.join(SUFFIXES)})")
    if len(files) > 1:
        raise DataError(f"{folder}: has {' and '.join(file.name for file in files)}; keep one of them")
    plain = _open_file(files[0], name, how)
    return replace(
        plain,
        tree=_first(folder, "tree", "tree.tar"),
        setup=_first(folder, "setup.sh"),
        second_tree=_first(folder, "second", "second.tar"),
        second_setup=_first(folder, "second.sh"),
        databases=_first(folder, "databases", "dump.sql"),
        assets=_first(folder, "assets"),
    )


@contextmanager
def _entering(path: Path) -> Iterator[None]:
    """Of a folder that may not be entered it cannot even be told what is in it."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def _open_file(path: Path, name: str, how: How) -> DataSet:
    tasks = tuple(load_tasks(path, **how))
    fields = b"" if how["gold_fields"] == _USUAL else repr(how["gold_fields"]).encode()
    return DataSet(name, tasks, hashlib.sha256(path.read_bytes() + fields).hexdigest(), file=path)


def _first(folder: Path, *names: str) -> Path | None:
    """The first of these that exists in the folder."""
    return next((folder / name for name in names if (folder / name).exists()), None)
