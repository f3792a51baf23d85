"""`check --against` finds the tasks of a set that are in another set too, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from intercode.errors import UsageError
from intercode.tasks.dataset import open_data
from intercode.types import Task
from intercode.validate.check import check_texts
from intercode.validate.overlap import find_overlap, read_others

STARTER = {env: open_data(None, env=env).tasks for env in ("bash", "sql", "python", "ctf")}
QUERY = "Count the lines of /srv/app/main.log that contain the word error. Print only the number."
TASK = Task("log", QUERY, "grep -cw error /srv/app/main.log")


def kinds(task: Task, other: Task) -> list[str]:
    return [issue.kind for _, issue in find_overlap([task], [other])]


@pytest.mark.parametrize("env", STARTER)
def test_each_starter_task_is_found_in_its_own_set_only(env: str) -> None:
    tasks = STARTER[env]
    issues = list(find_overlap(tasks, tasks))
    assert [task.id for task, _ in issues] == [task.id for task in tasks]
    assert all(f"task {task.id} " in issue and issue.kind == "in_both" for task, issue in issues)
    for other, others in STARTER.items():
        assert other == env or not list(find_overlap(tasks, others))
    assert not [issue for task in tasks for issue in find_overlap([task], [*_without(tasks, task)])]


def _without(tasks: tuple[Task, ...], task: Task) -> Iterator[Task]:
    return (other for other in tasks if other is not task)


@pytest.mark.parametrize(
    ("query", "gold", "kind"),
    [
        (QUERY.upper().replace(".", " !"), "grep -c error /x", "in_both"),
        ("How often is there an error?", "grep  -cw error /srv/app/main.log", "in_both"),
        (QUERY.replace("/srv/app", "/data"), "grep -cw error /data/main.log", "near_in_both"),
        (QUERY.replace("error", "fault"), TASK.gold.replace("error", "fault"), ""),
        (QUERY.replace("main", "other"), TASK.gold.replace("main", "other"), ""),
        ("List the files of /tmp.", "grep -cw error /tmp/main.log", ""),
    ],
)
def test_what_is_the_same_and_what_differs(query: str, gold: str, kind: str) -> None:
    assert kinds(TASK, Task("other", query, gold)) == [kind] * bool(kind)


def test_a_task_of_another_database_is_almost_the_same() -> None:
    task = Task("a", "How many readers are there?", "SELECT COUNT(*) FROM reader", {"db": "north"})
    assert kinds(task, replace(task, extra={"db": "south"})) == ["near_in_both"]
    assert kinds(task, replace(task, gold="SELECT 1", extra={"db": "south"})) == []


def test_a_split_is_compared_with_the_rest_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    rows = [
        {"id": "one", "query": QUERY, "gold": TASK.gold, "split": "train"},
        {"id": "two", "query": QUERY.lower(), "gold": TASK.gold, "split": "test"},
        {"id": "three", "query": "Print the date.", "gold": "date", "split": "train"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    others = read_others("bash", str(tmp_path), data=str(file), split="train")
    assert [task.id for task in others] == ["two"]
    result = check_texts("bash", others=others, data=str(file), split="train")
    assert [row["task"] for row in result["suspicious"] if row["kind"] == "in_both"] == ["one"]
    assert result["kinds"]["in_both"] == 1
    with pytest.raises(UsageError, match="choose a --split"):
        read_others("bash", str(tmp_path), data=str(file))


def test_the_starter_set_is_called_starter(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"query": QUERY, "command": TASK.gold}) + "\n")
    options = {"data": str(file), "gold_fields": ["command"]}
    assert read_others("bash", "starter", **options) == list(STARTER["bash"])
