"""Runs as data for others: `export_run` writes one file, an episode at a time. `formats.py` says what its rows are."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Generic, TypeVar

from intercode.errors import StoreError, UsageError
from intercode.export.formats import Row, chat_rows, first_system_entry, sft_rows, turn_rows
from intercode.store import stream_run
from intercode.types import Episode

Item = TypeVar("Item")

ROWS = {"sft": sft_rows, "chat": chat_rows, "jsonl": turn_rows, "parquet": turn_rows}


def export_run(
    run: str | Path, form: str, *, only: str = "all", output: str | Path | None = None, force: bool = False
) -> tuple[int, int]:
    """Write the episodes of `run` that have a result to `output`, or to stdout; how many episodes and rows these are.

    A file is there whole or not at all; pipes and devices are written as it goes. The first system's form has the first
    epoch only, as it knew no other. Raises `UsageError` if there is nothing to export, or the file exists and is not to be
    replaced; `StoreError` if the run cannot be read or the output not be written.
    """
    config, every = stream_run(run)
    chosen = _Counted(episode for episode in every if _wanted(episode, only, config.get("agent"), form))
    if form == "intercode":
        rows, write = _Counted(first_system_entry(config, episode) for episode in chosen), _write_object
    else:
        rows = _Counted(row for episode in chosen for row in ROWS[form](config, episode))
        write = _write_parquet if form == "parquet" else _write_lines
    with _target(output, form, force) as file:
        write(file, rows)
        if not rows.count:
            raise UsageError(f"{run} has no episode with a result that is to be exported (--only {only})")
    return chosen.count, rows.count


def _wanted(episode: Episode, only: str, agent: object, form: str) -> bool:
    if episode.reward is None or (form == "intercode" and episode.epoch):
        return False
    return {"all": True, "successful": episode.success, "human": agent == "human"}[only]


class _Counted(Generic[Item]):
    """What passes by, counted."""

    def __init__(self, items: Iterator[Item]) -> None:
        self.count, self._items = 0, items

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            self.count += 1
            yield item


@contextmanager
def _target(output: str | Path | None, form: str, force: bool) -> Iterator[IO[bytes]]:
    if output is None and form == "parquet":
        raise UsageError("Parquet is no text: name a file with --output")
    path = Path("stdout" if output is None else output)
    try:
        if output is None:
            opened: AbstractContextManager[IO[bytes]] = open(sys.stdout.fileno(), "wb", closefd=False)
        elif path.exists() and not path.is_file():
            opened = path.open("wb")
        else:
            opened = _replaced(path, force)
        with opened as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}") from error


@contextmanager
def _replaced(path: Path, force: bool) -> Iterator[IO[bytes]]:
    """A file that comes to be where `path` points once it is whole."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists; add --force to replace it")
    path = path.resolve()
    if path.name in ("episodes.jsonl", "run.json") and path.with_name("run.json").exists():
        raise UsageError(f"{path} is part of a run, which an export would destroy; name another file")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write_lines(file: IO[bytes], rows: Iterable[Row]) -> None:
    for row in rows:
        text = json.dumps(row)
        if "\\ud" in text:  # half of a surrogate pair, which most readers refuse, becomes a question mark
            text = json.dumps(json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace")))
        file.write(text.encode() + b"\n")


def _write_object(file: IO[bytes], rows: Iterable[Row]) -> None:
    """One object with an entry for each row, under its number."""
    for number, row in enumerate(rows):
        file.write(f'{"," if number else "{"}\n"{number}": {json.dumps(row)}'.encode())
    file.write(b"\n}\n")


def _write_parquet(file: IO[bytes], rows: Iterable[Row]) -> None:
    try:
        from intercode.export.parquet import write
    except ImportError as error:
        raise UsageError("writing Parquet needs pyarrow: pip install 'intercode-gym[parquet]'") from error
    write(file, iter(rows))
