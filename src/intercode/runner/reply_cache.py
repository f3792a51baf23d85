"""A cache of the model's replies in unfinished episodes, so that a run that crashed does not pay
twice.

    RUN/underway/TASK-EPOCH.jsonl      one reply per line, with the digest of its question; forced
                                       to disk before it is used

If an episode is played again and asks the same question again, it gets the cached reply, each reply
once and in order: so two draws, and two epochs, never share a reply. `evaluate` removes the file
once episodes.jsonl has the episode with its reward. The digest covers the model's name, the
messages, tools and draw; `RunStore` checks that the other settings are the run's. The digest leaves
out the server's address: a run may continue with a server that has moved.

Only the process that locks the run folder writes here, and only one thread writes each file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from intercode.errors import StoreError
from intercode.runs.store import (
    append_line,
    cut_torn_line,
    json_kinds,
    open_inside,
    read_call,
    read_inside,
    read_sample,
    read_usage,
    require,
    storage_faults,
)
from intercode.types import Reply, Usage

_NOT_KEPT = ("counted", "final")
_REPLY = {name: kind for name, kind in json_kinds(Reply).items() if name not in _NOT_KEPT}
_REPLY["question"] = str


class ReplyCache:
    """The replies of one episode. Raises `StoreError` if the file at `path` cannot be used or holds
    anything else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, deque[Reply]] = defaultdict(deque)
        self._place = path.parent.parent, path.parent.name, path.name
        with storage_faults(path.parent.parent):
            content = read_inside(*self._place) if path.exists() else b""
        lines = content.split(b"\n")[:-1]  # nobody used an incomplete last reply
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                require(record, _REPLY)
                digest = record.pop("question")
                record["usage"] = read_usage(record["usage"])
                record["calls"] = tuple(map(read_call, record["calls"]))
                if record.get("sample"):
                    record["sample"] = read_sample(record["sample"])
                reply = Reply(counted=True, **record)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise StoreError(
                    f"{path}, line {number} is not a reply: {error!r}; delete the file to ask again"
                ) from error
            self._known[digest].append(reply)

    @property
    def usage(self) -> Usage:
        """The usage of the cached replies that no question has taken yet."""
        return sum((reply.usage for reply in chain(*self._known.values())), Usage())

    def take(self, question: Mapping[str, Any]) -> Reply | None:
        """Return the next cached reply to this question; None if none is left."""
        with suppress(KeyError, IndexError):
            return self._known[_digest(question)].popleft()
        return None

    def add(self, question: Mapping[str, Any], reply: Reply) -> None:
        """Write a reply durably. Raises `StoreError` if the disk refuses it."""
        record = {key: value for key, value in asdict(reply).items() if key not in _NOT_KEPT}
        line = json.dumps({"question": _digest(question), **record}).encode() + b"\n"
        with storage_faults(self._path.parent.parent):
            self._path.parent.mkdir(exist_ok=True)
            file = open_inside(*self._place, flags=os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                cut_torn_line(file)
                append_line(file, line)
            finally:
                os.close(file)


def open_cache(run: Path, task: str, epoch: int) -> ReplyCache:
    """Return the cache of an episode in a run folder."""
    return ReplyCache(file_of(run, task, epoch))


def file_of(run: Path, task: str, epoch: int) -> Path:
    """Return the path of an episode's cache. It has a digest of the task's id, which may be any
    text."""
    digest = hashlib.sha256(task.encode(errors="surrogatepass")).hexdigest()
    return run / "underway" / f"{digest[:24]}-{epoch}.jsonl"


def remove_cache(run: Path, task: str, epoch: int) -> None:
    """Remove the cache of a finished episode, if there is one."""
    with storage_faults(run):
        file_of(run, task, epoch).unlink(missing_ok=True)


def remove_finished(run: Path, finished: Iterable[tuple[str, int]]) -> None:
    """Remove the caches of finished episodes (a kill may leave one), and the folder if it is then
    empty.

    Turns that a killed process left there (`live.py`) are removed as well.
    """
    folder = run / "underway"
    if not folder.is_dir():
        return
    for task, epoch in finished:
        remove_cache(run, task, epoch)
    for path in folder.glob("*.turns"):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _digest(question: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True, default=dict).encode()).hexdigest()
