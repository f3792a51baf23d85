"""Streams that are closed, gone, full, or cannot say everything, and a full cache: the exit status
is that of what happened."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE

pytestmark = pytest.mark.slow

EVAL = "eval bash --data one.jsonl --agent gold"


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A folder with one.jsonl, a file of one task."""
    (tmp_path / "one.jsonl").write_text(
        json.dumps({"id": "sum", "query": "Print 1 + 1", "gold": "echo 2"}) + "\n"
    )
    return tmp_path


@pytest.fixture(scope="module")
def played(run_once: Any, box: Path) -> Path:
    """A folder with a run."""
    return Path(run_once("eval", "bash", "--data", box, "--agent", "gold", "--out", "run"))


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "INTERCODE": INTERCODE, **variables}
    words = ["bash", "-c", line]
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_closed_pipe_is_no_crash(one: Path) -> None:
    done = shell(f"$INTERCODE {EVAL} --out run | true; exit ${{PIPESTATUS[0]}}", one)
    assert (done.returncode, done.stderr.count("Traceback")) == (141, 0)
    assert (one / "run" / "episodes.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    "line", ["show run", "report run", "report run --json", "data list", "--help", "eval --help"]
)
def test_a_reader_who_has_enough_is_no_failed_check(played: Path, line: str) -> None:
    done = shell(f"$INTERCODE {line} | true; exit ${{PIPESTATUS[0]}}", played)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        (f"{EVAL} <&- >&- 2>&-", 0, ""),
        ("eval bash --bogus 2>/dev/full", 2, ""),
        (f"{EVAL} 2>/dev/full", 3, ""),
        (
            f"{EVAL} --json >/dev/full",
            3,
            "intercode: stdout, or a file of the run, the cache or TMPDIR cannot be written",
        ),
        ("--version >/dev/full", 3, "No space left on device\n"),
    ],
)
def test_a_stream_that_is_closed_full_or_breaks_is_no_crash(
    one: Path, line: str, status: int, said: str
) -> None:
    done = shell(f"exec $INTERCODE {line}", one)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (
        status,
        True,
        False,
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize(
    ("options", "setup"),
    [("size=20k", ""), ("size=1m", "head -c 2000000 /dev/urandom > /srv/x"), ("ro", "")],
)
def test_a_full_cache_is_named(one: Path, empty_cache: Path, options: str, setup: str) -> None:
    (one / "setup.sh").write_text(setup)
    small = (
        f'mount -t tmpfs -o {options},mode=755 small "$INTERCODE_CACHE" && exec $INTERCODE {EVAL} '
        "--setup setup.sh"
    )
    done = shell(f"exec unshare --mount sh -c '{small}'", one)
    assert done.returncode == 3
    assert f"intercode: the cache {empty_cache}" in done.stderr
    assert "cannot be filled" in done.stderr
