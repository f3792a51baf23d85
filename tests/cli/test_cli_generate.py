"""`data generate`, and `--split` on tasks that have splits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(cli: Any, tmp_path: Path) -> Path:
    """A folder with ten generated tasks, two of them of the split test."""
    done = cli("data", "generate", "sql-shop", "--n", 10, "--seed", 2, "--out", "shop")
    assert done.status == 0, done.err
    first, kept, *_, last = done.out.splitlines()
    assert first == "shop: 8 tasks of the split train, 2 tasks of the split test"
    assert kept.startswith("kept of what was drawn: ")
    assert kept.endswith("%")
    assert last == "next: intercode eval sql --data shop --split test --agent gold"
    return tmp_path / "shop"


def test_families_are_listed_and_mistakes_are_explained(cli: Any, shop: Path) -> None:
    assert "bash-files" in cli("data", "list").out.partition("Families")[2]
    assert cli("data", "generate", "poems", "--out", "new").err.startswith(
        "intercode: no family is named 'poems'; there are bash-"
    )
    assert (
        "n is 3; a family needs at least 10 tasks"
        in cli("data", "generate", "sql-shop", "--n", 3, "--out", "new").err
    )
    again = cli("data", "generate", "sql-shop", "--out", "shop")
    assert (again.status, again.err) == (
        2,
        "intercode: shop exists; name a new folder, or remove it first\n",
    )


def test_one_split_and_difficulty_can_be_generated(cli: Any, tmp_path: Path) -> None:
    words = ("data", "generate", "python-text", "--n", 2, "--split", "test", "--out", "hard")
    done = cli(*words, "--difficulty", "2,3")
    assert done.out.splitlines()[0] == "hard: 2 tasks of the split test"
    tasks = map(json.loads, (tmp_path / "hard" / "tasks.jsonl").read_text().splitlines())
    assert {task["difficulty"] for task in tasks} <= {2, 3}
    wrong = cli(*words, "--difficulty", "easy")
    assert (wrong.status, "'easy' is not a list of numbers such as 1,2" in wrong.err) == (2, True)


def test_one_split_is_played_resumed_and_checked(cli: Any, shop: Path, tmp_path: Path) -> None:
    words = ("eval", "sql", "--data", "shop", "--split", "test")
    assert cli(*words, "--agent", "gold", "--out", "run", "--json").json["success_rate"] == 1
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (settings["split"], settings["options"]["split"]) == ("test", "test")
    assert cli("eval", "--resume", "run", "--json").json["episodes"] == 2
    assert "split: 'test' → 'train'" in cli("eval", "--resume", "run", "--split", "train").err
    assert (
        cli("check", "sql", "--data", "shop", "--split", "train", "--static", "--json").json[
            "tasks"
        ]
        == 8
    )
    assert cli("check", "sql", "--data", "shop", "--split", "test", "--json").json["gold_ok"] == 2
    unknown = cli("eval", "sql", "--data", "shop", "--split", "dev", "--agent", "gold")
    assert (unknown.status, unknown.err) == (
        2,
        "intercode: no task has the split 'dev'; there are test, train\n",
    )
    without = cli("eval", "bash", "--split", "dev", "--agent", "gold")
    assert (without.status, without.err) == (
        2,
        "intercode: no task has the split 'dev'; no task has a field `split`\n",
    )


def test_under_a_split_retrieval_knows_only_the_other_splits(cli: Any, tmp_path: Path) -> None:
    tasks = [
        {"id": "asked", "query": "Print the word pear.", "gold": "echo pear", "split": "test"},
        {"id": "twin", "query": "Print the word pear now.", "gold": "echo  pear", "split": "test"},
        {"id": "other", "query": "Print the word plum.", "gold": "echo plum", "split": "train"},
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    words = ("eval", "bash", "--data", "tasks.jsonl", "--agent", "retrieval", "--json")
    assert cli(*words, "--task", "asked", "--out", "all").json["success_rate"] == 1
    assert (
        cli(*words, "--task", "asked", "--split", "test", "--out", "other").json["success_rate"]
        == 0
    )
