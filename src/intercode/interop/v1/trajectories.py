"""Read the logs that InterCode v1's classes write to `traj_dir`, and that its users kept.

    {environment, query_idx, query, gold, reward, trajectory: [{action, observation}, …], info}
    {"0": the same, …}            or several by index, as the log of people who played
    FOLDER/**/log_TIME.json       or a folder of files

An episode ends with a submission, which a log does not contain. It records no exit statuses: an
observation that begins as an error's does is one, and in SQL and Python others are none. A log does
not say who acted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from intercode.errors import DataError
from intercode.interop.atif import marked_files
from intercode.interop.v1.logs import is_error
from intercode.reading import decoded, leave_out, parse_json, present, read_entries
from intercode.runs.store import read_inside
from intercode.types import Episode, Turn

_FIELDS = {"environment", "trajectory"}


def logs_in(content: object) -> list[tuple[str, dict[str, Any]]]:
    """Return the logs in the JSON of a file, with their names; none if it has another form."""
    if not isinstance(content, dict):
        return []
    if content.keys() >= _FIELDS:
        return [(str(content.get("query_idx", 0)), content)]
    return [
        (str(entry.get("query_idx", name)), entry)
        for name, entry in content.items()
        if isinstance(entry, dict) and entry.keys() >= _FIELDS
    ]


def log_files(path: Path) -> Iterator[Path]:
    """Yield the files with logs at or below `path`. Links below it are not followed."""
    for file in marked_files(path, b'"trajectory"'):
        try:
            if logs_in(_content(file)):
                yield file
        except DataError as error:
            if present(path) == "folder":
                leave_out(error)


def _content(file: Path) -> Any:
    return parse_json(decoded(read_inside(file.parent, file.name), file), file)


def read_logs(path: Path) -> tuple[dict[str, Any], list[Episode]] | None:
    """Return the settings and episodes of the logs at or below `path`; None if there are none.

    Further logs of a query are its epochs; another query with the same index is a task of its own.
    A malformed log is left out with a warning; raises `DataError` if all are.
    """
    episodes, envs, queries = list[Episode](), set[str](), dict[str, list[str]]()

    def read(entry: tuple[Path, str, dict[str, Any]]) -> tuple[Episode, str]:
        file, task, log = entry
        of_index = queries.setdefault(task, [])
        query = str(log.get("query", ""))
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

    logs = ((file, task, log) for file in log_files(path) for task, log in logs_in(_content(file)))
    for episode, env in read_entries(logs, read):
        episodes.append(episode)
        envs.add(env)
    if not episodes:
        return None
    settings = {"env": envs.pop()} if len(envs) == 1 else {}
    return {
        "run": str(path),
        "agent": "logged",
        "reward": "paper",
        "protocol": "submit",
        **settings,
    }, episodes


def _episode(task: str, epoch: int, log: Mapping[str, Any]) -> Episode:
    turns, reward = list[Turn](), log.get("reward")
    fine = 0 if log["environment"] in ("ic_sql", "ic_python") else None
    for step in log["trajectory"]:
        action, seen = step["action"], str(step["observation"])
        if not isinstance(action, str):
            raise TypeError(f"the action {action!r:.50} is not text")
        exit_code = 1 if is_error(seen) else fine
        turns.append(Turn(action=action, observation=seen, exit_code=exit_code))
    score = None if reward is None else float(reward)
    if score is not None:
        turns.append(Turn(action="submit", observation="", score=score))
    return Episode(
        task,
        str(log.get("query", "")),
        tuple(turns),
        score,
        score == 1,
        None if score is None else "submit",
        epoch=epoch,
        takes_answer=False,
    )
