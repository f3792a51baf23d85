"""The generation of a data folder: interrupted, resumed, described, and with tasks at known
distances from training."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

from intercode.errors import UsageError
from intercode.generate import FAMILIES, generate
from intercode.generate.families import Family, Question
from intercode.generate.generation import Generation, Plan
from intercode.generate.ladder import SHARES, reserved, rungs

SQL = "sql-shop"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]


class Stopped(Exception):
    """An interruption in the middle of a generation."""


def stop_after(count: int) -> Any:
    left = iter(range(count))

    def on_task() -> None:
        if next(left, None) is None:
            raise Stopped

    return on_task


@pytest.mark.slow
def test_an_interrupted_generation_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    needs_bwrap()
    generate(SQL, n=20, seed=2, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        generate(SQL, n=20, seed=2, out=tmp_path / "parts", on_task=stop_after(18))
    assert len(records(tmp_path / "parts")) > 0
    with pytest.raises(UsageError, match="parts exists; resume it, name a new folder"):
        generate(SQL, n=20, seed=2, out=tmp_path / "parts")
    begun = contents(tmp_path / "parts")
    with pytest.raises(UsageError, match="begun with other options"):
        generate(SQL, n=20, seed=3, out=tmp_path / "parts", resume=True)
    progress = tmp_path / "parts" / "progress.jsonl"
    whole = progress.read_text()
    progress.write_text(f"{whole}?\n")
    with pytest.raises(UsageError, match=r"progress\.jsonl is damaged"):
        generate(SQL, n=20, seed=2, out=tmp_path / "parts", resume=True)
    progress.write_text(whole)
    assert contents(tmp_path / "parts") == begun
    progress.write_text(f'{whole}{{"unit": 99, "ta')  # a line cut off by a crash
    generate(SQL, n=20, seed=2, out=tmp_path / "parts", resume=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    with pytest.raises(UsageError, match="finished; nothing is left to resume"):
        generate(SQL, n=20, seed=2, out=tmp_path / "parts", resume=True)


def test_only_a_generation_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("mine\n")
    with pytest.raises(UsageError, match="exists; name a new folder"):
        generate(SQL, n=20, seed=2, out=tmp_path, resume=True)
    assert (tmp_path / "tasks.jsonl").read_text() == "mine\n"


@pytest.mark.slow
def test_a_card_says_how_a_folder_was_made_and_the_test_split_is_a_ladder(tmp_path: Path) -> None:
    needs_bwrap()
    generate(SQL, n=30, seed=4, out=tmp_path / "data")
    card = json.loads((tmp_path / "data" / "card.json").read_text())
    assert (card["family"], card["n"], card["seed"]) == (SQL, 30, 4)
    assert card["splits"] == {"train": 24, "test": 6}
    assert set(card["digests"]) == {"tasks", "files"}
    assert all(0 < part <= 1 for part in card["yields"].values())
    tasks = records(tmp_path / "data")
    distances = Counter(task["distance"] for task in tasks if task["split"] == "test")
    assert set(distances) == {0, 1, 2, 3, 4}
    assert sum(card["distances"].values()) == 6
    assert set(card["distances"]) <= set(SHARES)
    assert not any("distance" in task for task in tasks if task["split"] == "train")
    known = {task["kind"] for task in tasks if task["split"] == "train"}
    for task in tasks:
        if task["split"] == "test":
            assert task["rung"].startswith(str(task["distance"]))
            assert (task["family"] != SQL) is (task["distance"] == 4)
            kind, _, changed = task["kind"].partition("/")
            steps = len(changed.split("/")) if changed else 0
            assert steps == (task["distance"] if task["distance"] in (1, 2) else 0)
            assert task.get("held_out", False) is (task["distance"] >= 3)
            assert (kind in known) is (task["distance"] < 3)


@pytest.mark.slow
def test_some_kinds_alone_can_be_generated(tmp_path: Path) -> None:
    needs_bwrap()
    generate("bash-files", n=10, seed=1, out=tmp_path / "data", kinds=["lines", "words"])
    tasks = records(tmp_path / "data")
    assert Counter(task["kind"] for task in tasks) == {"lines": 5, "words": 5}
    assert {task["split"] for task in tasks} == {"train", "test"}
    with pytest.raises(UsageError, match="bash-files has no kind 'lyrics' for training"):
        generate("bash-files", n=10, seed=1, out=tmp_path / "more", kinds=["lyrics"])


@pytest.mark.slow
def test_one_split_of_some_difficulties_is_drawn_alone_and_again_the_same(tmp_path: Path) -> None:
    needs_bwrap()
    for folder in ("data", "again"):
        generate(SQL, n=10, seed=3, out=tmp_path / folder, split="test", difficulty=[2, 1])
    tasks = records(tmp_path / "data")
    assert [task["split"] for task in tasks] == ["test"] * 10
    assert {task["difficulty"] for task in tasks} == {1, 2}
    assert {task["distance"] for task in tasks} == {0, 1, 2, 3, 4}
    assert contents(tmp_path / "data") == contents(tmp_path / "again")
    generate("bash-files", n=3, seed=3, out=tmp_path / "hard", split="train", difficulty=[3])
    assert [(task["split"], task["difficulty"]) for task in records(tmp_path / "hard")] == [
        ("train", 3)
    ] * 3


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        (SQL, {"split": "dev"}, "no split is named 'dev'; there are train, test"),
        (SQL, {"difficulty": [1, 7]}, "has the difficulty 7; there are 1, 2, 3"),
        ("python-composed", {"difficulty": [2]}, "is its number of steps: give steps"),
        ("bash-files", {"difficulty": [3], "kinds": ["lines"]}, "fits kinds, difficulty and asks"),
    ],
)
def test_a_split_or_difficulty_that_no_task_can_have_is_refused(
    tmp_path: Path, family: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        generate(family, n=20, seed=1, out=tmp_path / "data", **options)


class Stuck(Family):
    """A family of which one of two kinds never yields a task, since its gold is a mistake."""

    @property
    def questions(self) -> list[Question]:  # type: ignore[override]
        good = FAMILIES["python-text"].questions[0]
        return [good, replace(good, kind="stuck", wrong=[good.gold])]


@pytest.mark.slow
def test_a_kind_that_yields_nothing_leaves_its_tasks_to_others(tmp_path: Path) -> None:
    needs_bwrap()
    family = FAMILIES["python-text"]
    stuck = Stuck(**{one.name: getattr(family, one.name) for one in fields(Family)})
    generation = Generation(Plan(stuck, 20, 1), tmp_path, 2, lambda: None, None)
    generation.run()
    tasks = records(tmp_path)
    assert generation.splits == {"train": 16, "test": 4}
    assert "stuck" not in {task["kind"].partition("/")[0] for task in tasks}
    assert generation.dropped["stuck"]
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["left_out"] == {"stuck": dict(generation.dropped["stuck"].most_common(1))}


def test_steps_are_for_composed_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the tasks of sql-shop have no steps"):
        generate(SQL, n=10, seed=1, out=tmp_path / "data", steps=3)


def words_of(*texts: str) -> set[str]:
    """Return the words, numbers and signs of texts, without their parameters."""
    plain = re.sub(r"<[a-z]\w*>", " ", " ".join(texts))
    return set(re.findall(r"[A-Za-z_]+|\d+|[^\w\s]", plain))


@pytest.mark.parametrize("family", [one for one in FAMILIES.values() if one.questions])
def test_training_has_all_words_of_a_reserved_value_unless_it_is_novel(family: Family) -> None:
    trained = [question for question in family.questions if not question.held_out]
    queries, golds = set[str](), set[str]()
    for question in trained:
        queries |= words_of(*question.query)
        golds |= words_of(question.gold)
        for name, values in question.choices.items():
            for words, code, *_ in values[:-1] if name in reserved(question) else values:
                queries |= words_of(words)
                golds |= words_of(code)
    able = Counter(rung for question in trained for rung in rungs(question))
    assert able["0"] == len(trained)
    assert able["1a"] >= 4
    assert able["1b"] >= 2
    assert able["2a"] + able["2b"] >= 1
    for question in trained:
        for name in reserved(question):
            words, code, *_ = question.choices[name][-1]
            known = words_of(words) <= queries and words_of(code) <= golds
            assert known is (name not in question.novel), (question.kind, name)
