"""What a model answered in episodes that have not come to their end, so that a run that crashed does not pay twice.

    RUN/underway/TASK-EPOCH.jsonl      one reply a line, with the digest of its question; forced to disk before it is used

An episode that is played again is given the replies to the questions that it asks again, each once and in their order:
so two draws, and two epochs, never share one. The file goes when the episode is in episodes.jsonl with its reward. The
digest covers the model's name, the messages, tools and draw; other settings are the run's own, which `RunStore` holds
together. The address is not in it: a server that comes back elsewhere goes on with the same run.

Only the process that holds the run folder writes here, and one thread in each file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from intercode.errors import StoreError
from intercode.store import CALL, USAGE, append_line, cut_torn_line, require, storage_faults
from intercode.types import Episode, Reply, ToolCall, Usage

_REPLY = {"question": str, "text": str, "usage": dict, "calls": list, "left_out": int}


class ReplyCache:
    """The journal of one episode."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, deque[Reply]] = defaultdict(deque)
        for digest, reply in _read(path):
            self._known[digest].append(reply)

    @property
    def usage(self) -> Usage:
        """Of the replies that were had before, and that no question has taken yet."""
        return sum((reply.usage for replies in self._known.values() for reply in replies), Usage())

    def take(self, question: Mapping[str, Any]) -> Reply | None:
        """The next reply that was had to this question; None when it must be asked."""
        known = self._known.get(_digest(question))
        return known.popleft() if known else None

    def add(self, question: Mapping[str, Any], reply: Reply) -> None:
        record = {key: value for key, value in asdict(reply).items() if key != "counted"}
        line = json.dumps({"question": _digest(question), **record}).encode() + b"\n"
        with storage_faults(self._path.parent.parent):
            self._path.parent.mkdir(exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                cut_torn_line(file)
                append_line(file, line)
            finally:
                os.close(file)

    def forget(self) -> None:
        with storage_faults(self._path.parent.parent):
            self._path.unlink(missing_ok=True)


def notes(run: Path, task: str, epoch: int) -> ReplyCache:
    """The journal of an episode in the folder of a run. A task's id may be any text, so its digest names the file."""
    return ReplyCache(_file(run, task, epoch))


def _file(run: Path, task: str, epoch: int) -> Path:
    return run / "underway" / f"{hashlib.sha256(task.encode()).hexdigest()[:24]}-{epoch}.jsonl"


def tidy(run: Path, finished: Iterable[Episode]) -> None:
    """Remove the journals of these, of which a kill may leave one, and the folder if there are no others."""
    for episode in finished if (run / "underway").is_dir() else ():
        with suppress(OSError):
            _file(run, episode.task, episode.epoch).unlink()
    with suppress(OSError):
        (run / "underway").rmdir()


def _digest(question: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True, default=dict).encode()).hexdigest()


def _read(path: Path) -> Iterator[tuple[str, Reply]]:
    """The whole lines; a torn last one was never used."""
    with storage_faults(path.parent.parent):
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            require(record, _REPLY)
            require(record["usage"], USAGE)
            for call in record["calls"]:
                require(call, CALL)
            digest, usage = record.pop("question"), Usage(**record.pop("usage"))
            calls = tuple(ToolCall(**call) for call in record.pop("calls"))
            yield digest, Reply(usage=usage, calls=calls, counted=True, **record)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise StoreError(f"{path}, line {number} is not a reply: {error!r}; delete the file to ask again") from error
