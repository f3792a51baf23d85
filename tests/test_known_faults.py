"""`scripts/known_faults.py`: a fault that is known ends with status 1, one that could not be looked up is said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "known_faults.py"
FINE = {"name": "fine", "version": "1", "vulns": []}
OWN = {"name": "own", "skip_reason": "the service does not know it"}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "CVE-1"}]}


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [([FINE], 0, ""), ([FINE, OWN], 0, "not looked up: own"), ([OWN, BAD], 1, "bad 2 has the known fault CVE-1")],
)
def test_a_known_fault_is_told_from_one_that_was_not_looked_up(
    tmp_path: Path, packages: list[dict[str, Any]], status: int, words: str
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps({"dependencies": packages, "fixes": []}))
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "faults.json"], capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stdout) == (status, True)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def installed(folder: Path, name: str, version: str) -> None:
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("newest", "faults", "status", "words"),
    [
        ("1", [], 0, "looked up: 1 of 2"),
        ("1", [{"id": "CVE-2"}], 1, "own 1 has the known fault CVE-2"),
        ("1", [{"id": "CVE-2", "withdrawn": "2024-01-01T00:00:00Z"}], 0, "looked up: 1 of 2"),
        ("2", [{"id": "CVE-2"}], 0, "not looked up: own (1 is installed, and the newest record is of 2)"),
    ],
)
def test_what_was_not_looked_up_is_looked_up_in_the_newest_record_if_that_is_installed(
    tmp_path: Path, newest: str, faults: list[dict[str, str]], status: int, words: str
) -> None:
    absent = {"name": "absent", "skip_reason": "the service does not know it"}
    (tmp_path / "faults.json").write_text(json.dumps({"dependencies": [OWN, absent]}))
    installed(tmp_path / "packages", "own", "1")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "json").write_text(json.dumps({"info": {"version": newest}, "vulnerabilities": faults}))
    with served(tmp_path) as records:
        asked = [sys.executable, SCRIPT, tmp_path / "faults.json", records, tmp_path / "packages"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stdout) == (status, True)
    assert "not looked up: absent (its newest record cannot be had" in done.stdout
