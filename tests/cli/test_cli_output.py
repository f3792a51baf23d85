"""What is printed arrives whole, or it is said that it cannot be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE
from rich.console import Console

from intercode.cli.show import show_tables
from intercode.report.tables import table

pytestmark = pytest.mark.slow

WORLDLESS = [
    {"id": "lines", "query": "Count the lines of /srv/x", "gold": "wc -l < /srv/x"},
    {"id": "words", "query": "Print two words", "gold": "printf '%s\\n' two words"},
]


@pytest.fixture
def worldless(tmp_path: Path) -> Path:
    """Two tasks, of which one needs a file that is not there."""
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in WORLDLESS))
    return path


@pytest.mark.parametrize("words", ["eval bash --agent gold --limit 1 --json --data", "check bash --data"])
def test_a_full_disk_behind_stdout_is_a_fault_of_the_disk(
    worldless: Path, tmp_path: Path, module_cache: Path, words: str
) -> None:
    command = [INTERCODE, *words.split(), str(worldless)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr.endswith("intercode: stdout cannot be written: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_golds_that_fail_are_named_though_they_earn_the_full_reward(cli: Any, worldless: Path) -> None:
    done = cli("eval", "bash", "--data", worldless, "--agent", "gold", "--out", "run", "--json")
    assert (done.status, done.json["success_rate"]) == (0, 1.0)
    assert "golds that end with a failure: 1 (lines)" in done.err


def test_a_gold_that_fails_is_not_counted_as_succeeding(cli: Any, worldless: Path) -> None:
    found = cli("check", "bash", "--data", worldless, "--json").json
    assert ("lines", "gold_fails") in {(row["task"], row["kind"]) for row in found["broken"]}
    assert (found["tasks"], found["gold_ok"]) == (2, 1)


def test_resume_says_when_there_is_nothing_to_go_on_with(cli: Any, worldless: Path) -> None:
    go = ("eval", "bash", "--data", worldless, "--agent", "noop", "--out", "run", "--resume")
    assert "it held no run: a new one begins" in cli(*go).err
    assert "begins" not in cli(*go).err


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_number_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    row = {"agent": "a name that is rather long", "success %": "33.3", "mean": "0.123", "tokens": "1234567", "s": "3456.7"}
    monkeypatch.setenv("COLUMNS", str(columns))
    for terminal in ("1", "0"):
        monkeypatch.setenv("FORCE_COLOR" if terminal == "1" else "NO_COLOR", "1")
        show_tables([table([row])])
        printed = capsys.readouterr().out
        assert all(row[name] in printed and name in printed for name in ("success %", "mean", "tokens", "s"))
    assert Console().width == columns
