"""`intercode report`: one run closely, two compared, the page and the plots; on our runs and on the first system's logs."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from chromium import browser, needs_chromium
from cli_words import INTERCODE
from kept import needs_bwrap

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(box: Path, module_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run over two epochs that solves all, `gold`, and of one that solves two tasks of five."""
    needs_bwrap()
    folder = tmp_path_factory.mktemp("runs")
    (folder / "answers").write_text("ls /box | wc -l\ncat /nowhere\ncat /nowhere\nls /box\ncat /box/a\n")
    guess, gold = "score answers --env bash --out guess", "eval bash --agent gold --epochs 2 --out gold"
    for words in (guess, gold):
        subprocess.run([INTERCODE, *words.split(), "--data", box], cwd=folder, capture_output=True, check=True)
    return folder


@pytest.fixture
def guessed(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)


@pytest.mark.usefixtures("guessed")
def test_a_folder_of_runs_is_all_of_them(cli: Any) -> None:
    assert cli("report", ".", "--json").json == cli("report", "gold", "guess", "--json").json


@pytest.mark.usefixtures("guessed")
def test_one_run_is_looked_at_closely(cli: Any) -> None:
    found = cli("report", "guess", "--json").json["analysis"]
    assert [row["solved"] for row in found["by_turn"]] == [0.0, 0.4]
    assert found["actions"]["all"]["errors"] == 0.4
    assert {row["name"]: row["episodes"] for row in found["failures"]} == {"only errors": 2, "wrong answer": 1}
    assert found["failures"][0]["examples"][0]["action"] == "cat /nowhere"
    shown = cli("report", "guess")
    assert (shown.status, shown.err) == (0, "")
    assert all(words in shown.out for words in ("by turn", "only errors", "every action failed", "exploring %"))


@pytest.mark.usefixtures("guessed")
def test_two_runs_are_compared_task_by_task(cli: Any) -> None:
    found = cli("report", "guess", "gold", "--json").json["comparison"]
    assert (found["tasks"], found["difference"], found["p_value"]) == (5, 0.6, 0.25)
    assert [flip["task"] for flip in found["gained"]] == ["first", "last", "touch"]
    shown = cli("report", "guess", "gold")
    assert "gained (3)" in shown.out
    assert "touch: Make the empty file" in shown.out


@pytest.mark.usefixtures("guessed")
def test_chances_with_several_attempts_are_shown(cli: Any) -> None:
    assert {k: part["rate"] for k, part in cli("report", "gold", "--json").json["pass_at_k"].items()} == {"1": 1.0, "2": 1.0}
    assert "pass@k" in cli("report", "gold").out


@pytest.mark.usefixtures("guessed")
def test_the_page_and_the_plots_are_written_beside_what_is_printed(cli: Any, tmp_path: Path) -> None:
    plain, more = cli("report", "guess", "--json"), cli("report", "guess", "--json", "--html", "p.html", "--plots", "plots")
    assert (more.status, more.out) == (0, plain.out)
    assert (tmp_path / "p.html").read_text().startswith("<!DOCTYPE html>")
    assert {path.name for path in (tmp_path / "plots").iterdir()} >= {"success-by-turn.svg", "failures.svg"}
    lost = cli("report", "guess", "--html", tmp_path / "nowhere" / "p.html")
    assert (lost.status, "nowhere/p.html cannot be written" in lost.err) == (2, True)


@needs_chromium
@pytest.mark.usefixtures("guessed")
def test_the_page_of_a_real_run_is_quiet_in_a_browser_and_no_wider_than_a_phone(cli: Any, tmp_path: Path) -> None:
    assert cli("report", "guess", "gold", "--html", "p.html").status == 0
    with browser() as tab:
        for width, dark in product((1280, 400), (False, True)):
            tab.open(tmp_path / "p.html", width=width, dark=dark)
            assert (tab.complaints, tab.requests) == ([], [(tmp_path / "p.html").as_uri()])
            assert tab.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth") is True


def test_a_log_of_the_first_system_is_a_run_as_well(cli: Any, tmp_path: Path) -> None:
    turns = {"actions": ["SELECT 1"], "observations": ["[(1,)]"], "rewards": [1.0], "valid_action": [True]}
    entry = {
        "environment": "ic_sql",
        "task_id": 0,
        "query": "One.",
        "turn_history": turns,
        "summary": {"max_reward": 1.0, "turns_max": 10},
    }
    (tmp_path / "log.json").write_text(json.dumps({"0": entry}))
    found = cli("report", "log.json", "--json").json
    assert (found["run"], found["env"], found["agent"], found["success_rate"]) == ("log.json", "sql", "try_again", 1.0)


@pytest.mark.usefixtures("guessed")
def test_runs_without_a_common_task_stand_side_by_side_uncompared(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "guess" / "episodes.jsonl"
    file.write_text(file.read_text().replace('"task": "', '"task": "other-'))
    assert cli("report", "guess", "gold", "--json").json["comparison"] is None
    assert "no task in common" in cli("report", "guess", "gold").out
