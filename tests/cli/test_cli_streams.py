"""Streams that are closed, gone, full, or cannot say everything: the exit status is that of what happened."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE

pytestmark = pytest.mark.slow

ONE = {"id": "sum", "query": "Print 1 + 1", "gold": "echo 2"}


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(ONE) + "\n")
    return path


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    said = {"cwd": folder, "env": {**os.environ, "INTERCODE": INTERCODE, **environment}, "text": True, "timeout": 60}
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False, **said)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("eval bash --data one.jsonl --agent gold", 0),
        ("eval bash --data nothing", 2),
        ("eval bash --bogus", 2),
        ("--version", 0),
    ],
)
def test_a_closed_stream_is_nowhere(one: Path, module_cache: Path, words: str, status: int, closed: str) -> None:
    done = shell(f"exec $INTERCODE {words} {closed}", one.parent)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)


def test_an_error_keeps_its_status_where_it_cannot_be_shown(one: Path) -> None:
    assert shell("exec $INTERCODE eval bash --bogus 2>/dev/full", one.parent).returncode == 2


def test_a_stream_that_is_open_the_wrong_way(one: Path) -> None:
    done = shell("exec $INTERCODE --version 1</dev/null", one.parent)
    assert (done.returncode, "Bad file descriptor" in done.stderr, "Traceback" in done.stderr) == (3, True, False)


@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
def test_a_table_on_a_stream_without_its_characters(one: Path, module_cache: Path, encoding: str) -> None:
    done = shell("exec $INTERCODE eval bash --data one.jsonl --agent gold", one.parent, PYTHONIOENCODING=encoding)
    assert (done.returncode, "100.0" in done.stdout) == (0, True)


def test_an_input_that_breaks(one: Path, module_cache: Path) -> None:
    """As a terminal does that is gone: reading this process's memory at 0 is an I/O error."""
    command = [INTERCODE, "play", "bash", "--data", "one.jsonl"]
    with open("/proc/self/mem", "rb") as broken:
        done = subprocess.run(command, cwd=one.parent, stdin=broken, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr.endswith("a terminal or a disk cannot be read or written: Input/output error\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize(("words", "status"), [("report run --html small/page", 3), ("report run --html nowhere/page", 2)])
def test_a_page_that_cannot_be_written(one: Path, module_cache: Path, words: str, status: int) -> None:
    small = "mkdir small && mount -t tmpfs -o size=4k none small && exec $INTERCODE"
    assert shell("$INTERCODE eval bash --data one.jsonl --agent gold --out run", one.parent).returncode == 0
    done = shell(f"exec unshare --mount sh -c '{small} {words}'", one.parent)
    assert done.returncode == status
    assert "page cannot be written" in done.stderr


def test_a_report_of_a_run_without_episodes(cli: Any, one: Path) -> None:
    cli("eval", "bash", "--data", one, "--agent", "noop", "--out", "run")
    (one.parent / "run" / "episodes.jsonl").write_text("")
    done = cli("report", "run")
    assert (done.status, done.err) == (0, "")
