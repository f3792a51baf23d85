"""Streams that are closed, gone, full, or cannot say everything: the exit status is that of what happened."""

from __future__ import annotations

import json
import os
import pty
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


def test_a_table_on_a_stream_without_its_characters(one: Path, module_cache: Path) -> None:
    done = shell("exec $INTERCODE eval bash --data one.jsonl --agent gold", one.parent, PYTHONIOENCODING="ascii")
    assert (done.returncode, "100.0" in done.stdout) == (0, True)


def test_a_terminal_that_is_gone(one: Path, module_cache: Path) -> None:
    ours, theirs = pty.openpty()
    command = [INTERCODE, "play", "bash", "--data", "one.jsonl"]
    with subprocess.Popen(command, cwd=one.parent, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as player:
        assert player.stdout is not None
        os.close(theirs)
        shown = b""
        while not shown.endswith(b"bash> "):
            shown += player.stdout.read(1)
        os.close(ours)
        _, said = player.communicate(timeout=60)
    assert player.returncode == 3
    assert said.decode().endswith("a terminal or a disk cannot be read or written: Input/output error\n")


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
