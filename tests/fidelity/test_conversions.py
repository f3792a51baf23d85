"""docs/converting-datasets.md, its lines typed over the public files: they print what the page
says."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from following import Step, follow, steps

DOCUMENT = (Path(__file__).parents[2] / "docs" / "converting-datasets.md").read_text()
ALL = [step for step in steps(DOCUMENT) if step.file is None]
LINES = ALL if os.environ.get("INTERCODE_FIDELITY_ALL") else [*ALL[1:3], ALL[-1]]
"""By default those of SQL and CTF: a check of Bash or Python plays its whole set several times."""
pytestmark = pytest.mark.fidelity


@pytest.mark.parametrize("step", LINES, ids=[" ".join(step.text.split()[1:5:2]) for step in LINES])
def test_a_line_of_the_page_prints_what_it_says(
    public_data: Path, image: str, tmp_path: Path, step: Step
) -> None:
    if "mariadb" in str(step) and shutil.which("mariadbd") is None:
        pytest.skip("mariadb-server is not installed")
    for folder in public_data.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    follow(step, tmp_path, {**os.environ, "PATH": path, "COLUMNS": "120"}, ends=(0, 1))
