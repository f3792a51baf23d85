"""What is printed arrives whole, or it is said that it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE
from click import unstyle

from intercode.cli.show import show_tables
from intercode.report.tables import table

pytestmark = pytest.mark.slow

WORLDLESS = [
    {"id": "lines", "query": "Count the lines of /srv/x", "gold": "wc -l < /srv/x"},
    {"id": "words", "query": "Print two words", "gold": "printf '%s\\n' two words"},
    {"id": "none", "query": "Which users begin with zzz?", "gold": "grep ^zzz /etc/passwd"},
]


@pytest.fixture
def worldless(tmp_path: Path) -> Path:
    """Three tasks, of which one needs a file that is not there, and one finds nothing."""
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in WORLDLESS))
    return path


@pytest.mark.parametrize(
    "words", ["eval bash --agent gold --limit 1 --json --data {}", "check bash --data {}", "--help", "eval --help", "--version"]
)
def test_a_full_disk_behind_stdout_is_a_fault_of_the_disk(
    worldless: Path, tmp_path: Path, module_cache: Path, words: str
) -> None:
    with open("/dev/full", "w") as full:
        done = said(words.format(worldless), tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("intercode: stdout, or a file")
    assert done.stderr.endswith("cannot be written: No space left on device\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "status"), [("eval bash --agent gold --data {}", 3), ("eval bash --data nothing", 2)])
@pytest.mark.parametrize("both", [False, True], ids=["stderr", "both"])
def test_a_full_stderr_is_a_fault_of_the_disk_unless_an_error_was_to_be_said(
    worldless: Path, tmp_path: Path, module_cache: Path, words: str, status: int, both: bool
) -> None:
    with open("/dev/full", "w") as full:
        done = said(words.format(worldless), tmp_path, stdout=full if both else subprocess.PIPE, stderr=full)
    assert done.returncode == status


def said(words: str, folder: Path, **streams: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([INTERCODE, *words.split()], cwd=folder, text=True, timeout=60, check=False, **streams)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("options", ["size=4k", "size=20k", "size=400k", "nr_inodes=1", "nr_inodes=5", "ro"])
def test_a_full_cache_is_named(worldless: Path, empty_cache: Path, options: str) -> None:
    """As a copied file, as a copied folder, as what a program writes, and as one in which nothing can be made."""
    _names_the_cache(empty_cache, options, "check", "bash", "--data", worldless)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
def test_a_cache_that_a_tree_fills_is_named(worldless: Path, empty_cache: Path) -> None:
    (worldless.parent / "tree").mkdir()
    (worldless.parent / "tree" / "large").write_bytes(os.urandom(2_000_000))
    _names_the_cache(empty_cache, "size=1m", "check", "bash", "--data", worldless.parent)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
def test_a_cache_that_a_setup_script_fills_is_named(worldless: Path, empty_cache: Path) -> None:
    (worldless.parent / "setup.sh").write_text("head -c 2000000 /dev/urandom > /srv/large\n")
    _names_the_cache(empty_cache, "size=1m", "check", "bash", "--data", worldless.parent)


def _names_the_cache(cache: Path, options: str, *words: object) -> None:
    small = f'mount -t tmpfs -o {options},mode=755 small "$INTERCODE_CACHE" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", small, "sh", INTERCODE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert f"intercode: the cache {cache}" in done.stderr
    assert "cannot be filled" in done.stderr


def test_golds_that_fail_are_named_once_though_they_earn_the_full_reward(cli: Any, worldless: Path) -> None:
    done = cli("eval", "bash", "--data", worldless, "--agent", "gold", "--epochs", "2", "--out", "run", "--json")
    assert (done.status, done.json["success_rate"]) == (0, 1.0)
    assert "golds that end in a failure: 1 (lines)" in done.err


def test_a_gold_that_fails_is_not_counted_as_succeeding(cli: Any, worldless: Path) -> None:
    found = cli("check", "bash", "--data", worldless, "--json").json
    assert ("lines", "gold_fails") in {(row["task"], row["kind"]) for row in found["broken"]}
    assert (found["tasks"], found["gold_ok"]) == (3, 2)


def test_resume_says_when_there_is_nothing_to_go_on_with(cli: Any, worldless: Path) -> None:
    go = ("eval", "bash", "--data", worldless, "--agent", "noop", "--resume", "run")
    assert "it held no run: a new one begins" in cli(*go).err
    (worldless.parent / "run" / "episodes.jsonl").unlink()
    assert "begins" not in cli(*go).err


@pytest.mark.parametrize("columns", [20, 40, 80])
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_no_number_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, terminal: bool
) -> None:
    row = {"agent": "a name that is rather long", "success %": "33.3", "mean": "0.123", "tokens": "1234567", "s": "3456.7"}
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv(*(("FORCE_COLOR", "1") if terminal else ("NO_COLOR", "1")))
    show_tables([table([row])])
    head, _, line, *_ = [line.split() for line in unstyle(capsys.readouterr().out).splitlines() if line.split()]
    assert {"success", "%", "mean", "tokens", "s"} < set(head)
    assert set(line) > {"33.3", "0.123", "1234567", "3456.7"}
    assert terminal or set(row["agent"].split()) < set(line)
