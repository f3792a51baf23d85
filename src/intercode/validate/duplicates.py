"""Tasks that are like each other: repeated ones, and each one's nearest neighbour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from intercode.tasks.issues import TaskIssue
from intercode.tfidf import cosine, vectors
from intercode.types import Task

NEAR = 0.8
"""The cosine of two queries' TF-IDF vectors from which on they are almost the same words."""
Found = tuple[Task, TaskIssue]


def repeated(tasks: Sequence[Task]) -> Iterator[Found]:
    """Tasks that ask what an earlier one asks: but for letter case and blanks, or with the same gold almost so."""
    earlier: dict[str, Task] = {}
    for task in tasks:
        first = earlier.setdefault(" ".join(task.query.lower().split()), task)
        if first is not task:
            answers = "and has the same gold" if first.gold == task.gold else "but has another gold"
            yield task, TaskIssue(f"asks the same as task {first.id} {answers}", "duplicate")
    tasks = list(earlier.values())
    groups = defaultdict[tuple[object, str], list[int]](list)
    weights = vectors([task.query for task in tasks])
    for place, task in enumerate(tasks):
        group = groups[_world(task), " ".join(task.gold.split())]
        near = next((other for other in group if cosine(weights[other], weights[place]) >= NEAR), None)
        if near is not None:
            yield task, TaskIssue(f"asks almost the same as task {tasks[near].id} and has the same gold", "near_duplicate")
        group.append(place)


def neighbours(tasks: Sequence[Task]) -> Mapping[str, Task]:
    """By its id, of each task the one with the most similar query; of those that are played on the same database."""
    worlds = defaultdict[object, list[Task]](list)
    for task in tasks:
        worlds[_world(task)].append(task)
    nearest = {}
    for group in worlds.values():
        weights = vectors([task.query for task in group])
        for place, task in enumerate(group if len(group) > 1 else ()):
            likeness = [-1.0 if other == place else cosine(weights[place], weights[other]) for other in range(len(group))]
            nearest[task.id] = group[likeness.index(max(likeness))]
    return nearest


def _world(task: Task) -> object:
    return task.extra.get("db") or task.extra.get("db_id")
