"""Predictions made beforehand: both forms, and what does not fit the tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from intercode.errors import DataError, UsageError
from intercode.rescoring.recordings import load_predictions, predicted_tasks
from intercode.types import Task

TASKS = [Task(name, f"query {name}", "SELECT 1") for name in ("0", "1", "b")]


def predicted(folder: Path, text: str | bytes) -> list[str | None]:
    path = folder / "predictions"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = load_predictions(path, TASKS)
    return [found.actions_for(task)[0] for task in TASKS]


def lines(*records: object) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_a_json_list_is_taken_and_a_fence_around_an_action_removed(tmp_path: Path) -> None:
    fenced = "```sql\nSELECT 3;\n```"
    objects = [
        {"task": "b", "action": fenced},
        {"task": "0", "action": "x"},
        {"task": 1, "action": None},
    ]
    assert predicted(tmp_path, json.dumps(objects, indent=1)) == ["x", None, "SELECT 3;"]
    assert predicted_tasks(tmp_path / "predictions") == ["b", "0", "1"]
    assert predicted(tmp_path, json.dumps(["a", fenced, ""])) == ["a", "SELECT 3;", None]
    assert predicted(tmp_path, "[ -f x ] && ls\n[1]\nls\n") == ["[ -f x ] && ls", "[1]", "ls"]
    with pytest.raises(UsageError, match="--only-predicted"):
        predicted_tasks(tmp_path / "predictions")


def test_both_forms_give_each_task_its_action(tmp_path: Path) -> None:
    objects = (
        {"task": "b", "action": "SELECT 3", "model": "x"},
        {"task": 0, "action": "SELECT\n1"},
        {"task": "1", "action": None},
    )
    assert predicted(tmp_path, "\n" + lines(*objects) + "\n\n") == [
        "SELECT\n1",
        None,
        "SELECT 3",
    ], "in any order"
    assert predicted(tmp_path, "SELECT 1\r\n\r\n  SELECT 'ü\u2028' ;  \n") == [
        "SELECT 1",
        None,
        "SELECT 'ü\u2028' ;",
    ]
    assert predicted(tmp_path, b"\xef\xbb\xbfSELECT 1\nSELECT 2\nSELECT 3\n")[0] == "SELECT 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1\nSELECT 2\n", "has 2 lines for 3 tasks"),
        ("", "is empty"),
        (
            lines({"task": "nosuch", "action": "x"}),
            "predicts task 'nosuch', which is not among these tasks",
        ),
        (
            lines({"task": "0", "action": "x"}, {"task": 0, "action": "y"}),
            "line 2: task 0 is predicted twice",
        ),
        (lines({"task": "0", "action": 7}), "line 1: the action of task 0 is 7, not a text"),
        (lines({"task": "0", "sql": "x"}), "line 1: .* is not a prediction"),
        (lines({"id": "0", "query": "q"}), r"line 1: .*\(--data names a file of tasks\)"),
        (lines({"task": "0", "action": "x"}) + "SELECT 1\n", "line 2"),
        (
            lines({"task": "0", "action": "x"}, {"task": "b", "action": "x"}),
            "no prediction for task 1",
        ),
    ],
)
def test_what_does_not_fit_is_the_datas_fault_and_names_the_place(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        predicted(tmp_path, text)


def test_what_cannot_be_read_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: cannot be read"):
        load_predictions(tmp_path / "nowhere", TASKS)
