"""Static predictions: one action a task, made beforehand by anything at all (the paper's sequence-to-sequence setting).

{"task": "0", "action": "SELECT 1"}      JSONL: one object a line, in any order
SELECT 1                                 or one action a line, in the order of the tasks; an empty line is no action
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from intercode.errors import DataError, UsageError
from intercode.types import Task


@dataclass(frozen=True)
class Predictions:
    """What was predicted for each task; None where nothing was."""

    path: str
    actions: dict[str, str | None]

    def actions_for(self, task: Task) -> Sequence[str | None]:
        if task.id not in self.actions:
            raise DataError(f"{self.path} has no prediction for task {task.id}; predict every task, or an empty action")
        return [self.actions[task.id]]


def load_predictions(path: str | Path, tasks: Sequence[Task]) -> Predictions:
    """Raises `UsageError` if the file cannot be read, `DataError` naming the line if it does not fit the tasks."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the predictions {path} cannot be read: {error}") from error
    if not text:
        raise DataError(f"{path} is empty; give one action a line, or JSONL with ids")
    lines = text.removesuffix("\n").split("\n")
    if (
        next(filter(str.strip, lines), "").lstrip().replace(" ", "").startswith('{"')
    ):  # an action may begin with a brace as well
        actions = _by_id(path, lines)
    elif len(lines) == len(tasks):
        actions = {task.id: line.strip() or None for task, line in zip(tasks, lines, strict=True)}
    else:
        raise DataError(f"{path} has {len(lines)} lines for {len(tasks)} tasks; give one action a line, or JSONL with ids")
    if strangers := sorted(set(actions) - {task.id for task in tasks}):
        raise DataError(f"{path} predicts task {strangers[0]!r}, which is not among these tasks; name their data with --data")
    return Predictions(str(path), actions)


def _by_id(path: str | Path, lines: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
            task, action = str(record["task"]), record["action"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f'{where}: {error!r}; an object {{"task": …, "action": …}} is expected') from error
        if not isinstance(action, str | None):
            raise DataError(f"{where}: the action of task {task} is {action!r:.60}, not a text")
        if task in found:
            raise DataError(f"{where}: task {task} is predicted twice")
        found[task] = action or None
    return found
