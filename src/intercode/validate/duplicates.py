"""Find tasks that repeat another one, and the nearest task of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from intercode.tfidf import cosine, vectors
from intercode.types import Task, TaskIssue

NEAR = 0.8
"""The cosine of two queries' TF-IDF vectors from which on they have almost the same words."""
Issues = Sequence[tuple[Task, TaskIssue]]


def find_duplicates(tasks: Sequence[Task]) -> Iterator[tuple[Task, TaskIssue]]:
    """Yield tasks whose query repeats an earlier one but for letter case and blanks, or, with the same gold, almost does."""
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
        group = groups[_database(task), " ".join(task.gold.split())]
        near = next((other for other in group if cosine(weights[other], weights[place]) >= NEAR), None)
        if near is not None:
            yield task, TaskIssue(f"asks almost the same as task {tasks[near].id} and has the same gold", "near_duplicate")
        group.append(place)


def nearest_tasks(tasks: Sequence[Task]) -> Mapping[str, Task]:
    """Return, by task id, the other task of the same database whose query is most similar."""
    by_database = defaultdict[object, list[Task]](list)
    for task in tasks:
        by_database[_database(task)].append(task)
    nearest = {}
    for group in by_database.values():
        weights = vectors([task.query for task in group])
        for place, task in enumerate(group if len(group) > 1 else ()):
            cosines = [-1.0 if other == place else cosine(weights[place], weights[other]) for other in range(len(group))]
            nearest[task.id] = group[cosines.index(max(cosines))]
    return nearest


def _database(task: Task) -> object:
    return task.extra.get("db") or task.extra.get("db_id")
