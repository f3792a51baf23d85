"""The turns of episodes that are being played, for viewers (`intercode view`).

    RUN/underway/TASK-EPOCH.turns      first line: the episode without turns; then
                                       {"at": position, "turn": …} for each change

A turn changes once: when its question is answered, and again when its action was executed. Its
question is not written here. No result depends on these files: they are not forced to disk, and
errors in writing them are ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from intercode.runner.reply_cache import file_of
from intercode.runs.store import from_json, read_inside, to_json
from intercode.types import Episode, Task, Turn


class LiveTurns(list[Turn]):
    """The turns of one episode; each that is appended is also written to the file. `close` removes
    the file."""

    def __init__(self, run: Path, task: Task, epoch: int, seed: int) -> None:
        super().__init__()
        self._path = file_of(run, task.id, epoch).with_suffix(".turns")
        self._episode = Episode(
            task.id, task.query, (), None, False, None, epoch=epoch, seed=seed, split=task.split
        )
        self._file: int | None = None
        with suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            # left by a killed run, or a link in a folder from elsewhere
            self._path.unlink(missing_ok=True)
            self._file = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
            )
        self._write(to_json(self._episode))

    def append(self, turn: Turn) -> None:
        super().append(turn)
        record = to_json(replace(self._episode, turns=(replace(turn, ask=None),)))["turns"][0]
        self._write({"at": len(self) - 1, "turn": record})

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with suppress(OSError):
                self._path.unlink()

    def _write(self, record: object) -> None:
        if self._file is not None:
            with suppress(OSError, ValueError, TypeError):
                os.write(self._file, json.dumps(record).encode() + b"\n")


def read_live(run: Path) -> Iterator[tuple[Episode, float]]:
    """Yield the unfinished episodes of a run that is being played, each with the time of its last
    change (seconds, Unix).

    They include files that a killed run left, until the run is resumed.
    """
    for path in (run / "underway").glob("*.turns"):
        # such as a file that has just been begun
        with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
            lines = read_inside(run, "underway", path.name).split(b"\n")[:-1]
            record, turns = json.loads(lines[0]), dict[int, object]()
            for line in lines[1:]:
                change = json.loads(line)
                turns[change["at"]] = change["turn"]
            yield (
                from_json({**record, "turns": [turns[at] for at in sorted(turns)]}),
                path.stat().st_mtime,
            )
