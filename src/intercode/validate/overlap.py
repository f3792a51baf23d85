"""Find the tasks that are in another set too, such as a training task in a test set.

    same words in the query                               → in_both
    same gold                                             → in_both
    almost the same query, and except for the folders of
    files the same gold                                   → near_in_both

In different databases, tasks are only almost the same. Almost the same is a cosine of at least
`NEAR`; the gold has to agree, because different tasks of a generated kind, which differ in a number
or a word, reach 0.96. Of the 197 starter tasks with nine words replaced (Show for Print) and a word
added, 195 remain near. Not found: a reworded task whose gold is written in another way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from intercode.agents.tfidf import cosine, vectors
from intercode.envs import environment_class
from intercode.errors import UsageError
from intercode.types import Task, TaskIssue

NEAR = 0.8
"""Two queries are almost the same if the cosine of their TF-IDF vectors is at least this."""
STARTER = "starter"
"""The name of the tasks that an environment has without --data."""
_FOLDER = re.compile(r"(?<![^\s=<>(])~?/(?:[\w.*-]+/)*(?=[\w.*-]+(?![\w/*-]))")
"""`/srv/` in `wc -l </srv/a.txt`; nothing in `sed 's/a/b/'` or `awk '$1 ~ /x/'`."""


def read_others(env: str, against: str, **options: Any) -> list[Task]:
    """Return the tasks of the set `against` that the options do not select.

    A task is selected if its id and its file are those of a task in the chosen data and split. The
    options that describe the records, such as `query_field`, hold for both sets. Raises
    `UsageError` if no task is left.
    """
    env_class = environment_class(env)
    settings = env_class.Options.of(options, f"the environment {env}")
    checked = env_class.read_data(replace(settings, limit=None))
    elsewhere = replace(settings, data=against, split=None, limit=None)
    if against == STARTER:
        elsewhere = env_class.Options()
    other = env_class.read_data(elsewhere)
    if not (checked.file and other.file and checked.file.resolve() == other.file.resolve()):
        return list(other.tasks)
    selected = {task.id for task in checked.tasks}
    others = [task for task in other.tasks if task.id not in selected]
    if not others:
        raise UsageError(f"{against} contains only the tasks that are checked; choose a --split")
    return others


def find_overlap(tasks: Sequence[Task], others: Sequence[Task]) -> Iterator[tuple[Task, TaskIssue]]:
    """Yield each task that is among the others, the tasks of another set, with the first of them
    that is the same, or else almost the same."""
    by_query = defaultdict(list)
    by_gold = defaultdict(list)
    by_form = defaultdict(list)
    weights = vectors([_without_folders(task.query) for task in (*others, *tasks)])
    for other, weight in zip(others, weights, strict=False):
        by_query[_words(other.query)].append(other)
        for gold in other.golds:
            by_gold[_spaced(gold)].append(other)
        by_form[_without_folders(other.gold)].append((other, weight))
    for task, weight in zip(tasks, weights[len(others) :], strict=True):
        asked = _first_in(task, by_query[_words(task.query)])
        solved = list(chain.from_iterable(by_gold[_spaced(gold)] for gold in task.golds))
        if asked:
            answers = "and has the same gold" if asked in solved else "but has another gold"
            why = f"asks the same as task {asked.id} of the other set {answers}"
            yield task, TaskIssue(why, "in_both")
            continue
        if answered := _first_in(task, solved):
            why = f"has the same gold as task {answered.id} of the other set"
            yield task, TaskIssue(why, "in_both")
            continue
        for other, vector in by_form[_without_folders(task.gold)]:
            if task.gold and cosine(weight, vector) >= NEAR:
                place = "other folders or another database"
                yield (
                    task,
                    TaskIssue(
                        f"is almost task {other.id} of the other set: {place}", "near_in_both"
                    ),
                )
                break


def _first_in(task: Task, others: Sequence[Task]) -> Task | None:
    """Return the first of the tasks that is about the same database."""
    for other in others:
        if database_of(other) == database_of(task):
            return other
    return None


def database_of(task: Task) -> object:
    return task.extra.get("db") or task.extra.get("db_id")


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _without_folders(text: str) -> str:
    return _spaced(_FOLDER.sub("", text))
