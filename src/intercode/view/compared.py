"""Compare runs, in the viewer and on the page of `report --html`: their settings, and the results
of each on each task."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from intercode.envs import all_options
from intercode.options import SECTIONS, agent_name
from intercode.report.analysis import is_same_query
from intercode.report.summary import Config, EpisodeRow, column, grouped, ratio
from intercode.report.text import one_line
from intercode.report.transcript import State
from intercode.report.turns import task_order
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


class TaskRow(NamedTuple):
    """A task with its query in the first run that has it, and the `TaskResult` of each run or None.
    `id` is unique in a table."""

    id: str
    task: str
    query: str
    results: list[Any]

    @property
    def shares(self) -> list[float | None]:
        """Each run's share of successes."""
        return [result.share if result else None for result in self.results]


def task_rows(runs: Sequence[Iterable[EpisodeRow]]) -> list[TaskRow]:
    """Return the table of tasks × runs, by task. Runs share the tasks that `report` compares."""
    by_id, table = defaultdict[str, list[TaskRow]](list), list[TaskRow]()
    for number, rows in enumerate(runs):
        for task, episodes in grouped(rows, attrgetter("task")).items():
            first = min(episodes, key=lambda row: (RANKS[row.state], row.epoch))
            scored = sum(row.reward is not None for row in episodes)
            same = [row for row in by_id[task] if is_same_query(first.query, row.query)]
            if not same:
                same = [TaskRow(f"k{len(table)}", task, first.query, [None] * len(runs))]
                by_id[task] += same
                table += same
            same[0].results[number] = TaskResult(first, scored, sum(column(episodes, "success")))
    return sorted(table, key=lambda row: task_order(row.task))
