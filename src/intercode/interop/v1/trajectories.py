"""Read the logs that InterCode v1's classes write to `traj_dir`, and that its users kept.

    {environment, query_idx, query, gold, reward, trajectory: [{action, observation}, …], info}
    {"0": the same, …}            or several by index, as the log of people who played
    FOLDER/**/log_TIME.json       or a folder of files

An episode ends with a submission, which a log does not contain. It records no exit statuses: an
observation that begins as an error's does is one, and in SQL and Python others are none. A log does
not say who acted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from intercode.errors import DataError
from intercode.interop.atif import Object, Recording, marked_files
from intercode.interop.v1.logs import is_error
from intercode.reading import decoded, leave_out, parse_json, present, read_entries
from intercode.runs.store import read_inside
from intercode.types import Ended, Episode, Turn

_FIELDS = {"environment", "trajectory"}


def _logs(path: Path) -> Iterator[tuple[Path, str, Object]]:
    """Yield the logs in the files at or below `path`, with their files and names."""
    for file in marked_files(path, b'"trajectory"'):
        try:
            content = parse_json(decoded(read_inside(file.parent, file.name), file), file)
        except DataError as error:
            if present(path) == "folder":
                leave_out(error)
            continue
        if not isinstance(content, dict):
            continue
        entries = content
        if content.keys() >= _FIELDS:
            entries = {"0": content}
        for name, entry in entries.items():
            if isinstance(entry, dict) and entry.keys() >= _FIELDS:
                yield file, str(entry.get("query_idx", name)), entry


def log_files(path: Path) -> Iterator[Path]:
    """Yield the file of each log at or below `path`. Links below it are not followed."""
    for file, _, _ in _logs(path):
        yield file


def read_logs(path: Path) -> Recording | None:
    """Return the settings and episodes of the logs at or below `path`; None if there are none.

    Further logs of a query are its epochs; another query with the same index is a task of its own.
    A malformed log is left out with a warning; raises `DataError` if all are.
    """
    episodes = []
    envs = set()
    queries = defaultdict[str, list[str]](list)

    def read(entry: tuple[Path, str, Object]) -> tuple[Episode, str]:
        file, task, log = entry
        of_index, query = queries[task], str(log.get("query", ""))
        epoch = of_index.count(query)
        of_index.append(query)
        if number := list(dict.fromkeys(of_index)).index(query):
            task = f"{task}.{number + 1}"
        try:
            return _episode(task, epoch, log), str(log["environment"]).removeprefix("ic_")
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise DataError(
                f"{file}, episode {task}: it is not an episode of InterCode v1: {error!r:.200}"
            ) from error

    for episode, env in read_entries(_logs(path), read):
        episodes.append(episode)
        envs.add(env)
    if not episodes:
        return None
    settings = {"run": str(path), "agent": "logged", "reward": "paper", "protocol": "submit"}
    if len(envs) == 1:
        settings["env"] = envs.pop()
    return settings, episodes


def _episode(task: str, epoch: int, log: Object) -> Episode:
    score = log.get("reward")
    turns = []
    ended: Ended | None = None
    has_statuses = log["environment"] in ("ic_sql", "ic_python")
    for step in log["trajectory"]:
        action, observation = step["action"], str(step["observation"])
        if not isinstance(action, str):
            raise TypeError(f"the action {action!r:.50} is not text")
        failed = is_error(observation)
        exit_code = None
        if failed or has_statuses:
            exit_code = int(failed)
        turns.append(Turn(action=action, observation=observation, exit_code=exit_code))
    if score is not None:
        score, ended = float(score), "submit"
        turns.append(Turn(action="submit", observation="", score=score))
    query = str(log.get("query", ""))
    episode = Episode(task, query, tuple(turns), score, score == 1, ended, epoch=epoch)
    return replace(episode, takes_answer=False)
