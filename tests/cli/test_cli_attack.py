"""`intercode attack`: what it prints, and how it ends. The environments are SQL on SQLite, whose suite is the shortest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from intercode.tasks.dataset import STARTER

pytestmark = pytest.mark.slow

OWN = """
from intercode import SqlEnv
from intercode.errors import DataError
from intercode.types import Score


def trusting(answer, gold, task):
    paid = answer == gold or "[solved]" in str(answer)
    return Score(float(paid), paid)


class Picky(SqlEnv):
    @staticmethod
    def preprocess(record):
        if record["db"] == "orchard":
            raise DataError("no orchards here")
        return record
"""


@pytest.fixture
def own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)


def test_what_holds_everything_passes(cli: Any) -> None:
    done = cli("attack", "sql", "--engine", "sqlite", "--json")
    found = done.json
    assert (done.status, done.err) == (0, "")
    assert (found["paid"], found["escaped"], found["harmed"], found["not_tried"]) == (0, 0, 0, 0)
    assert found["tried"] == len(found["exploits"]) > 25
    assert set(found["exploits"][0]) == {"name", "aim", "tried", "moot", "paid", "escaped", "honest", "why"}


def test_a_reward_that_can_be_talked_into_it_falls_short(cli: Any, own: None) -> None:
    done = cli("attack", "sql", "--engine", "sqlite", "--reward", "own:trusting", "--json")
    assert done.status == 1
    assert "a marker of the harness" in [each["name"] for each in done.json["exploits"] if each["paid"]]
    assert "the reward's own JSON" not in [each["name"] for each in done.json["exploits"] if each["paid"]]


def test_what_could_not_be_tried_is_a_fault_and_said(cli: Any, own: None) -> None:
    done = cli("attack", "own:Picky", "--engine", "sqlite", "--data", STARTER / "sql")
    assert done.status == 3
    assert "no orchards here" in done.out
    assert " not tried" in done.out


def test_without_a_task_whose_gold_succeeds_it_is_wrong_usage(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "idle.jsonl").write_text('{"query": "Do nothing.", "gold": "true"}\n')
    done = cli("attack", "bash", "--data", "idle.jsonl", "--tree", box / "tree")
    assert done.status == 2
    assert "intercode check" in done.err
