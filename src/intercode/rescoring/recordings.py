"""Recorded and predicted actions, for the agents `replay:PATH` and `static:PATH`.

A recording is a run folder, trajectories (ATIF), or a log of InterCode v1.
Predictions are one action for each task, made by any program (the paper's sequence-to-sequence
setting):

    {"task": "0", "action": "SELECT 1"}      JSONL: one object per line, in any order
    SELECT 1                                 or one action per line, in the order of the tasks; an
                                             empty line means no action
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from intercode.agents import SUBMIT
from intercode.agents.code import unfenced
from intercode.doors import part
from intercode.errors import DataError, UsageError
from intercode.options import Settings, split_agent
from intercode.reading import LARGEST, parse_json, present, read_text
from intercode.runs.store import stream_run
from intercode.types import Episode, Task


@dataclass(frozen=True)
class Recording:
    """The settings and episodes of one file or folder. `shortened`: the middle of a long
    observation is cut."""

    path: str
    settings: Settings
    episodes: Sequence[Episode]
    shortened: bool = False

    @property
    def protocol(self) -> str:
        return str(self.settings.get("protocol") or "submit")

    @cached_property
    def _places(self) -> tuple[dict[str, int], dict[str, int]]:
        """The place of the first episode of each task, and of each query."""
        by_task, by_query = dict[str, int](), dict[str, int]()
        for place, episode in enumerate(self.episodes):
            by_task.setdefault(episode.task, place)
            by_query.setdefault(episode.query, place)
        return by_task, by_query

    def find(self, task: Task) -> Episode:
        """Return the episode of `task`: by id if the query agrees, else by query. Raises
        `DataError` if there is none."""
        by_task, by_query = self._places
        if task.id in by_task:
            same_id = self.episodes[by_task[task.id]]
            if same_id.query in task.query or task.query in same_id.query:
                return same_id
        if task.query in by_query:
            return self.episodes[by_query[task.query]]
        raise DataError(
            f"{self.path} has no episode of task {task.id}; "
            "give the data that it was recorded with (--data)"
        )

    def has(self, task: Task) -> bool:
        by_task, by_query = self._places
        return task.id in by_task or task.query in by_query

    def actions_for(self, task: Task) -> Sequence[str | None]:
        """Return the recorded actions; if the recording has no reward, with a submission. Raises
        `UsageError` for those of a command-line agent."""
        require_executable(self.path, self.settings)
        episode = self.find(task)
        actions = [turn.action for turn in episode.line]
        if episode.reward is None and self.protocol == SUBMIT and actions[-1:] != [SUBMIT]:
            actions.append(SUBMIT)
        return actions


def load_recording(path: str | Path) -> Recording:
    """Read a log of InterCode v1, trajectories (a file, or a folder of them), or the first epoch of
    a run folder without the episodes that have no reward.

    Raises `UsageError` if there is no such file or run, `DataError` for a file that is not a log,
    `StoreError` for a damaged run.
    """
    path = Path(path)
    if not present(path / "run.json") and (recorded := part("read_recorded")(path)):
        settings, episodes, shortened = recorded
        return Recording(str(path), settings, episodes, shortened)
    settings, episodes = stream_run(path)
    for key in ("env", "reward", "session", "engine"):
        if not isinstance(settings.get(key) or "", str):
            raise DataError(f"{path / 'run.json'} is not a run's: {key} is not text")
    if settings.get("protocol") not in ("submit", "paper", None):
        raise DataError(
            f"{path / 'run.json'} is not a run's: the protocol {settings['protocol']!r} is unknown"
        )
    first = []
    for place, episode in enumerate(episodes):
        if episode.reward is not None and episode.epoch == 0:
            first.append(place)
    return Recording(str(path), settings, episodes.at(first), shortened=True)


def require_executable(path: object, settings: Settings) -> None:
    """Raise `UsageError` for a recording of a command-line agent, which acts by itself."""
    if split_agent(str(settings.get("agent")))[1].startswith("exec:"):
        raise UsageError(
            f"{path} cannot be executed again: what a command-line agent executes is not recorded"
        )


class Predictions(NamedTuple):
    """The predicted action of each task; None where there is none."""

    path: str
    actions: dict[str, str | None]

    def actions_for(self, task: Task) -> Sequence[str | None]:
        if task.id not in self.actions:
            raise DataError(
                f"{self.path} has no prediction for task {task.id}; "
                "predict every task, or an empty action"
            )
        return [self.actions[task.id]]


def load_predictions(path: str | Path, tasks: Sequence[Task]) -> Predictions:
    """Read predictions: JSON lines or a JSON list of objects with a task and an action, or plain
    lines or a JSON list of texts in the order of the tasks. A fence around a whole action is
    removed.

    Raises `UsageError` for a file that cannot be read, `DataError` for a record that is not a
    prediction of one of `tasks`.
    """
    records = _read_predictions(path)
    if (actions := _by_id(records)) is None:
        if len(records) != len(tasks):
            raise DataError(
                f"{path} has {len(records)} lines for {len(tasks)} tasks; "
                "give one action per line, or JSONL with ids"
            )
        actions = {}
        for task, (where, record) in zip(tasks, records, strict=True):
            actions[task.id] = _action(where, task.id, record)
    if strangers := sorted(set(actions) - {task.id for task in tasks}):
        raise DataError(
            f"{path} predicts task {strangers[0]!r}, which is not among these tasks; "
            "name their data with --data"
        )
    return Predictions(str(path), actions)


def predicted_tasks(path: str | Path) -> list[str]:
    """Return the ids in a file of predictions; `UsageError` if they are without ids."""
    if (actions := _by_id(_read_predictions(path))) is None:
        raise UsageError(f"{path} has no ids: --only-predicted needs records with a task")
    return list(actions)


def _read_predictions(path: str | Path) -> list[tuple[str, Any]]:
    """Return each prediction with its place: objects, or texts for plain actions."""
    text = read_text(path, most=LARGEST)
    if not text:
        raise DataError(f"{path} is empty; give one action per line, or JSONL with ids")
    if text.lstrip().startswith("["):  # a plain action may begin so too
        with suppress(ValueError, RecursionError):
            records = json.loads(text)
            return [(f"{path}, record {n}", record) for n, record in enumerate(records, 1)]
    lines, predictions = text.removesuffix("\n").split("\n"), list[tuple[str, Any]]()
    # a plain action may begin with a brace too
    first = next(filter(str.strip, lines), "").replace(" ", "").lstrip()
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        if not first.startswith('{"'):
            predictions.append((where, line.strip()))
        elif line.strip():
            predictions.append((where, parse_json(line, path, number)))
    return predictions


_EXPECTED = 'an object {"task": …, "action": …} is expected (--data names a file of tasks)'


def _by_id(records: Sequence[tuple[str, Any]]) -> dict[str, str | None] | None:
    """Return the action of each task; None if not all records are objects."""
    if not all(isinstance(record, dict) for _, record in records):
        return None
    actions: dict[str, str | None] = {}
    for where, record in records:
        try:
            task, action = str(record["task"]), record["action"]
        except (KeyError, TypeError) as error:
            raise DataError(f"{where}: {record!r:.60} is not a prediction; {_EXPECTED}") from error
        if task in actions:
            raise DataError(f"{where}: task {task} is predicted twice")
        actions[task] = _action(where, task, action)
    return actions


def _action(where: str, task: str, action: object) -> str | None:
    if not isinstance(action, str | None):
        raise DataError(f"{where}: the action of task {task} is {action!r:.60}, not a text")
    return unfenced(action) or None if action else None
