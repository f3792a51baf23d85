"""`open_data` finds a data set and returns its tasks with the trees and scripts that belong to
them.

A data folder (the user's, a starter set of this package, or a fetched one) has this layout; only
the task file is required:

    tasks.jsonl        or .json, .csv, .parquet and others, also with .gz
    tree/              or tree.tar: the files at / before an episode starts
    setup.sh           runs once, after that, inside the sandbox
    second/            or second.tar, and second.sh: the variant data for tasks marked `general`
    databases/         or dump.sql: the databases of SQL tasks
    assets/            ID/ or ID.tar: the files of one CTF task each
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.reading import LARGEST, files_below, present, read_bytes, require_inside
from intercode.tasks.catalog import downloaded, find
from intercode.tasks.formats import HUB, SUFFIXES, published_files, read_file
from intercode.tasks.loader import Layout, Unread, read_tasks
from intercode.types import Task

STARTER = Path(__file__).with_name("starter")


@dataclass(frozen=True, slots=True)
class DataSet:
    """Tasks and the files that belong to them.

    `digest` is the hex SHA-256 of the task file's bytes (of all files, for a folder that a class
    reads itself), whatever the limit, and of the names of its fields where the caller named some.
    """

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
    left_out: tuple[Unread, ...] = ()
    """The tasks whose records cannot be read, and why."""

    @property
    def folder(self) -> Path:
        """The folder of the task file, or of the records that a class reads itself: paths in
        records are relative to it."""
        if self.file is None:
            return Path()
        return self.file if present(self.file) == "folder" else self.file.parent


def open_data(
    source: str | Path | None,
    *,
    env: str,
    split: str | None = None,
    limit: int | None = None,
    layouts: Sequence[Layout] = (),
    gold_fields: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
    **more: Any,
) -> DataSet:
    """Return the data set that `source` names, with the first `limit` tasks of the split `split`.

    None is the starter set of `env`. An existing path is a data folder, or a task file, which is
    used without the trees and scripts in its folder. `hf:OWNER/NAME:SPLIT` is a data set of a hub
    (`published_files`). Any other text names a data set of the catalog, which `intercode data get
    NAME` must have fetched. `records` yields the records of a file or folder in place of the reader
    for its suffix; the other arguments are those of `read_tasks`, and no layout is looked for if
    the fields of query or gold are named. Raises `UsageError` if there is no such data or it cannot
    be read, `DataError` if it is malformed.
    """
    names = names or {}
    options = {
        **more,
        "limit": None if split else limit,
        "layouts": () if gold_fields or "query" in names else layouts,
        "gold_fields": tuple(gold_fields or ("gold",)),
        "names": names,
    }
    data = _open(source, env, options)
    if split:
        data = replace(data, tasks=tuple(in_split(data.tasks, split)[:limit]))
    return data


def _open(source: str | Path | None, env: str, options: dict[str, Any]) -> DataSet:
    if source is None:
        if not present(STARTER / env):
            raise UsageError(
                f"no starter tasks are shipped for {env!r}; "
                "name your own with --data FILE or --data DIR"
            )
        return _open_folder(STARTER / env, f"{env}-starter", options)
    name = str(source)
    if name.startswith(HUB):
        return _open_published(source, name, options)
    path = Path(source)
    kind = present(path)
    if kind == "folder":
        return _open_folder(path, path.resolve().name, options)
    if kind:
        return _read(path, path.stem, [path], options)
    language = find(name).env
    if language != env:
        raise UsageError(f"{name}: these tasks are for {language!r}, not for {env!r}")
    folder = downloaded(name)
    if folder is None:
        raise UsageError(
            f"{name}: is not downloaded, or not all of it; run `intercode data get {name}` first"
        )
    return _open_folder(folder, name, options)


def _open_folder(folder: Path, name: str, options: dict[str, Any]) -> DataSet:
    def first(*names: str) -> Path | None:
        for place in map(folder.joinpath, names):
            if present(place):
                require_inside(place, folder)
                return place
        return None

    files = [folder]
    if not options.get("records"):
        names = [f"tasks{suffix}{end}" for suffix in SUFFIXES for end in ("", ".gz")]
        files = list(filter(present, map(folder.joinpath, names)))
    if not files:
        return _open_published(folder, name, options)
    if len(files) > 1:
        raise DataError(
            f"{folder}: has {' and '.join(file.name for file in files)}; keep one of them"
        )
    return replace(
        _read(files[0], name, files, {**options, "root": folder}),
        tree=first("tree", "tree.tar"),
        setup=first("setup.sh"),
        second_tree=first("second", "second.tar"),
        second_setup=first("second.sh"),
        databases=first("databases", "dump.sql"),
        assets=first("assets"),
    )


def _open_published(source: str | Path, name: str, options: dict[str, Any]) -> DataSet:
    """Open the data set that is published at a hub, or a folder with a copy of it."""
    files = published_files(source)
    root = Path(os.path.commonpath([file.parent for file in files]))
    records = (record for file in files for _, record in read_file(file, root))
    path = root
    if len(files) == 1:
        path = files[0]
    return _read(path, name, files, {**options, "root": root, "records": lambda _: records})


def _read(path: Path, name: str, files: Sequence[Path], options: dict[str, Any]) -> DataSet:
    """Return the data set of the records at a path, whose content is in `files`."""
    tasks, unread = read_tasks(path, **options)
    state = hashlib.sha256()
    for file in files:
        for piece in _content(file, options.get("root")):
            state.update(piece)
    if options["gold_fields"] != ("gold",):
        state.update(repr(options["gold_fields"]).encode())
    if options["names"]:
        state.update(repr(sorted(options["names"].items())).encode())
    return DataSet(name, tuple(tasks), state.hexdigest(), file=files[0], left_out=tuple(unread))


def _content(path: Path, root: Path | None) -> Iterator[bytes]:
    """Yield the bytes of a file, or the names and bytes of all files in a folder."""
    if present(path) == "file":
        yield read_bytes(path, root, most=LARGEST)
        return
    for file in sorted(files_below(path)):
        yield str(file.relative_to(path)).encode() + b"\0"
        with suppress(DataError):  # a link that leads out, a pipe
            yield read_bytes(file, path, most=LARGEST)


def in_split(tasks: Sequence[Task], split: str) -> list[Task]:
    """Return the tasks of a split. Raises `UsageError`, which lists the existing splits, if there
    are none."""
    chosen = [task for task in tasks if task.split == split]
    if not chosen:
        splits = sorted({task.split for task in tasks if task.split})
        there = "no task has a field `split`"
        if splits:
            there = f"there are {', '.join(splits)}"
        raise UsageError(f"no task has the split {split!r}; {there}")
    return chosen
