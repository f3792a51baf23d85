"""`scripts/known_faults.py`: a fault that is known ends with status 1, one that could not be looked
up is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "known_faults.py"
FINE = {"name": "fine", "version": "1", "vulns": []}
OWN = {"name": "own", "skip_reason": "the service does not know it"}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "CVE-1"}]}


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [
        ([FINE], 0, ""),
        ([FINE, OWN], 0, "not looked up: own"),
        ([OWN, BAD], 1, "bad 2 has the known fault CVE-1"),
    ],
)
def test_a_known_fault_is_told_from_one_that_was_not_looked_up(
    tmp_path: Path, packages: list[dict[str, Any]], status: int, words: str
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps({"dependencies": packages, "fixes": []}))
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "faults.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, words in done.stdout) == (status, True)
