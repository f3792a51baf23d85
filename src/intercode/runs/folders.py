"""The runs that a viewer shows: their settings, figures, episodes, and what is being played at the
moment."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from intercode.envs import language_of
from intercode.errors import IntercodeError, UsageError
from intercode.language import Language
from intercode.report.analysis import is_same_query
from intercode.report.golds import golds_of
from intercode.report.summary import figures, find_runs, is_recorded
from intercode.report.text import one_line
from intercode.rescoring.recordings import load_recording
from intercode.runner.live import read_live
from intercode.runs.index import FACETS, IS_TASK, Index, as_bytes
from intercode.runs.store import read_inside, to_json
from intercode.types import Episode

PARTS = ("episode", "text", "record")
"""The last part of an address of a run's page; it follows the run's name."""
_MINUTE = 60.0


class RunFolder:
    """One run folder. Threads may share it. Raises what reading a run raises, at each use: the
    folder may change or disappear."""

    def __init__(self, path: Path, name: str, data: str | None = None) -> None:
        self.path, self.name, self._data = path, name, data
        self._config: tuple[float, dict[str, Any]] = (-1.0, {})
        self._figures: tuple[object, dict[str, Any]] = (None, {})
        self._facets: tuple[object, dict[str, list[tuple[str, int]]]] = (None, {})
        self.index = Index(path, self.config)

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings in run.json; empty if the file is damaged or gone."""
        with suppress(OSError, ValueError, RecursionError):
            changed = (self.path / "run.json").stat().st_mtime
            if changed != self._config[0]:
                loaded = json.loads(read_inside(self.path, "run.json"))
                self._config = (changed, loaded if isinstance(loaded, dict) else {})
        return self._config[1]

    @property
    def env(self) -> str:
        return str(self.config.get("env"))

    @cached_property
    def language(self) -> Language:
        return language_of(self.config)

    @cached_property
    def golds(self) -> tuple[Mapping[str, str], str]:
        """The gold of each task, or why they are not shown."""
        return golds_of({**self.config, "run": str(self.path)}, self._data)

    def figures(self) -> dict[str, Any]:
        """Return the figures of what is indexed, how many episodes are `listed`, and how many lines
        are `damaged`."""
        covered = self.index.covered
        state = covered, self.config.get("planned")
        if state != self._figures[0]:
            rows = self.index.all()
            current = dict(figures({**self.config, "run": str(self.path)}, rows))
            current |= {"listed": len(rows), "damaged": covered[1]}
            self._figures = state, current
        return self._figures[1]

    def facets(self) -> dict[str, list[tuple[str, int]]]:
        """Return the values of each facet with their numbers of episodes, most frequent first."""
        covered = self.index.covered
        if covered != self._facets[0]:
            names, facets = ", ".join(FACETS), dict[str, list[tuple[str, int]]]()
            rows = self.index.rows(f"SELECT {names}, count(*) AS n FROM episodes GROUP BY {names}")
            for name in FACETS:
                counts = Counter[str]()
                for row in rows:
                    if row[name] is not None:
                        counts[str(row[name])] += row["n"]
                    if name == "state" and row[name] == "ambiguous":  # has failed as well
                        counts["failed"] += row["n"]
                if counts:
                    facets[name] = counts.most_common()
            self._facets = covered, facets
        return self._facets[1]

    def rate(self) -> int:
        """Return the episodes that ended in the last minute."""
        rows = self.index.rows(
            "SELECT count(*) AS n FROM episodes WHERE seen > ?", time.time() - _MINUTE
        )
        return int(rows[0]["n"])

    def live(self) -> list[tuple[Episode, float]]:
        """Return the episodes that are being played, with the time of their last change; none if no
        process plays the run."""
        if not self.is_played:
            return []
        return sorted(read_live(self.path), key=lambda entry: -entry[1])

    @property
    def is_played(self) -> bool:
        """True if a process holds the run's lock. Linux lists locks; taking the lock to find out
        would disturb a run."""
        with suppress(OSError):
            number = f":{self.path.stat().st_ino} "
            return any(
                " FLOCK " in line and number in line
                for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines()
            )
        return False

    def version(self) -> tuple[object, ...]:
        """Return a value that differs after every change that a page could show."""
        state: list[object] = [self.is_played]
        paths = sorted((self.path / "underway").glob("*.turns"))
        for path in [self.path / "episodes.jsonl", *paths]:
            with suppress(OSError):
                status = path.stat()
                state += [path.name, status.st_size, status.st_mtime_ns]
        return tuple(state)


class RunFolders:
    """Find the runs in some folders. The folders are searched each time, since runs appear and
    disappear. `data` is where the data of the runs are now."""

    def __init__(self, paths: Sequence[Path], data: str | None = None) -> None:
        self._data = data
        self._paths = [_as_folder(path) if is_recorded(path) else path for path in paths]
        self._known: dict[Path, RunFolder] = {}
        if not self.all():
            raise UsageError(
                f"{', '.join(map(str, paths))} holds no run; give a run folder, or a folder of runs"
            )

    def all(self) -> dict[str, RunFolder]:
        """Return the runs by name: the path from the given folder, with a number if several have
        it."""
        runs: dict[str, RunFolder] = {}
        for path in self._paths:
            for folder in find_runs(path):
                if folder not in self._known:
                    # may appear in a page and an address
                    inner = folder.relative_to(path).as_posix()
                    base = one_line(folder.resolve().name if inner == "." else inner, 255) or "run"
                    if Path(base).name in PARTS and "/" in base:
                        base += "~"
                    names = {run.name for run in self._known.values()}
                    name, number = base, 1
                    while name in names:
                        number += 1
                        name = f"{base}~{number}"
                    self._known[folder] = RunFolder(folder, name, self._data)
                runs[self._known[folder].name] = self._known[folder]
        return runs


def _as_folder(log: Path) -> Path:
    """Return a temporary run folder with the episodes of a recording in another form. Raises as
    `load_recording` does."""
    recording = load_recording(log)
    parent = tempfile.mkdtemp(prefix="intercode-view-")
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    folder = Path(parent) / log.resolve().stem
    folder.mkdir()
    date = time.strftime("%Y-%m-%d", time.gmtime(log.stat().st_mtime))
    (folder / "run.json").write_text(json.dumps({"created": date, **recording.settings}), "utf-8")
    with (folder / "episodes.jsonl").open("w") as file:
        file.writelines(json.dumps(to_json(episode)) + "\n" for episode in recording.episodes)
    return folder


def others(
    runs: Mapping[str, RunFolder], here: RunFolder, episode: Episode
) -> list[tuple[RunFolder, dict[str, Any]]]:
    """Return the episodes of the same task in other epochs, and in other runs of the same
    environment, with their runs."""
    matches = []
    for run in runs.values():
        with suppress(IntercodeError):
            if run.env == here.env:
                rows = run.index.rows(
                    f"SELECT * FROM episodes WHERE {IS_TASK} ORDER BY epoch", as_bytes(episode.task)
                )
                for row in rows:
                    is_this = run is here and row["epoch"] == episode.epoch
                    if not is_this and is_same_query(row["query"], episode.query):
                        matches.append((run, row))
    return matches
