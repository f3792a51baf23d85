"""Formats of exported runs. A wing brings one as a value that `doors.FORMATS` names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from intercode.doors import FORMATS, load
from intercode.errors import UsageError, did_you_mean
from intercode.runs.rows import Config, Row
from intercode.types import Episode


def write_lines(file: IO[bytes], config: Config, rows: Iterable[Row]) -> None:
    """Write each row as a line of JSON."""
    for row in rows:
        file.write(as_json(row) + b"\n")


def as_json(row: Row) -> bytes:
    """Return JSON in ASCII. Half of a surrogate pair, which most readers refuse, becomes a question
    mark."""
    text = json.dumps(row)
    if "\\ud" in text:
        text = json.dumps(
            json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        )
    return text.encode()


def one_row(of: Callable[[Config, Episode], Row]) -> Callable[[Config, Episode], Iterable[Row]]:
    """Return a function that gives one row for each episode, as `Format.rows` does."""
    return lambda config, episode: [of(config, episode)]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of exported runs; a function that gives rows is enough: `Format(my_rows)`."""

    rows: Callable[[Config, Episode], Iterable[Row]]  # of an episode
    write: Callable[[Any, Config, Iterator[Row]], None] = write_lines  # to a file or a folder
    conversations: bool = False  # it takes `--as`
    table: bool = False  # it takes `--per`
    unscored: bool = False  # it has episodes without a reward as well
    first_epoch: bool = False  # it has no other epoch
    binary: bool = False  # it is not written to stdout
    folder: str = ""  # what the files of its folder are, such as trajectories; "" for one file
    no_rows: str = ""  # what to say of a run whose episodes have no rows


def format_named(name: str) -> Format:
    """Return the format that `doors.FORMATS` names. Raises `UsageError` if there is none."""
    if name not in FORMATS:
        choice = f"choose one of {', '.join(FORMATS)}{did_you_mean(name, FORMATS)}"
        raise UsageError(f"unknown format {name!r}; {choice}")
    target: Format = load(FORMATS[name][0])
    return target
