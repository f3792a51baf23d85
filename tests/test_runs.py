"""Runs in Python: played, read, and as tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode
from intercode.errors import UsageError
from intercode.interop.export import export_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> intercode.Run:
    needs_bwrap()
    out = tmp_path_factory.mktemp("runs") / "gold"
    return intercode.evaluate("bash", agent="gold", limit=3, epochs=2, out=out)


def test_a_run_is_played_and_read_again(run: intercode.Run) -> None:
    again = intercode.read_run(run.path)
    assert (again.config, list(again.episodes)) == (run.config, list(run.episodes))
    assert run.summary["success_rate"] == run.summary["pass_hat_k"]["2"]["rate"] == 1.0
    assert repr(run) == f"<Run {run.path}: env='bash', agent='gold', 6 episodes>"
    with pytest.raises(UsageError, match="holds a run"):
        intercode.evaluate("bash", agent="gold", limit=3, epochs=2, out=run.path)
    continued = intercode.evaluate(
        "bash", agent="gold", limit=3, epochs=2, out=run.path, resume=True
    )
    assert list(continued.episodes) == list(run.episodes)


def test_a_run_is_a_table(run: intercode.Run, tmp_path: Path) -> None:
    episodes, turns = run.frame(), run.frame("turns")
    assert list(episodes.reward) == [1.0] * 6
    assert set(episodes.ended) == {"submit"}
    assert set(episodes.rule) <= {"same output"}
    assert len(turns) == episodes.turns.sum() == 12
    file = tmp_path / "turns.csv"
    assert export_run(run.path, "csv", output=file) == (6, 12)
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["action"] for row in rows] == list(turns.action)
    with pytest.raises(UsageError, match="of episodes or of turns"):
        list(run.rows("tasks"))  # type: ignore[arg-type]


def test_what_cannot_be_played_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes no agnet"):
        intercode.evaluate("bash", agnet="gold", out=tmp_path / "run")


def test_an_unknown_task_is_answered_with_the_nearest_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no task has the id 'zzzz'; the nearest are [\w-]+, "):
        intercode.evaluate("bash", agent="gold", task=["zzzz"], out=tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"env": "bahs"}, "bash"),
        ({"agent": "tryagain"}, "try_again"),
        ({"sandbox": "locl"}, "local"),
        ({"task": ["blank-name"]}, "blank-names"),
        ({"data": "spyder"}, "spider"),
    ],
)
def test_a_misspelled_name_is_answered_with_the_right_one(
    options: dict[str, object], name: str, tmp_path: Path
) -> None:
    env = str(options.pop("env", "bash"))
    with pytest.raises(UsageError, match=rf"did you mean '{name}'\?"):
        intercode.evaluate(env, **{"agent": "gold", **options}, out=tmp_path / "run")
