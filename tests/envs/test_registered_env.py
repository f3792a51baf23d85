"""An environment that an installed package registers, with a reader for a layout of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kept import needs_bwrap

COMMAND = Path(sys.executable).with_name("intercode")
ENTRIES = "[intercode.environments]\nledger = ledger_env:LedgerEnv\n"
CLASS = """
from pathlib import Path

from intercode import BashEnv


class LedgerEnv(BashEnv):
    @staticmethod
    def records(path: Path):
        for folder in sorted(path.iterdir()):
            yield {
                "id": folder.name,
                "query": (folder / "ask.txt").read_text(),
                "gold": (folder / "solve.sh").read_text(),
            }
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages with a data set of one folder for each task."""
    (tmp_path / "ledger_env.py").write_text(CLASS)
    facts = tmp_path / "ledger-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    for name, gold in (("sum", "echo $((2 + 3))"), ("product", "echo $((2 * 3))")):
        task = tmp_path / "tasks" / name
        task.mkdir(parents=True)
        (task / "ask.txt").write_text(f"Print the {name} of 2 and 3.")
        (task / "solve.sh").write_text(gold)
    return tmp_path


def intercode(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        [COMMAND, *words], cwd=site, env=env, capture_output=True, text=True, check=False
    )


def test_its_name_is_enough_and_its_class_reads_the_data(site: Path) -> None:
    needs_bwrap()
    done = intercode(site, "eval", "ledger", "--data", "tasks", "--agent", "gold", "--json")
    assert done.returncode == 0, done.stderr
    assert '"episodes": 2' in done.stdout
    assert '"success_rate": 1.0' in done.stdout
    assert "ledger" in intercode(site, "eval", "unknown").stderr
