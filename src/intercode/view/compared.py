"""Compare runs, in the viewer and on the page of `report --html`: their settings, and the results
of each on each task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from intercode.envs import all_options
from intercode.options import SECTIONS, agent_name
from intercode.report.summary import Config, EpisodeRow, column, grouped, ratio
from intercode.report.text import one_line
from intercode.report.transcript import State
from intercode.runs.store import LABELS

RANKS: Mapping[State, int] = {"failed": 0, "ambiguous": 0, "fault": 1, "unscored": 1, "solved": 2}
"""The facts that a reader wants to see first."""
_UNSHOWN = {"run", "options", "signature", "verdicts", *LABELS}
"""Facts that say nothing as a setting: labels of each task, and what other facts say again."""
_LONGEST = 300
"""Characters of a setting."""


class ComparedSetting(NamedTuple):
    """A setting with its text in each run; `differs`: a reader should look at it."""

    name: str
    texts: Sequence[str]
    differs: bool


def settings(configs: Sequence[Config]) -> list[ComparedSetting]:
    """Return the settings that any of the runs has: the declared options by the sections of the
    help, then the facts in run.json."""
    options = all_options()
    declared = sorted(options, key=lambda name: SECTIONS.index(options[name].section))
    facts = [name for name in chain.from_iterable(configs) if name not in _UNSHOWN]
    rows = []
    for name in dict.fromkeys(("env", *declared, *facts)):
        values = [config.get(name) for config in configs]
        if any(value not in (None, "", [], {}, False) for value in values):
            texts = list(map(_text_of, values))
            differs = name != "created" and len(set(texts)) > 1
            shown = [one_line(text, _LONGEST) for text in texts]
            rows.append(ComparedSetting(name, shown, differs))
    return rows


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def facts_of(config: Config) -> list[str]:
    """Return a short description of a run."""
    shown = {**config, "agent": agent_name(str(config.get("agent")))}
    names = ("created", "env", "data", "agent", "model")
    return [str(shown[name]) for name in names if shown.get(name)]


class TaskResult(NamedTuple):
    """The result of a run on a task: its scored and solved episodes, and the one to look at first,
    which is the first unsolved one."""

    first: EpisodeRow
    scored: int
    solved: int

    @property
    def share(self) -> float | None:
        return ratio(self.solved, self.scored)


def task_rows(
    tasks: Sequence[str],
    results: Sequence[Mapping[str, TaskResult]],
    queries: Mapping[str, str],
    url: Callable[[int, str], str],
) -> list[dict[str, Any]]:
    """Return the rows of a table of tasks × runs; `url` returns where the result of a run, by its
    number, on a task leads."""
    rows = []
    for task in tasks:
        cells = list[dict[str, Any] | None]()
        for number, by_task in enumerate(results):
            if task in by_task:
                cells.append({"result": by_task[task], "url": url(number, task)})
            else:
                cells.append(None)
        rows.append({"task": task, "id": "", "cells": cells, "query": queries.get(task, "")})
    return rows


def results_by_task(rows: Iterable[EpisodeRow]) -> dict[str, TaskResult]:
    """Return the result of each task."""
    results = {}
    for task, episodes in grouped(rows, attrgetter("task")).items():
        first = min(episodes, key=lambda row: (RANKS[row.state], row.epoch))
        scored = sum(row.reward is not None for row in episodes)
        results[task] = TaskResult(first, scored, sum(column(episodes, "success")))
    return results
