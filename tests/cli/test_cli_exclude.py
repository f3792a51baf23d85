"""`check --out` writes a report, and `eval --exclude-broken` leaves out what `check` calls broken."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_words import TASKS, write_tasks

import intercode
from intercode.runner.exclusion import kept

pytestmark = pytest.mark.slow
UMASK = os.umask(0o022)
os.umask(UMASK)
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
    there = [path for path in (module_cache / "findings").iterdir() if '"bad"' in path.read_text()]
    there[0].write_text(json.dumps({"broken": [{"task": "count", "kind": "noop_solves", "why": "written by hand"}]}))
    assert len(there) == 1
    again = cli("eval", *words, "--agent", "gold", "--exclude-broken", "--json").json
    assert again["excluded"] == ["count"], "the findings in the cache are used"


def test_findings_of_other_rules_are_not_used(cli: Any, words: Any, tmp_path: Path, module_cache: Path) -> None:
    def after(**variables: str) -> int:
        assert cli("check", *words, **variables).status == 1
        return sum(1 for _ in (module_cache / "findings").iterdir())

    program = tmp_path / "elsewhere" / "intercode"
    shutil.copytree(Path(intercode.__file__).parent, program, ignore=shutil.ignore_patterns("__pycache__"))
    first = after()
    assert after(PYTHONPATH=str(program.parent)) == first, "the same program in another place"
    with (program / "runner" / "doubts" / "bash.py").open("a") as rules:
        rules.write("\n# another rule\n")
    assert after(PYTHONPATH=str(program.parent)) == first + 1


@pytest.mark.parametrize("damage", ["", "{}", '{"broken": [{"task": 1}]}', "[" * 100_000, "\udcff"])
def test_damaged_findings_count_as_none(cli: Any, words: Any, module_cache: Path, damage: str) -> None:
    assert cli("check", *words).status == 1
    found = [path for path in (module_cache / "findings").iterdir() if '"bad"' in path.read_text()]
    for path in found:
        path.write_bytes(damage.encode("utf-8", "surrogateescape"))
    assert cli("eval", *words, "--agent", "gold", "--exclude-broken", "--json").json["excluded"] == ["bad"]
    assert any(kept(path) for path in found), "and they are kept anew"


def test_findings_can_be_read_by_all_who_share_the_cache(cli: Any, words: Any, module_cache: Path) -> None:
    assert cli("check", *words).status == 1
    modes = {path.stat().st_mode & 0o777 for path in (module_cache / "findings").iterdir()}
    assert modes == {0o666 & ~UMASK}


def test_findings_that_cannot_be_kept_are_shown_all_the_same(cli: Any, words: Any, module_cache: Path) -> None:
    folder = module_cache / "findings"
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("in the way")
    done = cli("check", *words, "--json")
    left = cli("eval", *words, "--agent", "gold", "--exclude-broken", "--json")
    folder.unlink()
    assert (done.status, done.json["kinds"]["gold_fails"], "cannot be kept" in done.err) == (1, 1, True)
    assert (left.status, left.json["excluded"]) == (0, ["bad"])


def test_a_report_that_cannot_be_written_is_refused_beforehand(cli: Any, words: Any, tmp_path: Path) -> None:
    done = cli("check", *words, "--out", tmp_path / "nowhere" / "x.md")
    assert (done.status, done.out, "cannot be written" in done.err) == (2, "", True)


def test_a_run_without_its_broken_tasks_is_resumed_without_them(cli: Any, words: Any, tmp_path: Path) -> None:
    how = (*words, "--agent", "gold", "--out", tmp_path / "run")
    assert cli("eval", *how, "--exclude-broken").status == 0
    assert cli("eval", "--resume", tmp_path / "run").status == 0


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
