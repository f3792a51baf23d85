"""`check --out` writes a report, and `eval --exclude-broken` leaves out what `check` calls broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_words import TASKS, write_tasks

import intercode

pytestmark = pytest.mark.slow
BAD = {"id": "bad", "query": "Print what /box/nosuch holds.", "gold": "cat /box/nosuch"}
DOUBTFUL = {"id": "doubtful", "query": "Print the first 2 letters of /box/b.", "gold": "head -c 9 /box/b"}


@pytest.fixture
def words(box: Path, tmp_path: Path) -> tuple[object, ...]:
    return ("bash", "--data", write_tasks(tmp_path / "t.jsonl", [*TASKS[:2], BAD, DOUBTFUL]), "--tree", box / "tree")


def test_broken_tasks_are_left_out_and_the_report_says_which(cli: Any, words: Any, tmp_path: Path, module_cache: Path) -> None:
    run = tmp_path / "run"
    done = cli("eval", *words, "--agent", "gold", "--exclude-broken", "--out", run, "--json")
    assert (done.status, done.json["episodes"], done.json["excluded"]) == (0, 3, ["bad"])
    assert json.loads((run / "run.json").read_text())["excluded"]["bad"].startswith("gold_fails: gold ends with status 1")
    assert "left out as broken: 1 tasks (run.json says why): bad" in cli("report", run).out
    with_all = cli("eval", *words, "--agent", "gold", "--json").json
    assert (with_all["episodes"], "excluded" in with_all) == (4, False)
    kept = [path for path in (module_cache / "findings").iterdir() if '"bad"' in path.read_text()]
    kept[0].write_text(json.dumps({"broken": [{"task": "count", "kind": "noop_solves", "why": "written by hand"}]}))
    assert len(kept) == 1
    again = cli("eval", *words, "--agent", "gold", "--exclude-broken", "--json").json
    assert again["excluded"] == ["count"], "the findings in the cache are used"


def test_findings_of_other_rules_are_not_used(cli: Any, words: Any, tmp_path: Path, module_cache: Path) -> None:
    def kept(**variables: str) -> int:
        assert cli("check", *words, **variables).status == 1
        return sum(1 for _ in (module_cache / "findings").iterdir())

    program = tmp_path / "elsewhere" / "intercode"
    shutil.copytree(Path(intercode.__file__).parent, program, ignore=shutil.ignore_patterns("__pycache__"))
    first = kept()
    assert kept(PYTHONPATH=str(program.parent)) == first, "the same program in another place"
    with (program / "runner" / "doubts" / "bash.py").open("a") as rules:
        rules.write("\n# another rule\n")
    assert kept(PYTHONPATH=str(program.parent)) == first + 1


def test_a_set_with_nothing_left_is_refused(cli: Any, box: Path, tmp_path: Path) -> None:
    words = ("--data", write_tasks(tmp_path / "t.jsonl", [BAD]), "--tree", box / "tree")
    done = cli("eval", "bash", *words, "--agent", "gold", "--exclude-broken")
    assert (done.status, "every task is broken" in done.err) == (2, True)


def test_a_report_has_numbers_and_examples_of_each_kind(cli: Any, words: Any, tmp_path: Path) -> None:
    done = cli("check", *words, "--out", tmp_path / "found.md", "--json")
    text = (tmp_path / "found.md").read_text()
    assert done.status == 1
    assert {row["task"] for row in done.json["broken"]} == {"bad"}
    assert ("doubtful", "disagrees") in {(row["task"], row["kind"]) for row in done.json["suspicious"]}
    assert f"| gold_fails | broken | {done.json['kinds']['gold_fails']} |" in text
    assert f"| disagrees | suspicious | {done.json['kinds']['disagrees']} |" in text
    assert "- task bad: gold ends with status 1" in text


def test_a_set_whose_databases_are_absent_is_looked_at(cli: Any, tmp_path: Path) -> None:
    task = {"id": "odd", "query": "What is the average age?", "gold": "SELECT age FROM pet", "db": "absent"}
    done = cli("check", "sql", "--data", write_tasks(tmp_path / "t.jsonl", [task]), "--static", "--json")
    assert (done.status, done.json["gold_ok"]) == (0, None)
    assert [row["kind"] for row in done.json["suspicious"]] == ["disagrees"]
