"""Find and read what other programs recorded: ATIF trajectories, and logs of InterCode v1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from intercode.interop.atif import Object, read_trajectories, trajectory_files
from intercode.interop.v1.logs import read_log
from intercode.interop.v1.trajectories import log_files, read_logs
from intercode.reading import present
from intercode.types import Episode


def recorded_files(path: Path) -> Iterator[Path]:
    """Yield the files at or below `path` that contain trajectories, or logs of single episodes."""
    yield from trajectory_files(path)
    yield from log_files(path)


def read_recorded(path: Path) -> tuple[Object, list[Episode], bool] | None:
    """Return the settings and episodes of a file, or of the files in a folder, and whether the
    middle of a long observation is cut; None for a folder without any. Raises what `read_log`
    raises."""
    if trajectories := read_trajectories(path):
        return *trajectories, "env" in trajectories[0]
    logs = read_logs(path)
    if logs is None and present(path) != "folder":
        logs = read_log(path)
    return logs and (*logs, False)
